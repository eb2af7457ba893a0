// Package tooltest runs a tool as a worker would, without a pool: the input is
// checked against the tool's schema, a panic is a failure, the time-out
// applies, the output is held to its limit.
//
//	r := tooltest.Run(t, greet, `{"name": "Ada"}`)
//	r.Succeeded(`{"text": "Hello, Ada"}`)
package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Option changes the call that a tool is run for.
type Option func(*setup)

type setup struct {
	ctx     context.Context
	call    tool.Call
	timeout time.Duration
}

// Context replaces the test's own context, to cancel a run. Its cause should
// be a [tool.Stop].
func Context(ctx context.Context) Option { return func(s *setup) { s.ctx = ctx } }

// Call changes what the tool is told about the call. Id and key are random and
// the rest is zero otherwise.
func Call(change func(*tool.Call)) Option { return func(s *setup) { change(&s.call) } }

// Timeout replaces the tool's own time-out, or the 60 s of one that has none.
func Timeout(d time.Duration) Option { return func(s *setup) { s.timeout = d } }

const (
	defaultTimeout = 60 * time.Second
	grace          = 5 * time.Second
)

// Result is how a run ended. Failure is nil for a success.
type Result struct {
	Output  []byte
	Failure *tool.Failure
	Stderr  string
	Took    time.Duration

	tb testing.TB
}

// Run runs t once with input, which is JSON. It fails the test at once when
// the declaration of t cannot be used, or when t ignores the end of its
// context for 5 s, and so would keep a slot of its worker.
func Run(tb testing.TB, t *tool.Tool, input string, options ...Option) *Result {
	tb.Helper()
	if err := t.Err(); err != nil {
		tb.Fatalf("the tool cannot be used: %v", err)
	}
	id := messages.NewCallID()
	s := &setup{ctx: tb.Context(), call: tool.Call{ID: id, Key: id, Run: messages.UnnamedRun(id)}, timeout: t.Spec().Timeout.Duration()}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	for _, o := range options {
		o(s)
	}
	s.call.Input = []byte(input)
	checked, err := schema.Compile(t.Spec().Schema)
	if err != nil {
		tb.Fatalf("the schema of tool %q cannot be used: %v", t.Name(), err)
	}
	if err := checked.Validate(s.call.Input); err != nil {
		return &Result{tb: tb, Failure: tool.FailureOf(tool.Invalid(err))}
	}
	e := t.Execute(s.ctx, s.call, tool.Limits{Timeout: s.timeout, Grace: grace})
	if e.Abandoned != nil {
		tb.Fatalf("tool %q did not return within %v after the end of its context (%s)", t.Name(), grace, e.Failure.Text)
	}
	return &Result{Output: e.Output.Body, Failure: e.Failure, Stderr: e.Output.Stderr, Took: e.Took, tb: tb}
}

// Succeeded fails the test unless the tool succeeded with this output. JSON is
// compared by meaning, anything else byte for byte.
func (r *Result) Succeeded(want string) *Result {
	r.tb.Helper()
	switch {
	case r.Failure != nil:
		r.tb.Errorf("the tool failed: %s", describe(r.Failure))
	case !equal(r.Output, []byte(want)):
		r.tb.Errorf("output\n got %s\nwant %s", r.Output, want)
	}
	return r
}

// JSON reads the output of a success into v.
func (r *Result) JSON(v any) *Result {
	r.tb.Helper()
	if r.Failure != nil {
		r.tb.Fatalf("the tool failed: %s", describe(r.Failure))
	}
	if err := json.Unmarshal(r.Output, v); err != nil {
		r.tb.Fatalf("output %q is not JSON for %T: %v", r.Output, v, err)
	}
	return r
}

// Failed fails the test unless the tool failed with this code and text, which
// are what its caller will see.
func (r *Result) Failed(code messages.Code, text string) *Result {
	r.tb.Helper()
	switch {
	case r.Failure == nil:
		r.tb.Errorf("the tool succeeded with %q, want %s: %s", r.Output, code, text)
	case r.Failure.Code != code || r.Failure.Text != text:
		r.tb.Errorf("failure\n got %s\nwant %s: %s", describe(r.Failure), code, text)
	}
	return r
}

// FailedWith is Failed where only the code matters.
func (r *Result) FailedWith(code messages.Code) *Result {
	r.tb.Helper()
	if r.Failure == nil || r.Failure.Code != code {
		r.tb.Errorf("got %s, want a failure with code %s", describe(r.Failure), code)
	}
	return r
}

// Definite fails the test unless the failure is one that a machine may retry
// for any tool (S7.3).
func (r *Result) Definite() *Result {
	r.tb.Helper()
	if r.Failure == nil || r.Failure.Ambiguous {
		r.tb.Errorf("got %s, want a definite failure", describe(r.Failure))
	}
	return r
}

// Ambiguous fails the test unless the failure leaves open whether the effect
// happened (S7.3).
func (r *Result) Ambiguous() *Result {
	r.tb.Helper()
	if r.Failure == nil || !r.Failure.Ambiguous {
		r.tb.Errorf("got %s, want an ambiguous failure", describe(r.Failure))
	}
	return r
}

func describe(f *tool.Failure) string {
	if f == nil {
		return "a success"
	}
	kind := "definite"
	if f.Ambiguous {
		kind = "ambiguous"
	}
	return fmt.Sprintf("%s (%s): %s", f.Code, kind, f.Text)
}

func equal(got, want []byte) bool {
	if bytes.Equal(got, want) {
		return true
	}
	a, err := decode(got)
	if err != nil {
		return false
	}
	b, err := decode(want)
	return err == nil && reflect.DeepEqual(a, b)
}

// decode keeps numbers as they are written.
func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}
