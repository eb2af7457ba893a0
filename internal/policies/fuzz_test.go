package policies_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/internal/policies"
)

// A file is refused in a text that can be shown, or is a document that is
// printed and read as the same again.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"pool: {max_retries: 2, prompt_template: '2026-01-02', multiplier: 1.50}\n", `{"pool":{"jitter":0},"queues":{"q":{"breaker":"off"}}}`, "# nothing\n{}\n", "---\n---\n",
		"tools:\n  \"a: b\": {effect: keyed}\n  ? |\n    x\n  : {max_retries: 1}\nhooks: [{name: a, when: 'tool == \"x\"', veto: no}]\n", "rules: [{name: d, when: 'true', patch: [{op: add, path: /n, value: 9007199254740993}]}]",
		"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n",
		strings.Repeat("[", 10_000), strings.Repeat("- ", 10_000), strings.Repeat("? ", 5000), "pool: !!binary x\n", "pool: {max_retries: 0x2}\n", "pool: {<<: {a: 1}}\n", "tools: {~: {max_retries: 1}}", strings.Repeat("{a: ", 3000),
		"pool: {max_retries: " + strings.Repeat("9", 5000) + "}", "\"" + strings.Repeat("k", 5000) + "\": 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzztest.Bounded(t, len(text), func() {
			raw, d, err := policies.Parse(text)
			if err != nil {
				if len(err.Error()) > 4*len(text)+fuzztest.MaxError {
					t.Fatalf("an error of %d bytes for %d: %.300s", len(err.Error()), len(text), err)
				}
				return
			}
			if !json.Valid(raw) {
				t.Fatalf("%q is no JSON", raw)
			}
			printed, err := policies.YAML(raw)
			if err != nil {
				t.Fatal(err)
			}
			again, e, err := policies.Parse(printed)
			if err != nil || !policies.Same(raw, again) || len(policies.Diff(d, e)) > 0 {
				t.Fatalf("%s was printed as\n%s\nand read as %s, %v", raw, printed, again, err)
			}
		})
	})
}

func TestAFileOfNothingButANullIsEmpty(t *testing.T) {
	for _, text := range []string{"!", "~", "null", " null # nothing\n", "---\n"} {
		if raw, _, err := policies.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "the file is empty") {
			t.Errorf("%q is %q, %v", text, raw, err)
		}
	}
}
