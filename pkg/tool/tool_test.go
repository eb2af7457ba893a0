package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

type greeting struct {
	Name  string `json:"name" jsonschema:"whom to greet"`
	Times int    `json:"times,omitempty"`
}

type reply struct {
	Text string `json:"text"`
}

func greet(_ context.Context, in greeting) (reply, error) {
	return reply{"Hello, " + in.Name + " <3"}, nil
}

func TestNewInfersTheSchemaFromTheStruct(t *testing.T) {
	spec := tool.New("greet", greet, tool.Effect(messages.ReadOnly), tool.Timeout(5*time.Second), tool.Queue("hello"),
		tool.Description("greets"), tool.Version("2")).Spec()
	var schema struct {
		Type                 string
		Required             []string
		AdditionalProperties any
		Properties           map[string]struct{ Type, Description string }
	}
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || strings.Join(schema.Required, ",") != "name" || schema.AdditionalProperties == nil ||
		schema.Properties["name"].Description != "whom to greet" || schema.Properties["times"].Type != "integer" {
		t.Errorf("schema %s", spec.Schema)
	}
	if spec.Queue != "hello" || spec.Effect != messages.ReadOnly || spec.Timeout.Duration() != 5*time.Second ||
		spec.Description != "greets" || spec.Version != "2" {
		t.Errorf("spec %+v", spec)
	}
}

func TestTypedOutputs(t *testing.T) {
	typed := func(out any) func(context.Context, struct{}) (any, error) {
		return func(context.Context, struct{}) (any, error) { return out, nil }
	}
	for want, out := range map[string]any{
		`{"text":"<&>"}`: reply{"<&>"},
		"plain \"text\"": "plain \"text\"",
		"\xff\xfe":       []byte("\xff\xfe"),
		`{"a": 1}`:       json.RawMessage(`{"a": 1}`),
		"raw":            tool.Output{Body: []byte("raw"), Stderr: "aside"},
		`12`:             12,
		`null`:           nil,
	} {
		got, err := tool.New("t", typed(out)).Run(t.Context(), tool.Call{Input: []byte("{}")})
		if err != nil || string(got.Body) != want {
			t.Errorf("%T: got %q, %v; want %q", out, got.Body, err, want)
		}
	}
}

func TestAnOutputThatCannotBeEncodedIsAmbiguous(t *testing.T) {
	f := func(context.Context, struct{}) (chan int, error) { return make(chan int), nil }
	_, err := tool.New("t", f).Run(t.Context(), tool.Call{Input: []byte("{}")})
	if err == nil || !tool.FailureOf(err).Ambiguous {
		t.Fatalf("the tool has run, so its effect may have happened; got %+v", err)
	}
}

func TestADeclarationThatCannotBeUsedSaysWhy(t *testing.T) {
	type loop struct {
		Next *loop `json:"next"`
	}
	none := func(context.Context, struct{}) (string, error) { return "", nil }
	for want, tl := range map[string]*tool.Tool{
		"tool name is empty":           tool.New("", none),
		"queue":                        tool.New("t", none, tool.Queue("\xff")),
		"effect":                       tool.New("t", none, tool.Effect("harmless")),
		"timeout":                      tool.New("t", none, tool.Timeout(-1*time.Second)),
		"schema is not JSON":           tool.New("t", none, tool.Schema(json.RawMessage("{"))),
		"function is nil":              tool.Raw("t", nil, nil),
		"tool \"u\": its function":     tool.New[struct{}, string]("u", nil),
		"tool \"v\": input string has": tool.New("v", func(context.Context, string) (string, error) { return "", nil }),
		"declare one with tool.Schema": tool.New("w", func(context.Context, loop) (string, error) { return "", nil }),
	} {
		if err := tl.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
		if _, err := tl.Run(t.Context(), tool.Call{}); err == nil {
			t.Errorf("%s: runs nevertheless", want)
		}
	}
	if err := tool.New("w", func(context.Context, loop) (string, error) { return "", nil },
		tool.Schema(json.RawMessage(`{"type":"object"}`))).Err(); err != nil {
		t.Errorf("with a schema of its own: %v", err)
	}
}

// S6: arguments are never turned into {}, and a text says what is wrong and where.
func TestS6_T6_UnusableArgumentsNeverReachTheFunction(t *testing.T) {
	ran := false
	tl := tool.New("greet", func(context.Context, greeting) (string, error) { ran = true; return "", nil })
	for input, want := range map[string]string{
		``:                  "not a JSON object",
		`null`:              "not a JSON object",
		`[1]`:               "not a JSON object",
		`{"name": 7}`:       "name is a number, not a string",
		`{"times":"3"}`:     "times is a string, not an int",
		`{"name": "x"`:      "they are not JSON",
		`{"name":"\xff"} x`: "they are not JSON",
	} {
		_, err := tl.Run(t.Context(), tool.Call{Input: []byte(input)})
		f := tool.FailureOf(err)
		if f.Code != messages.CodeInvalidArguments || !f.NotExecuted || f.Ambiguous || !strings.Contains(f.Text, want) {
			t.Errorf("%q: got %+v, want %q", input, f, want)
		}
	}
	if ran {
		t.Error("the function ran")
	}
	long := `{"name": ` + strings.Repeat("é", 5000)
	_, err := tl.Run(t.Context(), tool.Call{Input: []byte(long)})
	if n := strings.Count(err.Error(), "é"); n > 800 || n < 700 {
		t.Errorf("the echo holds %d characters", n)
	}
}

func TestFromContextGivesTheCall(t *testing.T) {
	var got tool.Call
	tl := tool.New("t", func(ctx context.Context, _ struct{}) (string, error) {
		got = tool.FromContext(ctx)
		got.Log.Info("discarded")
		return "", nil
	})
	if _, err := tl.Run(t.Context(), tool.Call{ID: "c", Key: "k", Attempt: 2, Dispatch: 3, Input: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if got.ID != "c" || got.Key != "k" || got.Attempt != 2 || got.Dispatch != 3 {
		t.Errorf("got %+v", got)
	}
	tool.FromContext(t.Context()).Log.Info("outside of an execution")
}

func TestS7_1_AnUndeclaredEffectIsUnsafe(t *testing.T) {
	if e := tool.New("greet", greet).Spec().Effect; e != messages.Unsafe {
		t.Errorf("typed: %s", e)
	}
	if e := tool.Raw("greet", nil, func(context.Context, tool.Call) (tool.Output, error) { return tool.Output{}, nil }).Spec().Effect; e != messages.Unsafe {
		t.Errorf("raw: %s", e)
	}
}

func TestFailureOf(t *testing.T) {
	base := errors.New("base")
	wrap := func(err error) error { return errors.Join(errors.New("while charging"), err) }
	for name, c := range map[string]struct {
		err  error
		want tool.Failure
	}{
		"plain":           {base, tool.Failure{Code: messages.CodeToolError, Text: "base"}},
		"ambiguous":       {tool.Ambiguous(base), tool.Failure{Code: messages.CodeToolError, Text: "base", Ambiguous: true}},
		"wrapped":         {wrap(tool.Ambiguous(base)), tool.Failure{Code: messages.CodeToolError, Text: "while charging\nbase", Ambiguous: true}},
		"connection lost": {tool.ConnectionLost(base), tool.Failure{Code: messages.CodeConnectionLost, Text: "base", Ambiguous: true}},
		"invalid":         {tool.Invalid(base), tool.Failure{Code: messages.CodeInvalidArguments, Text: "base", NotExecuted: true}},
		"retry after":     {tool.RetryAfter(base, time.Second, true), tool.Failure{Code: messages.CodeToolError, Text: "base", NothingDone: true, RetryAfter: time.Second}},
		"retry, done":     {tool.RetryAfter(base, -1, false), tool.Failure{Code: messages.CodeToolError, Text: "base"}},
		"rate limited":    {tool.RateLimited(base, 0), tool.Failure{Code: messages.CodeRateLimited, Text: "base", NothingDone: true}},
		"unavailable":     {tool.Unavailable(base, time.Minute), tool.Failure{Code: messages.CodeUnavailable, Text: "base", NothingDone: true, RetryAfter: time.Minute}},
		"definite":        {tool.Definite(tool.Ambiguous(base)), tool.Failure{Code: messages.CodeToolError, Text: "base"}},
		"body":            {wrap(tool.Failed([]byte("\xff"))), tool.Failure{Code: messages.CodeToolError, Text: "\xff", Body: []byte("\xff")}},
		"both":            {tool.RetryAfter(tool.Ambiguous(base), time.Second, true), tool.Failure{Code: messages.CodeToolError, Text: "base", Ambiguous: true, RetryAfter: time.Second}},
	} {
		got := tool.FailureOf(c.err)
		if got.Code != c.want.Code || got.Text != c.want.Text || string(got.Body) != string(c.want.Body) || got.Ambiguous != c.want.Ambiguous ||
			got.NotExecuted != c.want.NotExecuted || got.NothingDone != c.want.NothingDone || got.RetryAfter != c.want.RetryAfter {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if name != "body" && !errors.Is(c.err, base) {
			t.Errorf("%s: the cause is lost", name)
		}
	}
}
