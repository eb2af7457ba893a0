package tooltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/tooltest"
)

type input struct {
	How string `json:"how"`
}

func sample() *tool.Tool {
	return tool.New("sample", func(ctx context.Context, in input) (map[string]any, error) {
		switch in.How {
		case "panic":
			panic("oh")
		case "error":
			return nil, errors.New("no")
		case "unknown":
			return nil, tool.Ambiguous(errors.New("lost"))
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		case "deaf":
			<-time.After(time.Hour)
		}
		return map[string]any{"id": tool.FromContext(ctx).Key, "n": 9007199254740993}, nil
	}, tool.Timeout(time.Second))
}

// recorder is a test that notes what is said to it.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return context.Background() }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

// says runs f with a recorder and gives what it said.
func says(f func(tb testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return strings.Join(r.said, "\n")
}

func TestAssertionsHold(t *testing.T) {
	key := tooltest.Call(func(c *tool.Call) { c.Key = "k" })
	said := says(func(tb testing.TB) {
		tooltest.Run(tb, sample(), `{"how":""}`, key).Succeeded(`{"n": 9007199254740993, "id": "k"}`)
		var v struct{ ID string }
		if tooltest.Run(tb, sample(), `{"how":""}`, key).JSON(&v); v.ID != "k" {
			tb.Errorf("id %q", v.ID)
		}
		tooltest.Run(tb, sample(), `{"how":"error"}`).Failed(messages.CodeToolError, "no").Definite()
		tooltest.Run(tb, sample(), `{"how":"unknown"}`).FailedWith(messages.CodeToolError).Ambiguous()
		tooltest.Run(tb, sample(), `{"how":"panic"}`).Failed(messages.CodePanic, `Tool "sample" panicked: oh`).Ambiguous()
		tooltest.Run(tb, sample(), `{"how":7}`).FailedWith(messages.CodeInvalidArguments).Definite()
		tooltest.Run(tb, sample(), `{"how":"wait"}`, tooltest.Timeout(time.Millisecond)).Failed(messages.CodeTimeout, "Tool 'sample' timed out after 0.001s")
	})
	if said != "" {
		t.Error(said)
	}
}

func TestAssertionsFail(t *testing.T) {
	for want, f := range map[string]func(testing.TB){
		"the tool failed: tool_error (definite): no": func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":"error"}`).Succeeded("x") },
		"output\n got {":         func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":""}`).Succeeded(`{"n": 9007199254740992}`) },
		"the tool failed: panic": func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":"panic"}`).JSON(new(any)) },
		"is not JSON for":        func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":""}`).JSON(new(int)) },
		"the tool succeeded with": func(tb testing.TB) {
			tooltest.Run(tb, sample(), `{"how":""}`).Failed(messages.CodeToolError, "no")
		},
		"failure\n got tool_error (definite): no\nwant tool_error: yes": func(tb testing.TB) {
			tooltest.Run(tb, sample(), `{"how":"error"}`).Failed(messages.CodeToolError, "yes")
		},
		"a failure with code panic":          func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":"error"}`).FailedWith(messages.CodePanic) },
		"want a definite failure":            func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":"unknown"}`).Definite() },
		"want an ambiguous failure":          func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":""}`).Ambiguous() },
		"the tool cannot be used: tool name": func(tb testing.TB) { tooltest.Run(tb, tool.Raw("", nil, nil), `{}`) },
		"the schema of tool": func(tb testing.TB) {
			tooltest.Run(tb, tool.New("x", func(context.Context, input) (string, error) { return "", nil }, tool.Schema([]byte(`{"type":"nothing"}`))), `{}`)
		},
	} {
		if got := says(f); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

func TestAToolThatIgnoresItsEndFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := says(func(tb testing.TB) { tooltest.Run(tb, sample(), `{"how":"deaf"}`) })
		if !strings.Contains(got, "did not return within 5s") {
			t.Errorf("got %q", got)
		}
		<-time.After(2 * time.Hour) // lets it return, so that the bubble can end
	})
}

type order struct {
	ID string `json:"id" jsonschema:"such as W100"`
}

type state struct {
	Status string `json:"status"`
}

// lookUp is a tool as its author writes it.
func lookUp(_ context.Context, in order) (state, error) {
	if in.ID != "W100" {
		return state{}, fmt.Errorf("no order %s", in.ID)
	}
	return state{Status: "shipped"}, nil
}

func TestLookUp(t *testing.T) { // how the tests of a tool look
	tl := tool.New("look_up", lookUp, tool.Effect(messages.ReadOnly))
	tooltest.Run(t, tl, `{"id": "W100"}`).Succeeded(`{"status": "shipped"}`)
	tooltest.Run(t, tl, `{"id": "W1"}`).Failed(messages.CodeToolError, "no order W1").Definite()
	tooltest.Run(t, tl, `{"order": "W100"}`).FailedWith(messages.CodeInvalidArguments)
}
