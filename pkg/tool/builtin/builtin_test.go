package builtin_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/builtin"
	"mulligan/pkg/tool/tooltest"
)

func dispatch(n int) tooltest.Option {
	return tooltest.Call(func(c *tool.Call) { c.Dispatch, c.Attempt = n, n })
}

func TestEcho(t *testing.T) {
	in := `{"b": 9007199254740993, "a" : "é"}`
	if r := tooltest.Run(t, builtin.Echo(), in); string(r.Output) != in {
		t.Errorf("got %s", r.Output)
	}
	tooltest.Run(t, builtin.Echo(), `[]`).FailedWith(messages.CodeInvalidArguments)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tooltest.Run(t, builtin.Sleep(), `{"ms": 1500}`).Succeeded("slept 1500 ms")
		if r.Took != 1500*time.Millisecond {
			t.Errorf("took %v", r.Took)
		}
		tooltest.Run(t, builtin.Sleep(), `{"ms": 90000}`).Failed(messages.CodeTimeout, "Tool 'sleep' timed out after 60s").Ambiguous()
		tooltest.Run(t, builtin.Sleep(), `{"ms": 9223372036854775807}`).Failed(messages.CodeTimeout, "Tool 'sleep' timed out after 60s")
		tooltest.Run(t, builtin.Sleep(), `{"ms": 2.5e1}`).Succeeded("slept 25 ms")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &tool.Stop{Code: messages.CodeCancelled, Reason: "was cancelled"})
		defer cancel()
		tooltest.Run(t, builtin.Sleep(), `{"ms": 5000}`, tooltest.Context(ctx)).Failed(messages.CodeCancelled, "Tool 'sleep' was cancelled")
	})
	tooltest.Run(t, builtin.Sleep(), `{"ms": -1}`).FailedWith(messages.CodeInvalidArguments)
	tooltest.Run(t, builtin.Sleep(), `{}`).FailedWith(messages.CodeInvalidArguments)
}

func TestFail(t *testing.T) {
	fail := builtin.Fail()
	tooltest.Run(t, fail, `{}`).Failed(messages.CodeToolError, "failed as asked, dispatch 0").Definite()
	tooltest.Run(t, fail, `{"kind":"error","text":"boom"}`).Failed(messages.CodeToolError, "boom").Definite()
	tooltest.Run(t, fail, `{"kind":"panic","text":"boom"}`).Failed(messages.CodePanic, `Tool "fail" panicked: boom`).Ambiguous()
	tooltest.Run(t, fail, `{"kind":"ambiguous","text":"boom"}`).Failed(messages.CodeToolError, "boom").Ambiguous()
	r := tooltest.Run(t, fail, `{"kind":"invalid","text":"boom"}`).Failed(messages.CodeInvalidArguments, "boom").Definite()
	if !r.Failure.NotExecuted {
		t.Error("invalid arguments count as executed")
	}
	r = tooltest.Run(t, fail, `{"kind":"retry_after","text":"boom","retry_after_ms":70}`).Failed(messages.CodeRateLimited, "boom").Definite()
	if r.Failure.RetryAfter != 70*time.Millisecond || !r.Failure.NothingDone {
		t.Errorf("%+v", r.Failure)
	}
	r = tooltest.Run(t, fail, `{"kind":"retry_after","retry_after_ms":9223372036854775807}`).FailedWith(messages.CodeRateLimited)
	if r.Failure.RetryAfter < 200*365*24*time.Hour {
		t.Errorf("the longest wait became %v", r.Failure.RetryAfter)
	}
	tooltest.Run(t, fail, `{"kind":"sulk"}`).FailedWith(messages.CodeInvalidArguments)
	tooltest.Run(t, fail, `{"times":-1}`).FailedWith(messages.CodeInvalidArguments)
}

func TestFailForTheFirstDispatches(t *testing.T) {
	for n, fails := range []bool{true, true, false, false} {
		r := tooltest.Run(t, builtin.Fail(), `{"times":2}`, dispatch(n))
		if (r.Failure != nil) != fails {
			t.Errorf("dispatch %d: %+v", n, r.Failure)
		}
	}
	tooltest.Run(t, builtin.Fail(), `{"times":0}`).Succeeded("succeeded after 0 failures")
	tooltest.Run(t, builtin.Fail(), `{"times":1}`, dispatch(1)).Succeeded("succeeded after 1 failure")
}

func TestToolsAndTheirOptions(t *testing.T) {
	for _, tl := range builtin.Tools(tool.Queue("q"), tool.Effect(messages.Unsafe)) {
		if err := tl.Err(); err != nil {
			t.Error(err)
		}
		if s := tl.Spec(); s.Queue != "q" || s.Effect != messages.Unsafe || s.Description == "" || len(s.Schema) == 0 {
			t.Errorf("%+v", s)
		}
	}
}
