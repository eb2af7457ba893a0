package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"mulligan/pkg/messages"
)

// headerSize is what the broker adds to a message that it hands over without
// its body.
const headerSize = "Nats-Msg-Size"

var errAllRead = errors.New("all is read")

// ListHeads calls fn with each message of the stream that matches filter, from
// sequence from on, without its body, until fn returns false or what was there
// when it began is read. It goes on over reconnects. CALLS and SCHEDULE are
// work queues and are listed whole only.
func (p *Pool) ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from = max(from, 1)
	err := p.readOrdered(ctx, reading{
		stream: p.names.StreamName(stream), filters: []string{filter}, headersOnly: true,
		start: func() position { return position{from: from} },
		bound: func(pending uint64) {
			if pending == 0 {
				stop(errAllRead)
			}
		},
		message: func(s messages.Stored, pending uint64) {
			if s.Sequence < from || ctx.Err() != nil {
				return
			}
			from = s.Sequence + 1
			delete(s.Header, headerSize)
			if !fn(s) || pending == 0 {
				stop(errAllRead)
			}
		},
	})
	if errors.Is(err, errAllRead) {
		return nil
	}
	return fmt.Errorf("list %s: %w", p.names.StreamName(stream), err)
}

// Matching is how many messages of the stream match filter now. It reads one of
// them at the most: the broker says how many come after it. Any replica answers.
// It costs the broker a walk over the subjects that match, some tens of
// milliseconds for a million.
func (p *Pool) Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error) {
	return p.matching(ctx, p.names.StreamName(stream), filter)
}

func (p *Pool) matching(ctx context.Context, stream, filter string) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit(ctx), ErrNoAnswer)
	defer cancel()
	body := fmt.Appendf(nil, `{"seq":1,"next_by_subj":%q,"batch":1,"max_bytes":1}`, filter)
	m, err := p.nc.RequestWithContext(ctx, apiPrefix+"DIRECT.GET."+stream, body)
	if err != nil {
		return 0, translate("count", stream, err)
	}
	switch status := directStatus(m); status {
	case "404", "204":
		return 0, nil
	case "":
	default:
		return 0, fmt.Errorf("count %s: the broker answered %s %s", stream, status, m.Header.Get("Description"))
	}
	after, err := strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count %s: a message without the number of those after it, but %.80q", stream, m.Header.Get("Nats-Num-Pending"))
	}
	return after + 1, nil
}
