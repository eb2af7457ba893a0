package worker

import (
	"testing"
	"time"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// Whatever stands in CONTROL about a breaker, a worker knows whether its tool
// is shut, tells of one success at the most, and what is deleted shuts nothing.
func FuzzBreakerEntry(f *testing.F) {
	f.Add("pay", []byte(`{"version":"1","tool":"pay","state":"half_open","mode":"defer","failures":["a"],"until":"2001-09-09T01:46:40Z","reset_ms":8796093022208,"updated":"2001-09-09T01:46:40Z"}`), []byte(`{"breaker":"fail_fast"}`))
	f.Add("", []byte(`{"version":"1","tool":"x","state":"open","mode":"off","until":"9999-12-31T23:59:59Z","opened":"0001-01-01T00:00:00Z"}`), []byte(`{"breaker":7}`))
	f.Add("a.b", []byte(`{"version":"1","tool":"x","state":"closed","mode":"off","failures":["",""]}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, tool string, value, policy []byte) {
		fuzztest.Bounded(t, len(tool)+len(value)+len(policy), func() {
			b, now := newBreakers(), time.Unix(1e9, 0)
			e := messages.Entry{Key: messages.BreakerKey(tool), Value: value}
			b.apply(e)
			of := b.of(tool).At(now)
			if of.State != messages.BreakerClosed && of.State != messages.BreakerOpen && of.State != messages.BreakerHalfOpen || of.Rest(now) < 0 || of.Pause() <= 0 || of.Why() == "" {
				t.Fatalf("%+v", of)
			}
			if first, second := b.awaits(tool, now), b.awaits(tool, now); first && second {
				t.Fatal("a second success is told")
			}
			_ = breakerMode(of, messages.Call{Policy: policy})
			e.Deleted, e.Value = true, nil
			b.apply(e)
			if of := b.of(tool); of.State != messages.BreakerClosed || len(b.seen) > 0 {
				t.Fatalf("what was deleted still holds: %+v", of)
			}
		})
	})
}
