package dispatch

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// The result of a settled call is there until it expires: a read that does not
// find it is old, and no reason to do nothing.
func TestP7_05_ASettledCallHasItsResult(t *testing.T) {
	s := newScene(messages.Idempotent)
	e := Event{Trigger: messages.Trigger{Kind: messages.TriggerSettled}}
	f := Facts{At: epoch.Add(-time.Second), Limits: Limits{ResultsRetention: time.Hour}}
	if v := Step(&s.rec, e, f, epoch); v.Do != ReadAgain {
		t.Errorf("a result that was not found: %s", v.Do)
	}
	if v := Step(&s.rec, e, f, epoch.Add(time.Hour)); v.Do != Ack {
		t.Errorf("a result that has expired: %s", v.Do)
	}
}
