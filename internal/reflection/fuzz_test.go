package reflection

import (
	"slices"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// Whatever stands in TOOLS, a reflector knows the tools that are offered, and
// what is deleted is gone.
func FuzzRegistry(f *testing.F) {
	f.Add("tool.a", []byte(`{"spec":{"name":"a","queue":"q"}}`), []byte(`{"worker":"w","tools":["a"]}`))
	f.Add("offer.=2E", []byte(`{"tools":[""]}`), []byte(`7`))
	f.Add("tool.=", []byte(`{"spec":null}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, key string, value, offer []byte) {
		fuzztest.Bounded(t, len(key)+len(value)+len(offer), func() {
			var r registry
			r.apply(messages.Entry{Key: key, Value: value})
			r.apply(messages.Entry{Key: "offer.w", Value: offer})
			s := r.live()
			if !slices.IsSortedFunc(s.live, func(a, b messages.ToolSpec) int { return strings.Compare(a.Name, b.Name) }) || len(s.live) > len(s.byName) {
				t.Fatalf("%v", s.live)
			}
			for name := range s.byName {
				_ = s.schema(name)
			}
			r.apply(messages.Entry{Key: key, Deleted: true})
			r.apply(messages.Entry{Key: "offer.w", Deleted: true})
			if s := r.live(); len(s.byName)+len(s.live)+len(r.offers) > 0 {
				t.Fatalf("what was deleted is still known: %+v, %v", s, r.offers)
			}
		})
	})
}
