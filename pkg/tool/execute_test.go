package tool_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type nameless struct{}

type panicking struct{}

func (panicking) String() string { panic("again") }

func raw(f func(context.Context) ([]byte, error)) *tool.Tool {
	return tool.Raw("x", nil, func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		b, err := f(ctx)
		return tool.Output{Body: b}, err
	})
}

func execute(ctx context.Context, f func(context.Context) ([]byte, error)) tool.Execution {
	return raw(f).Execute(ctx, tool.Call{}, tool.Limits{Timeout: 2500 * time.Millisecond, Grace: time.Second})
}

// S6: a panic becomes a failure with its message, or the unknown payload, once.
func TestS6_T2_PanicsAreFailures(t *testing.T) {
	for want, payload := range map[string]any{
		`Tool "x" panicked: out of cheese`:     "out of cheese",
		`Tool "x" panicked: wrapped`:           errors.New("wrapped"),
		`Tool "x" panicked: 5ms`:               5 * time.Millisecond,
		`Tool "x" panicked: (unknown payload)`: nameless{},
	} {
		e := execute(t.Context(), func(context.Context) ([]byte, error) { panic(payload) })
		f := e.Failure
		if f == nil || f.Text != want || f.Code != messages.CodePanic || !f.Ambiguous || !strings.Contains(e.Output.Stderr, "execute_test.go") {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
	for name, end := range map[string]func(){
		"its String panics": func() { panic(panicking{}) },
		"empty text":        func() { panic("") },
		"Goexit":            runtime.Goexit,
	} {
		e := execute(t.Context(), func(context.Context) ([]byte, error) { end(); return nil, nil })
		if e.Failure == nil || e.Failure.Text != `Tool "x" panicked: (unknown payload)` {
			t.Errorf("%s: got %+v", name, e.Failure)
		}
	}
	e := execute(t.Context(), func(context.Context) ([]byte, error) { var m map[string]int; m["a"]++; return nil, nil })
	if e.Failure == nil || !strings.Contains(e.Failure.Text, "nil map") {
		t.Errorf("runtime error: got %+v", e.Failure)
	}
}

// S6.1: the contract decides, never the text.
func TestS6_1_FailureIsTheContractOfTheTool(t *testing.T) {
	for _, text := range []string{`{"error": null}`, `{"error": "boom"}`, "Traceback (most recent call last):", "", "ERROR 500"} {
		if e := execute(t.Context(), func(context.Context) ([]byte, error) { return []byte(text), nil }); e.Failure != nil || string(e.Output.Body) != text {
			t.Errorf("returned %q without an error, got %+v", text, e)
		}
		e := execute(t.Context(), func(context.Context) ([]byte, error) { return nil, tool.Failed([]byte(text)) })
		if e.Failure == nil || e.Failure.Text == "" || text != "" && string(e.Failure.Body) != text {
			t.Errorf("failed with %q, got %+v", text, e.Failure)
		}
	}
	if e := execute(t.Context(), func(context.Context) ([]byte, error) { return []byte("ok"), errors.New("") }); e.Failure == nil || e.Failure.Text != `Tool "x" failed without a text` {
		t.Errorf("an error without a text: %+v", e.Failure)
	}
}

func TestS6_T3_TimeOutHasItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := execute(t.Context(), func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("request: %w", ctx.Err())
		})
		f := e.Failure
		if f == nil || f.Text != "Tool 'x' timed out after 2.5s" || f.Code != messages.CodeTimeout || !f.Ambiguous || e.Abandoned != nil {
			t.Errorf("got %+v", f)
		}
		if d := time.Since(start); d != 2500*time.Millisecond || e.Took != d {
			t.Errorf("took %v, says %v", d, e.Took)
		}
	})
}

func TestAfterTheEndOnlyTheToolsOwnWordIsDefinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			err  error
			code messages.Code
			ambi bool
		}{
			"echo":     {errors.New("read: connection closed"), messages.CodeTimeout, true},
			"definite": {tool.Definite(errors.New("rolled back")), messages.CodeToolError, false},
			"failed":   {tool.Failed([]byte("no")), messages.CodeToolError, false},
			"limited":  {tool.RateLimited(errors.New("429"), 0), messages.CodeRateLimited, false},
		} {
			e := execute(t.Context(), func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, c.err })
			if e.Failure == nil || e.Failure.Code != c.code || e.Failure.Ambiguous != c.ambi {
				t.Errorf("%s: got %+v", name, e.Failure)
			}
		}
		e := execute(t.Context(), func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return []byte("done after all"), nil })
		if e.Failure != nil || string(e.Output.Body) != "done after all" {
			t.Errorf("a success after the end: %+v", e)
		}
	})
}

func TestTheStopOfTheCallerReachesTheTool(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := &tool.Stop{Code: messages.CodeDrained, Reason: "was drained"}
	var seen error
	e := execute(ctx, func(ctx context.Context) ([]byte, error) {
		cancel(stop)
		<-ctx.Done()
		seen = context.Cause(ctx)
		return nil, ctx.Err()
	})
	if !errors.Is(seen, stop) || e.Failure == nil || e.Failure.Code != messages.CodeDrained || e.Failure.Text != "Tool 'x' was drained" || !errors.Is(e.Failure, stop) {
		t.Errorf("cause %v, failure %+v", seen, e.Failure)
	}
	ctx, give := context.WithCancel(t.Context())
	give()
	e = execute(ctx, func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
	if e.Failure == nil || e.Failure.Code != messages.CodeCancelled || !e.Failure.Ambiguous {
		t.Errorf("a foreign cause: %+v", e.Failure)
	}
}

func TestAToolThatIgnoresTheEndIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		e := execute(t.Context(), func(context.Context) ([]byte, error) { <-release; return []byte("at last"), nil })
		if e.Failure == nil || e.Failure.Text != "Tool 'x' timed out after 2.5s" || e.Abandoned == nil || time.Since(start) != 3500*time.Millisecond {
			t.Fatalf("got %+v after %v", e, time.Since(start))
		}
		close(release)
		if rest := <-e.Abandoned; rest.Failure != nil || string(rest.Output.Body) != "at last" {
			t.Errorf("in the end: %+v", rest)
		}
	})
}

func TestOutputsAboveTheLimitAreFailures(t *testing.T) {
	big := make([]byte, messages.MaxPayload+1)
	if e := execute(t.Context(), func(context.Context) ([]byte, error) { return big[1:], nil }); e.Failure != nil {
		t.Fatalf("at the limit: %v", e.Failure)
	}
	e := execute(t.Context(), func(context.Context) ([]byte, error) { return big, nil })
	if f := e.Failure; f == nil || f.Code != messages.CodeOutputTooLarge || !f.Ambiguous || e.Output.Body != nil {
		t.Errorf("it ran and succeeded, so its effect has happened: %+v", f)
	}
	e = execute(t.Context(), func(context.Context) ([]byte, error) { return nil, tool.Failed(big) })
	if f := e.Failure; f == nil || f.Code != messages.CodeOutputTooLarge || f.Ambiguous || f.Body != nil || len(f.Text) > 200 {
		t.Errorf("a definite failure stays one: %+v", f)
	}
}
