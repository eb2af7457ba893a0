package recovery

import (
	"errors"
	"fmt"
	"math"
	"time"

	"mulligan/pkg/messages"
)

// Strategy decides what to do about an analysed failure (S2.1). attempt counts
// from 0; maxAttempts is how many retries the ceiling leaves in all. The
// coordinator enforces the ceiling whatever a strategy says (S4.1). Decide may
// be called concurrently.
type Strategy interface {
	Decide(a messages.FailureAnalysis, attempt, maxAttempts int) messages.RecoveryAction
}

// Backoff retries with exponentially growing delays (S2.4, S2.5).
type Backoff struct {
	// MaxRetries is how many retries there may be; 0 means none.
	MaxRetries int
	// Base is the delay before the first retry; 0 is legal and means at once.
	Base time.Duration
	// Multiplier is by what the delay grows with each retry; at least 1.
	Multiplier float64
	// Cap is the longest delay.
	Cap time.Duration
	// Jitter is the share of a delay, from 0 to 1, that is drawn anew each
	// time, so that what failed together is not retried together: a delay d
	// becomes one from d×(1−Jitter) to d. 0 means exact.
	Jitter float64
	// Random gives a number from 0 up to 1. It is needed for Jitter, and then
	// must allow concurrent calls.
	Random func() float64
	// RetryCritical retries a critical failure that has no correction, as the
	// rule that S2.4 descends from did. By default such a call ends.
	RetryCritical bool
}

// DefaultBackoff is the strategy of the library: three retries, 100 ms × 2ⁿ up
// to 30 s, exact.
func DefaultBackoff() Backoff {
	return Backoff{MaxRetries: 3, Base: 100 * time.Millisecond, Multiplier: 2, Cap: 30 * time.Second}
}

// Validate names the field that cannot be used.
func (b Backoff) Validate() error {
	switch {
	case b.MaxRetries < 0:
		return fmt.Errorf("max retries %d is negative; 0 means no retries", b.MaxRetries)
	case b.Base < 0:
		return fmt.Errorf("initial backoff %v is negative; 0 retries at once", b.Base)
	case b.Cap < b.Base:
		return fmt.Errorf("max backoff %v is less than the initial backoff %v", b.Cap, b.Base)
	case math.IsNaN(b.Multiplier) || math.IsInf(b.Multiplier, 0) || b.Multiplier < 1:
		return fmt.Errorf("multiplier %v is not a number from 1 on; 1 keeps the delay", b.Multiplier)
	case math.IsNaN(b.Jitter) || b.Jitter < 0 || b.Jitter > 1:
		return fmt.Errorf("jitter %v is not from 0 (exact) to 1", b.Jitter)
	case b.Jitter > 0 && b.Random == nil:
		return errors.New("jitter needs a source of random numbers")
	}
	return nil
}

// Decide follows S2.4 rule by rule.
func (b Backoff) Decide(a messages.FailureAnalysis, attempt, maxAttempts int) messages.RecoveryAction {
	limit := max(min(b.MaxRetries, maxAttempts), 0)
	switch {
	case !a.IsRecoverable:
		return messages.Fail(a.RootCause)
	case attempt >= limit:
		return messages.Fail(fmt.Sprintf("max retries (%d) exceeded", limit))
	case a.Severity >= messages.High && a.Correction != nil:
		return messages.AskUser("high-severity failure with correction available: " + a.Correction.Description)
	case a.Severity == messages.Critical && !b.RetryCritical:
		return messages.Fail("critical failure without a correction: " + a.RootCause)
	}
	return messages.Retry(b.Delay(attempt))
}

// Never retries nothing: every call ends with its first failure.
type Never struct{}

// Decide ends the call, with its root cause.
func (Never) Decide(a messages.FailureAnalysis, _, _ int) messages.RecoveryAction {
	return messages.Fail(a.RootCause)
}

// Delay is the wait before retry n, from 0. It saturates at Cap, however large
// n is, and never is less than 0.
func (b Backoff) Delay(n int) time.Duration {
	if b.Base <= 0 {
		return 0
	}
	d := float64(b.Base) * math.Pow(b.Multiplier, float64(max(n, 0)))
	if d > float64(b.Cap) {
		d = float64(b.Cap)
	}
	if b.Jitter > 0 && b.Random != nil {
		d -= d * b.Jitter * b.Random()
	}
	return max(time.Duration(d), 0)
}
