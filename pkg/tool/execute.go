package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"mulligan/pkg/messages"
)

// Stop is the cause of the context of a tool that is to end early: ask
// context.Cause and errors.As for it.
type Stop struct {
	Code messages.Code // timeout, deadline, cancelled, run_ended or drained
	// Reason goes on after "Tool 'x' " in the text of the failure, if the tool
	// has no answer of its own: "was cancelled: no longer needed".
	Reason string
}

// Error is the reason.
func (s *Stop) Error() string { return "the tool " + s.Reason }

// Limits bound one execution.
type Limits struct {
	Timeout time.Duration // zero for none
	// Grace is how long a tool may take to return after its context is done.
	// Then it is abandoned. Zero abandons at once.
	Grace time.Duration
}

// Execution is how one execution ended.
type Execution struct {
	Output  Output
	Failure *Failure // nil for a success
	Started time.Time
	Took    time.Duration
	// Abandoned is set when the tool did not return in time. It then yields,
	// once, how the tool did end, if it ever does; Go cannot stop it.
	Abandoned <-chan Execution
}

// Execute runs the tool as a worker does: a panic is a failure, the time-out
// and the end of ctx reach the tool as the end of its context, an output is
// no larger than [messages.MaxPayload]. When ctx ends early its cause should
// be a [Stop].
//
// After the end of its context only what the tool says itself is definite: a
// success, or an error made by this package. Any other error is taken for the
// echo of the end, and is ambiguous with the reason of the [Stop].
//
// A panic on a goroutine that the tool started cannot be isolated; it ends the
// process.
func (t *Tool) Execute(ctx context.Context, c Call, l Limits) Execution {
	started := time.Now()
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.Timeout, t.timedOut(l.Timeout))
		defer cancel()
	}
	done := make(chan Execution, 1)
	go t.isolated(ctx, c, started, done)
	select {
	case e := <-done:
		return e
	case <-ctx.Done():
	}
	grace := time.NewTimer(l.Grace)
	defer grace.Stop()
	select {
	case e := <-done:
		return e
	case <-grace.C:
		return Execution{Failure: stopped(ctx, t.Name()), Started: started, Took: time.Since(started), Abandoned: done}
	}
}

// timeLimit is the cause of a context that ended after a time.
type timeLimit struct {
	time time.Duration
	stop Stop
}

// timedOut keeps the last cause, since almost all calls of a tool have the same time.
func (t *Tool) timedOut(d time.Duration) *Stop {
	if l := t.limit.Load(); l != nil && l.time == d {
		return &l.stop
	}
	seconds := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	l := &timeLimit{d, Stop{Code: messages.CodeTimeout, Reason: "timed out after " + seconds + "s"}}
	t.limit.Store(l)
	return &l.stop
}

// stopped reads the end of ctx; a foreign cause is one of a caller who gave up.
func stopped(ctx context.Context, name string) *Failure {
	var s *Stop
	if !errors.As(context.Cause(ctx), &s) {
		s = &Stop{Code: messages.CodeCancelled, Reason: fmt.Sprintf("was stopped: %v", context.Cause(ctx))}
	}
	return &Failure{Code: s.Code, Text: fmt.Sprintf("Tool '%s' %s", name, s.Reason), Ambiguous: true, err: s}
}

const maxStack = 8 << 10 // bytes, from the panic outwards

// isolated sends even when the tool ends its goroutine.
func (t *Tool) isolated(ctx context.Context, c Call, started time.Time, done chan<- Execution) {
	var e Execution
	returned := false
	defer func() {
		if !returned {
			payload := recover() // nil: the tool called runtime.Goexit, as t.FailNow does
			stack := debug.Stack()
			e = Execution{Failure: panicked(t.Name(), payload), Output: Output{Stderr: string(stack[:min(len(stack), maxStack)])}}
		}
		e.Started, e.Took = started, time.Since(started)
		done <- e
	}()
	out, err := t.Run(ctx, c)
	e = t.conclude(ctx, out, err)
	returned = true
}

func (t *Tool) conclude(ctx context.Context, out Output, err error) Execution {
	if err == nil && len(out.Body) <= messages.MaxPayload {
		return Execution{Output: out}
	}
	e := Execution{Output: Output{Stderr: out.Stderr}}
	var said *Failure
	switch {
	case err == nil: // it succeeded, so its effect has happened
		e.Failure = &Failure{Code: messages.CodeOutputTooLarge, Text: tooLarge(t.Name(), len(out.Body)), Ambiguous: true}
		return e
	case ctx.Err() != nil && !errors.As(err, &said):
		e.Failure = stopped(ctx, t.Name())
		return e
	}
	f := FailureOf(err)
	if n := max(len(f.Body), len(f.Text)); n > messages.MaxPayload {
		f.Code, f.Text, f.Body = messages.CodeOutputTooLarge, tooLarge(t.Name(), n), nil
	}
	if f.Text == "" && len(f.Body) == 0 {
		f.Text, f.Body = fmt.Sprintf("Tool %q failed without a text", t.Name()), nil
	}
	e.Failure = f
	return e
}

func tooLarge(name string, n int) string {
	return fmt.Sprintf("Tool %q returned %d bytes; the limit is %d. Return less, or where to find it.", name, n, messages.MaxPayload)
}

// panicked is ambiguous: the tool gave no answer, so how far it came is unknown.
func panicked(name string, payload any) *Failure {
	return &Failure{
		Code:      messages.CodePanic,
		Text:      fmt.Sprintf("Tool %q panicked: %s", name, panicText(payload)),
		Ambiguous: true,
	}
}

func panicText(payload any) (text string) {
	defer func() {
		if recover() != nil || text == "" { // its own method panics
			text = "(unknown payload)"
		}
	}()
	switch p := payload.(type) {
	case string:
		return p
	case error:
		return p.Error()
	case fmt.Stringer:
		return p.String()
	}
	return ""
}
