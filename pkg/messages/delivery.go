package messages

import (
	"errors"
	"time"
)

// Message is what is published: a subject, headers, a body.
type Message struct {
	Subject string
	Header  Header
	Body    []byte
}

// Stored is a message as a stream holds it.
type Stored struct {
	Message
	Sequence uint64    // in its stream
	Time     time.Time // when it was stored
}

// Delivery is one hand-over of a stored message to one consumer. It is a
// value; settling it is a call on the port that it came from. Delivery counts
// from 1 and proves nothing about executions: a NAK raises it too.
type Delivery struct {
	Stored
	Delivery int
	Fetched  time.Time // by the receiver's clock, when its lease began
	Token    string    // opaque; how the adapter settles it
	// More says that the consumer had others that were never handed over.
	More bool
}

// Entry is a value of a bucket. Revision is the sequence that a compare-and-set
// names; zero means that there is none.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Deleted  bool // deleted, purged or expired; Value is empty
}

// Forever is the ttl of a value that outlives the age of its bucket: it stays
// until it is replaced or deleted. A ttl of 0 leaves its life to the bucket.
const Forever time.Duration = -1

// Errors of the ports, which adapters wrap. Everything else that a port
// returns means: not known to have happened, try again.
var (
	// ErrNotFound: no message on the subject, no value under the key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a compare-and-set met another revision.
	ErrConflict = errors.New("conflict: changed by another")
	// ErrExists: a message with this subject is in the stream already.
	ErrExists = errors.New("already there")
	// ErrFull: the stream or the server refuses for want of space; nothing was stored.
	ErrFull = errors.New("full")
	// ErrTooLarge: the message or payload exceeds what can be stored.
	ErrTooLarge = errors.New("too large")
	// ErrForbidden: this principal may not publish there; nothing was sent, and another try does not mend it.
	ErrForbidden = errors.New("the broker's permissions forbid it")
	// ErrNoResponder: nobody serves the endpoint.
	ErrNoResponder = errors.New("nobody serves this endpoint")
)
