package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct{ patch, jq, input, want, err string }{
		"nothing is nothing":          {input: `{ "a" : 1.0 }`, want: `{ "a" : 1.0 }`},
		"a patch":                     {patch: `[{"op":"replace","path":"/limit","value":5}]`, input: `{"to":"ZRH","limit":"5"}`, want: `{"to":"ZRH","limit":5}`},
		"a patch keeps numbers":       {patch: `[{"op":"add","path":"/b","value":"<&>"}]`, input: `{"n":9007199254740993.10}`, want: `{"n":9007199254740993.10,"b":"<&>"}`},
		"a test that fails":           {patch: `[{"op":"test","path":"/a","value":2}]`, input: `{"a":1}`, err: "the patch: testing value /a failed"},
		"nothing there to replace":    {patch: `[{"op":"replace","path":"/b","value":2}]`, input: `{"a":1}`, err: "/b"},
		"a patch of what is no JSON":  {patch: `[{"op":"add","path":"/b","value":2}]`, input: `{'a':1}`, err: "the input is not JSON"},
		"a jq expression":             {jq: `.limit |= tonumber | del(.x)`, input: `{"limit":"5","x":1}`, want: `{"limit":5}`},
		"jq keeps numbers":            {jq: `.b = 1`, input: `{"n":9007199254740993,"f":0.10}`, want: `{"b":1,"f":0.10,"n":9007199254740993}`},
		"jq after the patch":          {patch: `[{"op":"add","path":"/a","value":1}]`, jq: `.a += 1`, input: `{}`, want: `{"a":2}`},
		"jq that gives nothing":       {jq: `empty`, input: `{}`, err: "gives nothing"},
		"jq that gives two":           {jq: `., .`, input: `{}`, err: "several values"},
		"jq that gives no object":     {jq: `.a`, input: `{"a":[1]}`, err: "it gives array"},
		"jq that fails":               {jq: `.a.b`, input: `{"a":1}`, err: "the jq expression: expected an object"},
		"jq sees no environment":      {jq: `.home = env.HOME`, input: `{}`, want: `{"home":null}`},
		"an input that is deep":       {jq: `.`, input: `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, err: "values deep"},
		"an output that is too large": {jq: `.a = "x" * 17000000`, input: `{}`, err: "the limit is 16777216"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Change
			if tc.patch != "" {
				if err := c.Patch([]byte(tc.patch)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.jq != "" {
				if err := c.JQ(tc.jq); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.Input(t.Context(), []byte(tc.input))
			if tc.err == "" && (err != nil || string(got) != tc.want) {
				t.Errorf("%s, %v", got, err)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%.100s, %v", got, err)
			}
		})
	}
}

func TestWhatIsNoChangeIsSaid(t *testing.T) {
	for _, tc := range []struct{ patch, want string }{
		{`{"op":"add"}`, "is no JSON patch"}, {`[]`, "no operation"}, {`[{"op":"ad","path":"/a","value":1}]`, "unsupported operation"}, {`[{"op":"add","value":1}]`, "missing path"},
		{"[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 100) + `{"op":"remove","path":"/a"}]`, "101 operations"},
	} {
		if err := new(Change).Patch([]byte(tc.patch)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.50s: %v", tc.patch, err)
		}
	}
	for _, tc := range []struct{ jq, want string }{{" ", "is empty"}, {".a | ", "unexpected"}, {"nope(1)", "not defined"}, {strings.Repeat(".", 9000), "9000 bytes"}} {
		if err := new(Change).JQ(tc.jq); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.50s: %v", tc.jq, err)
		}
	}
}

// An expression that never ends does with its context.
func TestAnEndlessExpressionEnds(t *testing.T) {
	var c Change
	if err := c.JQ(`[range(1e15)] | .[0]`); err != nil {
		t.Fatal(err)
	}
	over := errors.New("it took too long")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, over)
	defer cancel()
	if got, err := c.Input(ctx, []byte(`{}`)); !errors.Is(err, over) {
		t.Errorf("%s, %v", got, err)
	}
}
