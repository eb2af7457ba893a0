package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/hook"
)

// The hooks of a document are a chain with a name for each, or an error that
// can be shown and says which hook it is about.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"hooks":[]}`, `{"hooks":[{"name":"a","when":"true","veto":"no"},{"name":"b","when":"tool == \"x\"","note":"look"}]}`, `{"hooks":[{"name":"a","when":"tool =="}]}`,
		`{"hooks":[{"name":"a","whem":"x"}]}`, `{"hooks":{"name":"a"}}`, `{"hooks":[null,1,"x",[]]}`, `{"hooks":[` + strings.Repeat(`{"name":"","when":""},`, 500) + `1]}`,
		`{"hooks":[{"name":"` + strings.Repeat("n", 5000) + `","when":"` + strings.Repeat("(", 1900) + `","veto":"x"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		fuzztest.Bounded(t, len(document), func() {
			c, err := hook.FromDocument(document, nil)
			if err != nil {
				if text := err.Error(); len(text) > 4*len(document)+fuzztest.MaxError || !strings.Contains(text, "hook") && !strings.Contains(text, "policies") {
					t.Fatalf("an error of %d bytes for %d: %.500q", len(text), len(document), text)
				}
				return
			}
			var d struct {
				Hooks []json.RawMessage `json:"hooks"`
			}
			if len(document) > 0 && json.Unmarshal(document, &d) != nil {
				t.Fatalf("%q was taken", document)
			}
			if len(c.Names()) != len(d.Hooks) {
				t.Fatalf("%d hooks became %q", len(d.Hooks), c.Names())
			}
		})
	})
}
