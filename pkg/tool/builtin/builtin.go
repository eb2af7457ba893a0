// Package builtin has three tools that a pool can be tried with: echo, sleep
// and fail.
package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Tools are all of them. Options apply to each, after its own.
func Tools(options ...tool.Option) []*tool.Tool {
	return []*tool.Tool{Echo(options...), Sleep(options...), Fail(options...)}
}

// Echo gives back its input, byte for byte.
func Echo(options ...tool.Option) *tool.Tool {
	echo := func(_ context.Context, c tool.Call) (tool.Output, error) { return tool.Output{Body: c.Input}, nil }
	return tool.Raw("echo", []byte(`{"type":"object"}`), echo, with(options,
		tool.Effect(messages.ReadOnly), tool.Description("Gives back its input."))...)
}

// SleepInput is the input of [Sleep].
type SleepInput struct {
	MS int `json:"ms" jsonschema:"how long to sleep, in milliseconds"`
}

// Sleep waits for as long as its input says, or until it is told to stop.
func Sleep(options ...tool.Option) *tool.Tool {
	sleep := func(ctx context.Context, in SleepInput) (string, error) {
		if in.MS < 0 {
			return "", tool.Invalid(fmt.Errorf("ms is %d: give 0 or more", in.MS))
		}
		timer := time.NewTimer(milliseconds(in.MS))
		defer timer.Stop()
		select {
		case <-timer.C:
			return fmt.Sprintf("slept %d ms", in.MS), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return tool.New("sleep", sleep, with(options,
		tool.Effect(messages.ReadOnly), tool.Description("Sleeps, then says so."))...)
}

// FailInput is the input of [Fail].
type FailInput struct {
	Kind         string `json:"kind,omitempty"`
	Times        *int   `json:"times,omitempty"`
	Text         string `json:"text,omitempty"`
	RetryAfterMS int    `json:"retry_after_ms,omitempty"`
}

const failSchema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "kind": {"type": "string", "enum": ["error", "retry_after", "panic", "ambiguous", "invalid"], "default": "error",
      "description": "how it fails: an error, a refusal for now that did nothing, a panic, an error after which nobody knows, or arguments it cannot use"},
    "times": {"type": "integer", "minimum": 0, "description": "how many dispatches of the call fail before one succeeds; absent: all"},
    "text": {"type": "string", "description": "the text of the failure"},
    "retry_after_ms": {"type": "integer", "minimum": 0, "description": "of retry_after: the least delay before the next try"}
  }
}`

// Fail fails as its input says, for its first dispatches or always. It counts
// by the dispatch of the call and remembers nothing, so that it behaves the
// same on every worker. It is declared idempotent and not read-only, so that
// an ambiguous failure shows as one.
func Fail(options ...tool.Option) *tool.Tool {
	return tool.New("fail", fail, with(options,
		tool.Effect(messages.Idempotent), tool.Schema([]byte(failSchema)), tool.Description("Fails in the way that its input asks for."))...)
}

func fail(ctx context.Context, in FailInput) (string, error) {
	n := tool.FromContext(ctx).Dispatch
	if in.Times != nil && n >= *in.Times {
		if n == 1 {
			return "succeeded after 1 failure", nil
		}
		return fmt.Sprintf("succeeded after %d failures", n), nil
	}
	text := in.Text
	if text == "" {
		text = fmt.Sprintf("failed as asked, dispatch %d", n)
	}
	err := errors.New(text)
	switch in.Kind {
	case "", "error":
		return "", err
	case "retry_after":
		return "", tool.RateLimited(err, milliseconds(in.RetryAfterMS))
	case "panic":
		panic(text)
	case "ambiguous":
		return "", tool.Ambiguous(err)
	case "invalid":
		return "", tool.Invalid(err)
	}
	return "", tool.Invalid(fmt.Errorf("kind is %q: give error, retry_after, panic, ambiguous or invalid", in.Kind))
}

// milliseconds is n of them, or the longest duration there is.
func milliseconds(n int) time.Duration {
	return time.Duration(min(int64(n), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func with(theirs []tool.Option, ours ...tool.Option) []tool.Option { return append(ours, theirs...) }
