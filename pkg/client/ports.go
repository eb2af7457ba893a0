package client

import (
	"context"

	"mulligan/pkg/messages"
)

// Coordinators reach the service of the coordinators.
type Coordinators interface {
	Names() messages.Pool
	// Request answers ErrNoResponder when nobody serves the endpoint; any
	// other error leaves open whether the request was carried out.
	Request(ctx context.Context, endpoint string, body []byte) ([]byte, error)
}

// Streams are read for results and for traces of a call.
type Streams interface {
	// Get is a leader read of the last message on a subject, wildcards allowed.
	Get(ctx context.Context, subject string) (messages.Stored, error)
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
	// Follow hands over each message once and in order, over reconnects, until ctx is done.
	Follow(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored)) error
}

// Payloads hold inputs and outputs that are too large for a message.
type Payloads interface {
	PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Broker is all that a client needs of the pool's broker; *jetstream.Pool is one.
type Broker interface {
	Coordinators
	Streams
	Payloads
}
