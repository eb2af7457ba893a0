package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"mulligan/internal/pace"
	"mulligan/internal/subject"
	"mulligan/pkg/messages"
)

// Of an ordered reading.
const (
	orderedBatch     = 256              // messages asked for at most
	orderedBytes     = 16 << 20         // of one pull, see pullBytes
	orderedHeartbeat = 2 * time.Second  // of a pull that brings nothing
	orderedPatience  = 5 * time.Second  // without a message or heartbeat; then bind again
	orderedPull      = 30 * time.Second // life of one pull
	orderedKept      = time.Minute      // of a consumer that nobody reads
	rebindPause      = 50 * time.Millisecond
	rebindPauseMost  = 2 * time.Second
)

// reading is one ordered way through a stream, over as many short-lived
// consumers as it takes: each restart of the broker, each silence and each gap
// binds a new one behind the last message that was handed on.
type reading struct {
	stream  string
	filters []string
	// headersOnly leaves the bodies with the broker.
	headersOnly bool

	start   func() position      // where to bind, asked each time
	bound   func(pending uint64) // how many are there now; may be nil
	message func(s messages.Stored, pending uint64)
}

type position struct {
	from           uint64
	lastPerSubject bool // the newest of each subject, then what comes; from is unused
}

// readOrdered reads until ctx is done, and outlasts a broker that is away. It
// ends early only where the stream does not exist from the start, or the
// connection was closed.
func (p *Pool) readOrdered(ctx context.Context, r reading) error {
	r.filters = subject.Minimal(r.filters)
	pauses := pace.New(rebindPause, rebindPauseMost)
	for tries := 0; ; tries++ {
		progress, err := p.readBound(ctx, r)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p.nc.IsClosed():
			return nats.ErrConnectionClosed
		case tries == 0 && errors.Is(err, messages.ErrNotFound):
			return err
		}
		if progress {
			pauses = pace.New(rebindPause, rebindPauseMost)
		}
		p.cfg.Log.Debug("reading binds again", "stream", r.stream, "cause", err)
		if !pauses.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

// readBound makes one consumer and reads from it until something ends it.
// Progress says that the consumer was made.
func (p *Pool) readBound(ctx context.Context, r reading) (progress bool, err error) {
	link := p.linkUp()
	b := binding{p: p, r: r, in: make(chan *nats.Msg, 2*orderedBatch+64)}
	b.inbox = p.nc.NewInbox()
	sub, err := p.nc.ChanSubscribe(b.inbox, b.in)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone, and the interest with it
	pending, err := b.create(ctx)
	if err != nil {
		return false, err
	}
	defer b.remove(ctx)
	if r.bound != nil {
		r.bound(pending)
	}
	return true, b.run(ctx, link)
}

// binding is one consumer of a reading.
type binding struct {
	p     *Pool
	r     reading
	name  string
	inbox string
	in    chan *nats.Msg
	asked int    // messages that pulls under way may still bring
	last  uint64 // consumer sequence seen last
}

func (b *binding) create(ctx context.Context) (pending uint64, err error) {
	at := b.r.start()
	cfg := natsjs.ConsumerConfig{
		Name:              "r-" + nuid.Next(),
		AckPolicy:         natsjs.AckNonePolicy,
		DeliverPolicy:     natsjs.DeliverByStartSequencePolicy,
		OptStartSeq:       max(at.from, 1),
		FilterSubjects:    b.r.filters,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: orderedKept,
		HeadersOnly:       b.r.headersOnly,
	}
	if at.lastPerSubject {
		cfg.DeliverPolicy, cfg.OptStartSeq = natsjs.DeliverLastPerSubjectPolicy, 0
	}
	request := consumerRequest{Stream: b.r.stream, Config: cfg, Action: "create"}
	var info struct {
		Pending uint64 `json:"num_pending"`
	}
	if err := b.p.api(ctx, "CONSUMER.CREATE."+b.r.stream+"."+cfg.Name, request, &info); err != nil {
		return 0, translate("read", b.r.stream, err)
	}
	b.name = cfg.Name
	return info.Pending, nil
}

// remove drops the consumer; where that fails the server does it after orderedKept.
func (b *binding) remove(ctx context.Context) {
	if !b.p.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := b.p.api(ctx, "CONSUMER.DELETE."+b.r.stream+"."+b.name, nil, nil); err != nil {
		b.p.cfg.Log.Debug("consumer of a reading was not removed", "stream", b.r.stream, "error", err)
	}
}

var errSilent = errors.New("the broker sent neither a message nor a heartbeat")

func (b *binding) run(ctx context.Context, link <-chan struct{}) error {
	silence := time.NewTimer(orderedPatience)
	defer silence.Stop()
	for {
		if err := b.ask(); err != nil {
			return err
		}
		select {
		case m := <-b.in:
			silence.Reset(orderedPatience)
			if err := b.take(m); err != nil {
				return err
			}
		case <-silence.C:
			return errSilent
		case <-link:
			return errDisconnected
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask keeps between half a batch and a batch under way.
func (b *binding) ask() error {
	if b.asked > orderedBatch/2 {
		return nil
	}
	n := orderedBatch - b.asked
	b.asked += n
	return b.p.pull(b.r.stream, b.name, b.inbox, pullRequest{Batch: n, Bytes: orderedBytes, Expires: orderedPull, Heartbeat: orderedHeartbeat})
}

func (b *binding) take(m *nats.Msg) error {
	text := m.Header.Get("Description")
	switch status := statusOf(m); {
	case status == "":
	case status == "100":
		return nil
	case status == "408", status == "409" && (text == textBytes || text == textComplete):
		left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			return fmt.Errorf("a pull ended without its rest: %w", err)
		}
		b.asked = max(0, b.asked-left)
		return nil
	default:
		return fmt.Errorf("the broker ended a pull: %s %s", status, text)
	}
	a, err := parseAck(m.Reply)
	if err != nil {
		return err
	}
	if a.consumer != b.last+1 {
		return fmt.Errorf("a gap: message %d of the consumer came after %d", a.consumer, b.last)
	}
	b.last = a.consumer
	b.asked--
	b.r.message(storedOf(m, a), a.pendingLeft)
	return nil
}
