package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// ErrNewerTopology says that the streams were made by a newer build.
var ErrNewerTopology = errors.New("the topology is newer than this build")

// ErrForeignStream says that a stream of our name was not made by us.
var ErrForeignStream = errors.New("a stream of this name was not made by Mulligan")

// Provision makes the streams, buckets and shared consumers of the pool, or
// brings those that exist to cfg as far as they can change while in use. It may
// be repeated, and several coordinators may do it at once. It looks at every
// stream before it changes one, and changes nothing when one is newer than
// this build (ErrNewerTopology) or not ours (ErrForeignStream).
func (p *Pool) Provision(ctx context.Context, cfg TopologyConfig) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	if err := checkServer(p.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	streams := cfg.streams(p.names)
	have := make([]*natsjs.StreamConfig, len(streams))
	for i, want := range streams {
		var err error
		if have[i], err = p.existing(ctx, want.Name); err != nil {
			return err
		}
	}
	for i, want := range streams {
		if err := p.ensureStream(ctx, have[i], want); err != nil {
			return err
		}
	}
	if err := p.ensureHead(ctx); err != nil {
		return err
	}
	for _, c := range sharedConsumers(p.names) {
		if _, err := p.ensureConsumer(ctx, p.names.StreamName(c.stream), p.durable(c.name, c.filter)); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.retention = cfg.ResultsAge
	p.mu.Unlock()
	return nil
}

// ProvisionPatiently is Provision for a service, which waits for a broker that
// is not there yet or goes away meanwhile, and says so in the log now and then.
// Every other error, that of a connection that was refused for good among
// them, ends it.
func (p *Pool) ProvisionPatiently(ctx context.Context, cfg TopologyConfig) error {
	var said time.Time
	for pauses := pace.New(rebindPause, rebindPauseMost); ; {
		err := ErrUnreachable
		if p.nc.IsConnected() { // else not even its version is known
			err = p.Provision(ctx, cfg)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p.nc.IsClosed():
			return p.closedBy()
		case !passes(err):
			return err
		}
		if time.Since(said) >= waitingSaid {
			p.cfg.Log.Warn("the streams of the pool cannot be made yet; waiting for the broker", "error", err)
			said = time.Now()
		}
		if !pauses.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

const waitingSaid = 10 * time.Second

// passes says whether an error is that of a broker that is not there, or of one
// that has yet to find its leaders.
func passes(err error) bool {
	var api *natsjs.APIError
	switch {
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrNoAnswer), errors.Is(err, errDisconnected), errors.Is(err, nats.ErrNoResponders):
		return true
	case errors.As(err, &api):
		return api.Code == http.StatusServiceUnavailable && !errors.Is(err, messages.ErrFull) || forming(api)
	}
	return false
}

// forming is what a cluster says of itself whose brokers do not all know each
// other yet, as while it starts: it finds no place for replicas, and neither
// tags nor room are the reason.
func forming(api *natsjs.APIError) bool {
	return api.ErrorCode == noPeers && !strings.Contains(api.Description, "tag") && !strings.Contains(api.Description, "storage")
}

const noPeers natsjs.ErrorCode = 10005

// checkServer refuses a server without message schedules, which would take the
// configuration and then never fire. An unreadable version is let through.
func checkServer(version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil || a > 2 || a == 2 && b >= 12 {
		return nil
	}
	return fmt.Errorf("nats-server %s has no message schedules: run 2.12 or later", version)
}

// existing is the configuration of a stream that is there and may be changed
// by this build, or nil.
func (p *Pool) existing(ctx context.Context, name string) (*natsjs.StreamConfig, error) {
	info, err := p.streamInfo(ctx, name)
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, ours := info.Config.Metadata[metadataVersion]
	if !ours {
		return nil, fmt.Errorf("stream %s: %w; give this pool another prefix, or remove the stream", name, ErrForeignStream)
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("stream %s: topology version %.20q is not a number", name, text)
	}
	if version > TopologyVersion {
		return nil, fmt.Errorf("stream %s has topology version %d, this build knows up to %d: %w; start a build of that version", name, version, TopologyVersion, ErrNewerTopology)
	}
	return &info.Config, nil
}

func (p *Pool) ensureStream(ctx context.Context, have *natsjs.StreamConfig, want natsjs.StreamConfig) error {
	if have == nil {
		err := p.api(ctx, "STREAM.CREATE."+want.Name, want, nil)
		if !isCode(err, codeNameInUse) {
			return translate("make stream", want.Name, err)
		}
		// Another coordinator was first.
		if have, err = p.existing(ctx, want.Name); err != nil {
			return err
		}
		if have == nil {
			return fmt.Errorf("make stream %s: it is there and gone again; try again", want.Name)
		}
	}
	merged, err := merge(*have, want)
	if err != nil || reflect.DeepEqual(merged, *have) {
		return err
	}
	return translate("change stream", want.Name, p.api(ctx, "STREAM.UPDATE."+want.Name, merged, nil))
}

// ensureHead has CALLS begin with a message that no lane holds and nobody takes. A
// consumer that stands at the first message of its stream looks through the subjects of
// all that wait in its lane before it hands over the next (nats-server 2.15.2), which
// with a million calls takes ten milliseconds; behind the head it never stands
// there (ADR 0026). Nothing is wrong without it: a full queue gets it at the next start.
func (p *Pool) ensureHead(ctx context.Context) error {
	_, err := p.store(ctx, p.names.CallsHead(), nil, nil)
	if errors.Is(err, messages.ErrExists) || errors.Is(err, messages.ErrFull) {
		return nil
	}
	return err
}

// merge is have with what we want, except for what a stream can never change,
// and what belongs to whoever runs the broker (placement, compression, texts).
func merge(have, want natsjs.StreamConfig) (natsjs.StreamConfig, error) {
	if have.Retention != want.Retention {
		return have, fmt.Errorf("stream %s keeps messages by %v where this build needs %v, and that can never change; use another prefix", have.Name, have.Retention, want.Retention)
	}
	have.Subjects = want.Subjects
	have.Replicas = want.Replicas
	have.MaxBytes, have.MaxAge = want.MaxBytes, want.MaxAge
	have.MaxMsgs, have.MaxMsgsPerSubject = want.MaxMsgs, want.MaxMsgsPerSubject
	have.Discard, have.DiscardNewPerSubject = want.Discard, want.DiscardNewPerSubject
	have.Duplicates = want.Duplicates
	have.RePublish = want.RePublish
	have.AllowDirect = want.AllowDirect
	have.AllowMsgTTL, have.SubjectDeleteMarkerTTL = want.AllowMsgTTL, want.SubjectDeleteMarkerTTL
	have.AllowMsgSchedules, have.AllowRollup = want.AllowMsgSchedules, want.AllowRollup
	have.Metadata = maps.Clone(have.Metadata)
	maps.Copy(have.Metadata, want.Metadata)
	return have, nil
}
