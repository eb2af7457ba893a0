package shopclient

import (
	"fmt"
	"time"
)

// RefusedError says that the shop did nothing, for a reason that passes: it was
// asked too often, is not ready, or could not be reached.
type RefusedError struct {
	// Status is the HTTP status, 0 if no connection could be made.
	Status int
	// RetryAfter is how long the shop asks to wait, 0 if it does not say.
	RetryAfter time.Duration
	// Text is the shop's reason.
	Text string
	// Err is why the shop could not be reached, nil if it was.
	Err error
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

func (e *RefusedError) Error() string {
	if e.Status == 0 {
		return "shop not reached: " + e.Text
	}
	return fmt.Sprintf("shop refused (HTTP %d): %s", e.Status, e.Text)
}

// RejectedError says that the shop did nothing, because of the request itself.
type RejectedError struct {
	// Status is the HTTP status, 0 if the request was not sent.
	Status int
	// Text says what is wrong with the request.
	Text string
}

func (e *RejectedError) Error() string {
	if e.Status == 0 {
		return "shop not asked: " + e.Text
	}
	return fmt.Sprintf("shop rejected the request (HTTP %d): %s", e.Status, e.Text)
}

// AmbiguousError says that the answer did not arrive, so that the tool may or
// may not have been executed.
type AmbiguousError struct {
	// Err is why; errors.Is finds an ended context in it.
	Err error
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("no answer from the shop, which may have executed the tool: %v", e.Err)
}

// Unwrap returns Err.
func (e *AmbiguousError) Unwrap() error { return e.Err }
