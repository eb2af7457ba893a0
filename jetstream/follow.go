package jetstream

import (
	"context"
	"fmt"

	"mulligan/pkg/messages"
)

// Follow calls fn with each message of the stream that matches one of filters
// (none means all), from sequence from on (0 and 1: from the first), in order,
// each once, as they are stored, over reconnects and restarts of the broker,
// until ctx is done; then it returns the cause of ctx. Fn is called by one
// goroutine at a time and holds up what follows. CALLS and SCHEDULE are work
// queues and cannot be followed.
func (p *Pool) Follow(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored)) error {
	name := p.names.StreamName(stream)
	from = max(from, 1)
	err := p.readOrdered(ctx, reading{
		stream: name, filters: filters,
		start: func() position { return position{from: from} },
		message: func(s messages.Stored, _ uint64) {
			if s.Sequence >= from {
				from = s.Sequence + 1
				fn(s)
			}
		},
	})
	return fmt.Errorf("follow %s: %w", name, err)
}
