package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/internal/subject"
	"mulligan/pkg/messages"
)

// Of a listing.
const (
	// fewMessages are read one by one from the leader before the rest is read in
	// batches: the story of a call is short.
	fewMessages = 16
	listBatch   = 512     // messages of one batch
	listBytes   = 8 << 20 // of one batch; it may go over by one message
)

// List calls fn with each message of the stream that matches one of filters
// (none means all), in the order of the stream, until fn returns false. It
// sees at least what the leader held when List was called and still holds.
func (p *Pool) List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error {
	return p.list(ctx, p.names.StreamName(stream), filters, 1, fn)
}

// ListFrom is List from a sequence on, for whoever has seen what is before it.
func (p *Pool) ListFrom(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored) bool) error {
	return p.list(ctx, p.names.StreamName(stream), filters, max(from, 1), fn)
}

func (p *Pool) list(ctx context.Context, stream string, filters []string, from uint64, fn func(messages.Stored) bool) error {
	if len(filters) == 0 {
		filters = []string{">"}
	}
	l := listing{p: p, ctx: ctx, stream: stream, filters: subject.Minimal(filters), next: from, fn: fn}
	l.read = l.fromLeader
	if err := l.merge(fewMessages); err != nil || l.ended {
		return err
	}
	l.read = l.inBatches
	return l.merge(0)
}

// listing is one call of List.
type listing struct {
	p       *Pool
	ctx     context.Context
	stream  string
	filters []string
	fn      func(messages.Stored) bool
	read    func(filter string, from uint64) ([]messages.Stored, error)

	next  uint64 // sequence from which nothing was shown yet
	ended bool   // fn had enough, or everything was shown
}

// merge shows what the filters find in the order of the stream, at most limit
// messages (0: all).
func (l *listing) merge(limit int) error {
	found := make([][]messages.Stored, len(l.filters)) // read and not shown, of each filter
	done := make([]bool, len(l.filters))
	for n := 0; limit == 0 || n < limit; n++ {
		first := -1
		for i, filter := range l.filters {
			if len(found[i]) == 0 && !done[i] {
				var err error
				if found[i], err = l.read(filter, l.next); err != nil {
					return err
				}
				done[i] = len(found[i]) == 0
			}
			if !done[i] && (first < 0 || found[i][0].Sequence < found[first][0].Sequence) {
				first = i
			}
		}
		if first < 0 {
			l.ended = true
			return nil
		}
		if err := l.show(found[first][0]); err != nil || l.ended {
			return err
		}
		for i := range found { // filters may overlap
			for len(found[i]) > 0 && found[i][0].Sequence < l.next {
				found[i] = found[i][1:]
			}
		}
	}
	return nil
}

func (l *listing) show(s messages.Stored) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	l.next = s.Sequence + 1
	if !l.fn(s) {
		l.ended = true
	}
	return nil
}

func (l *listing) fromLeader(filter string, from uint64) ([]messages.Stored, error) {
	s, err := l.p.leaderGet(l.ctx, l.stream, getRequest{Seq: from, NextFor: filter})
	if isCode(err, codeNoMessage) {
		return nil, nil
	}
	return []messages.Stored{s}, err
}

// inBatches reads many at a time from whichever replica answers. One that lags
// shows less, so the leader says when a filter has no more.
func (l *listing) inBatches(filter string, from uint64) ([]messages.Stored, error) {
	found, err := l.fromAny(filter, from)
	if err == nil && len(found) == 0 {
		return l.fromLeader(filter, from)
	}
	return found, err
}

// fromAny reads a batch by a direct get.
func (l *listing) fromAny(filter string, from uint64) ([]messages.Stored, error) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.p.limit(l.ctx), ErrNoAnswer)
	defer cancel()
	link := l.p.linkUp()
	in := make(chan *nats.Msg, listBatch+8)
	inbox := l.p.nc.NewInbox()
	sub, err := l.p.nc.ChanSubscribe(inbox, in)
	if err != nil {
		return nil, translate("list", l.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only with the connection, which ends the interest too
	body := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`, from, filter, listBatch, listBytes)
	if err := l.p.nc.PublishRequest(apiPrefix+"DIRECT.GET."+l.stream, inbox, body); err != nil {
		return nil, translate("list", l.stream, err)
	}
	var out []messages.Stored
	for {
		select {
		case m := <-in:
			switch status := directStatus(m); status {
			case "":
			case "204", "404":
				return out, nil
			default:
				return nil, fmt.Errorf("list %s: the broker answered %s %s", l.stream, status, m.Header.Get("Description"))
			}
			s, err := directStored(m)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", l.stream, err)
			}
			out = append(out, s)
		case <-link:
			return nil, fmt.Errorf("list %s: %w", l.stream, errDisconnected)
		case <-ctx.Done():
			return nil, fmt.Errorf("list %s: %w", l.stream, context.Cause(ctx))
		}
	}
}

// directStatus is the status of a message that ends a batch. A stored message
// has a sequence, whatever else its headers say.
func directStatus(m *nats.Msg) string {
	if m.Header.Get("Nats-Sequence") != "" {
		return ""
	}
	return m.Header.Get("Status")
}

// directStored takes the headers that a direct get adds off again.
func directStored(m *nats.Msg) (messages.Stored, error) {
	h := m.Header
	seq, err := strconv.ParseUint(h.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return messages.Stored{}, fmt.Errorf("a message without its sequence, but %.80q", h.Get("Nats-Sequence"))
	}
	at, err := time.Parse(time.RFC3339Nano, h.Get("Nats-Time-Stamp"))
	if err != nil {
		return messages.Stored{}, fmt.Errorf("message %d without its time, but %.80q", seq, h.Get("Nats-Time-Stamp"))
	}
	subj := h.Get("Nats-Subject")
	if subj == "" {
		return messages.Stored{}, errors.New("a message without its subject")
	}
	for _, key := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"} {
		delete(h, key)
	}
	return messages.Stored{
		Message:  messages.Message{Subject: subj, Header: messages.Header(h), Body: m.Data},
		Sequence: seq, Time: at,
	}, nil
}
