package worker

import (
	"context"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Live are tools that come and go while a worker runs, all of one queue: those
// of a server that is asked which it has, such as *mcptool.Server.
type Live interface {
	Queue() string
	// Tools are those that there are now, which may be none, and a channel that is
	// closed when they are others.
	Tools() (now []*tool.Tool, changed <-chan struct{})
}

// Deliveries hands over calls and settles them. Settling is fire and forget.
type Deliveries interface {
	Fetch(ctx context.Context, stream messages.Stream, consumer string, max int, wait time.Duration) ([]messages.Delivery, error)
	Ack(ctx context.Context, d messages.Delivery) error
	Nak(ctx context.Context, d messages.Delivery) error
	Extend(ctx context.Context, d messages.Delivery) error
}

// Outcomes keeps what is written once, and reads it from the leader.
type Outcomes interface {
	PutOnce(ctx context.Context, m messages.Message) (winner *messages.Stored, err error)
	Get(ctx context.Context, subject string) (messages.Stored, error)
}

// Payloads keeps what is too large for a message.
type Payloads interface {
	PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Registry is where a worker offers its tools and learns of cancels, of breakers
// and of what others serve. Load reads from the leader.
type Registry interface {
	Request(ctx context.Context, endpoint string, body []byte) ([]byte, error)
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
}

// Broker is what a worker needs of the pool; *jetstream.Pool is one.
type Broker interface {
	Names() messages.Pool
	Deliveries
	Outcomes
	Payloads
	Registry
}
