package replay

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"mulligan/internal/fuzztest"
)

// Whatever is written as a patch or expression, and whatever stands in an input:
// what comes of it is JSON, or an error.
func FuzzChange(f *testing.F) {
	f.Add(`[{"op":"replace","path":"/a","value":1}]`, ".a |= . + 1", `{"a":0}`)
	f.Add(`[{"op":"move","from":"/a/0","path":"/a/-"},{"op":"copy","from":"","path":"/b"}]`, `[.[] | select(. > 1)] | {a: .}`, `{"a":[1,[2]]}`)
	f.Add(`[{"op":"test","path":"/a~1b/-1","value":null}]`, `. as [$x] ?// $x | {$x}`, `{"a/b":[null]}`)
	f.Add(`[{"op":"add","path":"","value":[]}]`, `def f: [f]; f`, `[[[[]]]]`)
	f.Fuzz(func(t *testing.T, patch, query, input string) {
		fuzztest.Bounded(t, len(patch)+len(query)+len(input), func() {
			var c Change
			if c.Patch([]byte(patch)) != nil {
				c.patch = nil
			}
			if c.JQ(query) != nil {
				c.query = nil
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("too slow"))
			defer cancel()
			out, err := c.Input(ctx, []byte(input))
			if err == nil && !c.None() && !json.Valid(out) {
				t.Fatalf("%q gives %q", input, out)
			}
		})
	})
}

// A pattern is a short text, whatever it is of.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"order O-99871 does not exist", `no "seat" at 12:30`, "\xff\x00 it's 'x", "0x9f86d081884c7d6 1.2.3."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := Pattern(text)
		if len(p) > shown+4 || !utf8.ValidString(p) {
			t.Fatalf("%q: %q", text, p)
		}
	})
}
