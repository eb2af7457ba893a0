package coordination

import (
	"slices"
	"testing"
	"time"

	"mulligan/internal/fuzztest"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// Whatever stands in the buckets, a coordinator knows tools that can be asked
// for, and what is deleted is gone.
func FuzzEntries(f *testing.F) {
	f.Add("tool.a", []byte(`{"spec":{"name":"a","queue":"q","effect":"unsafe","schema":{"properties":{"x":{"$ref":"#"}}}},"registered":"2026-01-01T00:00:00Z"}`), []byte(`{"worker":"w","tools":["a","a"]}`))
	f.Add("tool.=a=2E", []byte(`{"spec":{"schema":7}}`), []byte(`{"tools":null}`))
	f.Add("tool.", []byte(`{"withdrawn":true}`), []byte(`[]`))
	f.Add("run.r", []byte(`{"ended":{"status":"cancelled"}}`), []byte(`{"ended":null}`))
	f.Fuzz(func(t *testing.T, key string, value, offer []byte) {
		fuzztest.Bounded(t, len(key)+len(value)+len(offer), func() {
			r := newRegistry(nil, time.Minute, new(schema.Cache))
			ends := &runs{known: make(map[messages.Run]*knownRun)}
			r.apply(messages.Entry{Key: key, Value: value})
			r.apply(messages.Entry{Key: "offer.w", Value: offer})
			r.apply(messages.Entry{Key: "offer.w", Value: offer}) // a renewal
			ends.apply(messages.Entry{Key: key, Value: value})
			if names := r.served(); !slices.IsSorted(names) {
				t.Fatalf("%q", names)
			}
			for name, tool := range r.tools {
				if tool.schema == nil || tool.Spec.Queue == "" || tool.Spec.Effect == "" || messages.ToolKey(name) != key {
					t.Fatalf("%q is %+v", name, tool)
				}
				_ = tool.schema.Validate([]byte(`{}`))
			}
			_, _ = r.deserted(), r.all()
			for _, gone := range []string{key, "offer.w"} {
				r.apply(messages.Entry{Key: gone, Deleted: true})
				ends.apply(messages.Entry{Key: gone, Deleted: true})
			}
			if len(r.tools)+len(r.live)+len(r.offers)+len(ends.known) > 0 {
				t.Fatalf("what was deleted is still known: %v, %v, %v, %v", r.tools, r.live, r.offers, ends.known)
			}
		})
	})
}
