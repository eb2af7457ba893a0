package client

import (
	"errors"
	"fmt"

	"mulligan/pkg/messages"
)

// ErrClosed says that the client was closed before the call ended; the call goes on.
var ErrClosed = errors.New("client is closed")

// RefusedError says that a call was not accepted: it never ran and never will.
type RefusedError struct{ messages.Refusal }

// Error is the text of the refusal, written for the model that made the call.
func (e *RefusedError) Error() string { return e.Text }

// ChunkError says that the coordinators refused a request as a whole, which
// they do with what they cannot read. Nothing of it was accepted.
type ChunkError struct {
	Code messages.Code
	Text string
}

func (e *ChunkError) Error() string { return fmt.Sprintf("submission refused: %s", e.Text) }

// UncertainError says that no answer came within the patience of the client,
// so that nobody knows whether the calls were accepted. The same calls may be
// submitted again with the same ids and batch.
type UncertainError struct {
	Calls int
	Err   error // of the last try
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("no coordinator confirmed %d calls, they may have been accepted: %v", e.Calls, e.Err)
}

func (e *UncertainError) Unwrap() error { return e.Err }

// UnreadableError says that a call has ended, and that this build cannot read
// how: its result is of a later version of the wire, or damaged. The result is
// kept; a later build reads it.
type UnreadableError struct {
	Call string
	Err  error // a *messages.VersionError among others
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("call %s has ended, but its result cannot be read: %v", e.Call, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// BreakerError says that the coordinators refused a change of a breaker: no such
// tool, or a value that they do not take.
type BreakerError struct {
	Code messages.Code // CodeBadCall; empty from coordinators that give none
	Text string
}

func (e *BreakerError) Error() string { return e.Text }
