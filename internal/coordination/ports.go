package coordination

import (
	"context"
	"time"

	"mulligan/pkg/messages"
)

// Streams writes and reads the streams. Get reads from the leader: nothing
// that is decided here rests on a read that may be old (P7.5). Find is the same,
// and cheaper, for what is written once and is likely to be there.
type Streams interface {
	PutOnce(ctx context.Context, m messages.Message) (winner *messages.Stored, err error)
	Get(ctx context.Context, subject string) (messages.Stored, error)
	Find(ctx context.Context, subject string) (messages.Stored, error)
	Publish(ctx context.Context, m messages.Message) error
	PublishAll(ctx context.Context, ms []messages.Message) []error
	List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error
}

// Counts says how much a stream holds, and what, without its bodies.
type Counts interface {
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
	Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error)
	ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error
}

// Schedules makes something happen later, and takes it back.
type Schedules interface {
	Schedule(ctx context.Context, d messages.Due) error
	Purge(ctx context.Context, filter string) error
}

// Erasing removes what belongs to a run, for good.
type Erasing interface {
	Erase(ctx context.Context, stream messages.Stream, filter string) (removed int64, err error)
	EraseEntries(ctx context.Context, b messages.Bucket, filter string) (removed int64, err error)
}

// Deliveries hands over triggers and settles them, unfenced.
type Deliveries interface {
	Fetch(ctx context.Context, stream messages.Stream, consumer string, max int, wait time.Duration) ([]messages.Delivery, error)
	Ack(ctx context.Context, d messages.Delivery) error
	Nak(ctx context.Context, d messages.Delivery) error
	Extend(ctx context.Context, d messages.Delivery) error
}

// Queues makes and measures the queues of CALLS.
type Queues interface {
	SetQueue(ctx context.Context, queue string, inFlight int, paused bool) error
	Backlog(ctx context.Context, stream messages.Stream, consumer string) (waiting, unacked int, err error)
}

// Values reads and writes the buckets.
type Values interface {
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (revision uint64, err error)
	Put(ctx context.Context, b messages.Bucket, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, b messages.Bucket, key string) error
}

// Views sees a bucket as a whole.
type Views interface {
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
	EachEntry(ctx context.Context, b messages.Bucket, filter string, fn func(messages.Entry) bool) error
	Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error
}

// Payloads keeps what is too large for a message.
type Payloads interface {
	PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Services answers requests until ctx is done. Ready is called when requests
// find us.
type Services interface {
	Serve(ctx context.Context, endpoint string, ready func(), handle func(ctx context.Context, request []byte) (reply []byte)) error
}

// Peers are the other coordinators: what they are told is stored nowhere, and
// may be lost.
type Peers interface {
	Tell(topic string, body []byte) error
	Hear(ctx context.Context, topic string, ready func(), fn func(body []byte)) error
}

// Broker is all of it, as one connection to a pool gives it.
type Broker interface {
	Names() messages.Pool
	Streams
	Counts
	Schedules
	Erasing
	Deliveries
	Queues
	Values
	Views
	Payloads
	Services
	Peers
}
