package recovery

import (
	"cmp"
	"context"
	"errors"

	"mulligan/pkg/messages"
)

// Reflection is what a reflector found out, and who it was.
type Reflection struct {
	messages.FailureAnalysis
	By   string // the reflector, such as "rules"; required
	Rule string // what within it; may be empty
	// Fault is whose the failure is; empty when it is not known (S8.2).
	Fault messages.Fault
	// Guess: the failure was not recognised, or it takes more than the reflector
	// sees to mend it. A chain asks on, and comes back to the guess only when
	// nobody knows better.
	Guess bool
	// Usage is what a model took, also for an answer that was of no use; nil when
	// none was asked. A chain adds up what its reflectors took.
	Usage *messages.Usage
}

// Reflector analyses a failure (S2.1). It returns a reflection, or a
// [*messages.ReflectionError]: skipped, so that the next of a chain is asked,
// or internal. Any other error counts as internal. It keeps no history of its
// own; the context brings it (S1.8). Analyse may be called concurrently.
type Reflector interface {
	Analyse(ctx context.Context, c Case) (Reflection, error)
}

// Skip is the error of a reflector that has nothing to say about a failure.
func Skip(reason string) error { return &messages.ReflectionError{Skipped: true, Reason: reason} }

// Internal is the error of a reflector that broke; the call then ends soft (S9.4).
func Internal(reason string) error { return &messages.ReflectionError{Reason: reason} }

// NoOp is the reflector that changes nothing: not recoverable, the error's
// text verbatim as the root cause, medium (S2.3).
type NoOp struct{}

// Analyse never fails.
func (NoOp) Analyse(_ context.Context, c Case) (Reflection, error) {
	return Reflection{
		FailureAnalysis: messages.FailureAnalysis{RootCause: c.Error, Severity: messages.Medium},
		By:              "noop",
	}, nil
}

// Chain asks several reflectors in turn: the first that returns a reflection
// wins, skipped passes on, anything else stops (S2.7). A reflection that is a
// guess passes on too, and is the answer if all others skip. If all skip, or
// there are none, the chain skips. What models took adds up on every way out.
type Chain []Reflector

// Analyse asks in order.
func (ch Chain) Analyse(ctx context.Context, c Case) (Reflection, error) {
	reason := "no reflector is configured"
	var guess *Reflection
	var usage *messages.Usage
	for i, r := range ch {
		got, err := r.Analyse(ctx, c)
		usage = add(usage, got.Usage)
		got.Usage = usage
		if err == nil && (!got.Guess || i == len(ch)-1) {
			return got, nil
		}
		if err == nil {
			guess = &got
			continue
		}
		re := reflectionError(err)
		if !re.Skipped {
			return Reflection{By: got.By, Usage: usage}, re
		}
		reason = re.Reason
		if guess != nil {
			guess.RootCause += "; " + reason // people want to know why nobody knew better
		}
	}
	if guess != nil {
		guess.Usage = usage
		return *guess, nil
	}
	return Reflection{Usage: usage}, Skip(reason)
}

// add keeps nil for nothing, which is not what a request without tokens is.
func add(a, b *messages.Usage) *messages.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := a.Plus(*b)
	return &sum
}

// reflectionError makes a foreign error an internal one.
func reflectionError(err error) *messages.ReflectionError {
	var re *messages.ReflectionError
	if errors.As(err, &re) {
		return re
	}
	return &messages.ReflectionError{Reason: err.Error()}
}
