package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// Get returns the last message on subject, wildcards allowed, as the leader of
// its stream has it now. ErrNotFound where there is none.
func (p *Pool) Get(ctx context.Context, subject string) (messages.Stored, error) {
	stream, ok := p.names.StreamOf(subject)
	if !ok {
		return messages.Stored{}, fmt.Errorf("get %s: no stream of pool %s holds this subject", clip(subject), p.names.Prefix())
	}
	return p.leaderGet(ctx, p.names.StreamName(stream), getRequest{LastFor: subject})
}

// Find is Get for a subject that is written once, one of RESULTS or RECOVERY,
// and likely to be there. Whichever replica has the message gives it, for a third
// of what the leader's answer costs: there never is another. That there is none
// the leader alone may say (P7.5).
func (p *Pool) Find(ctx context.Context, subject string) (messages.Stored, error) {
	stream, ok := p.names.StreamOf(subject)
	if !ok || stream != messages.StreamResults && stream != messages.StreamRecovery {
		return messages.Stored{}, fmt.Errorf("find %s: only RESULTS and RECOVERY hold what never changes", clip(subject))
	}
	body, err := getRequest{LastFor: subject}.encode()
	if err != nil {
		return messages.Stored{}, err
	}
	m, err := p.ask(ctx, apiPrefix+"DIRECT.GET."+p.names.StreamName(stream), nil, body)
	if err == nil && directStatus(m) == "" {
		if s, err := directStored(m); err == nil {
			return s, nil
		}
	}
	return p.Get(ctx, subject)
}

// getRequest asks the leader for one message: the last on a subject, or the
// next one from a sequence on.
type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

// encode writes what JSON is for the usual request without an encoder.
func (r getRequest) encode() ([]byte, error) {
	if r.Seq == 0 && r.NextFor == "" && isPlain([]byte(r.LastFor)) {
		return []byte(`{"last_by_subj":"` + r.LastFor + `"}`), nil
	}
	return json.Marshal(r)
}

// LastSequence is the sequence of the last message that the stream stored.
func (p *Pool) LastSequence(ctx context.Context, stream messages.Stream) (uint64, error) {
	name := p.names.StreamName(stream)
	info, err := p.streamInfo(ctx, name)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

// Count is how many messages the stream holds that match filter, or with an
// empty one all that it holds. It reads none of them: the broker tells a new
// consumer how many are before it, in about a millisecond at a million subjects.
// CALLS and SCHEDULE are work queues and are counted as a whole only.
func (p *Pool) Count(ctx context.Context, stream messages.Stream, filter string) (uint64, error) {
	name := p.names.StreamName(stream)
	if filter == "" {
		info, err := p.streamInfo(ctx, name)
		return info.State.Msgs, err
	}
	b := binding{p: p, r: reading{stream: name, filters: []string{filter}, start: func() position { return position{} }}}
	pending, err := b.create(ctx)
	if err != nil {
		return 0, err
	}
	b.remove(ctx)
	return pending, nil
}

// Usage is how many bytes the broker holds for this account, in files, and how
// many of them are queued calls and the head of CALLS. Failed is what failures that have no decision,
// and decisions that are not done with, come to: their number is exact, their
// size the mean of what RECOVERY holds, since the broker counts no bytes for a
// consumer. What waits in SCHEDULE is not in it.
func (p *Pool) Usage(ctx context.Context) (stored, queued, failed int64, err error) {
	var account struct {
		Storage int64 `json:"storage"`
	}
	if err := p.api(ctx, "INFO", nil, &account); err != nil {
		return 0, 0, 0, translate("look at", "the account", err)
	}
	calls, err := p.streamInfo(ctx, p.names.StreamName(messages.StreamCalls))
	if err != nil {
		return 0, 0, 0, err
	}
	failed, err = p.failed(ctx)
	return account.Storage, int64(calls.State.Bytes), failed, err
}

func (p *Pool) failed(ctx context.Context) (int64, error) {
	recovery, err := p.streamInfo(ctx, p.names.StreamName(messages.StreamRecovery))
	if err != nil || recovery.State.Msgs == 0 {
		return 0, err
	}
	open := 0
	for _, consumer := range []string{messages.ConsumerReflector, messages.ConsumerDecisions} {
		waiting, unacked, err := p.Backlog(ctx, messages.StreamRecovery, consumer)
		if err != nil {
			return 0, err
		}
		open += waiting + unacked
	}
	return int64(open) * int64(recovery.State.Bytes/recovery.State.Msgs), nil
}

type streamInfo struct {
	Config natsjs.StreamConfig `json:"config"`
	State  natsjs.StreamState  `json:"state"`
}

func (p *Pool) streamInfo(ctx context.Context, name string) (streamInfo, error) {
	var info streamInfo
	err := p.api(ctx, "STREAM.INFO."+name, nil, &info)
	return info, translate("look at stream", name, err)
}

// resultsRetention is how long RESULTS keeps a result, as its stream says; it
// is read once for a connection.
func (p *Pool) resultsRetention(ctx context.Context) (time.Duration, error) {
	p.mu.Lock()
	known := p.retention
	p.mu.Unlock()
	if known != 0 {
		return known, nil
	}
	info, err := p.streamInfo(ctx, p.names.StreamName(messages.StreamResults))
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	p.retention = info.Config.MaxAge
	p.mu.Unlock()
	return info.Config.MaxAge, nil
}

// Purge removes all messages whose subject matches filter; schedules among
// them no longer fire.
func (p *Pool) Purge(ctx context.Context, filter string) error {
	stream, ok := p.names.StreamOf(filter)
	if !ok {
		return fmt.Errorf("purge %s: no stream of pool %s holds this subject", clip(filter), p.names.Prefix())
	}
	if stream == messages.StreamCalls {
		return p.removeCalls(ctx, filter)
	}
	request := struct {
		Filter string `json:"filter"`
	}{filter}
	return translate("purge", filter, p.api(ctx, "STREAM.PURGE."+p.names.StreamName(stream), request, nil))
}

// removeCalls removes what is queued one by one. A purge by subject of what a
// consumer has handed over moves its floors so that a later ack passes over
// other calls in hand, which then are never handed out again (nats-server
// 2.15.2; jetstream/purge_test.go).
func (p *Pool) removeCalls(ctx context.Context, filter string) error {
	stream := p.names.StreamName(messages.StreamCalls)
	for from := uint64(1); ; from++ {
		m, err := p.leaderGet(ctx, stream, getRequest{Seq: from, NextFor: filter})
		if errors.Is(err, messages.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		from = m.Sequence
		if _, err := p.removeMessage(ctx, messages.StreamCalls, m); err != nil {
			return err
		}
	}
}
