package dispatch

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// A delay counts from the failure, by the broker's clock.
func TestADelayCountsFromTheFailure(t *testing.T) {
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := stored.Add(time.Hour) // by a clock that is wrong
	for took, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 2 * time.Second: 3 * time.Second, time.Minute: 0, -time.Minute: 5 * time.Second} {
		call := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.ReadOnly}
		f := Facts{Failure: &messages.Failure{Call: call, Executed: true, Code: messages.CodeToolError}, FailedAt: stored, At: stored.Add(took),
			Limits: Limits{MaxWait: time.Hour, ResultsRetention: 24 * time.Hour}}
		d := messages.Decision{Action: messages.Retry(5 * time.Second)}
		v := Step(nil, Event{Trigger: messages.Trigger{Kind: messages.TriggerDecision}, Decision: &d}, f, now)
		if v.Do != Write || want > 0 && !v.Record.DueAt.Equal(now.Add(want)) || want == 0 && v.Record.State != messages.Dispatched {
			t.Errorf("after %s: %+v", took, v)
		}
	}
}
