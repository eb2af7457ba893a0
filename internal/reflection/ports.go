package reflection

import (
	"context"
	"time"

	"mulligan/pkg/messages"
)

// Story reads and writes what is known of a call.
type Story interface {
	Names() messages.Pool
	// PutOnce: the first write wins. (nil, nil) when ours is stored, the winner
	// when another is there; an error means that nothing is known.
	PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error)
	// Get reads the last message on a subject from the stream's leader;
	// [messages.ErrNotFound] for none.
	Get(ctx context.Context, subject string) (messages.Stored, error)
	// ListFrom calls fn with the messages that match, from a sequence on, in the
	// order of the stream, until fn returns false.
	ListFrom(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored) bool) error
	// GetPayload reads a body that was put aside.
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Deliveries hands over failures.
type Deliveries interface {
	Fetch(ctx context.Context, stream messages.Stream, consumer string, max int, wait time.Duration) ([]messages.Delivery, error)
	Ack(ctx context.Context, d messages.Delivery) error
	Nak(ctx context.Context, d messages.Delivery) error
	Extend(ctx context.Context, d messages.Delivery) error
}

// Registry follows the tools that there are.
type Registry interface {
	// Watch gives the entries that are there, calls ready once, then the
	// changes, until ctx is done.
	Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error
}

// Broker is all that a reflector needs of a pool.
type Broker interface {
	Story
	Deliveries
	Registry
}
