package dispatch

import (
	"errors"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestFailedReflectionEndsSoftly(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.decision.Analysis, s.decision.Action, s.decision.Error = nil, messages.Fail(""), "reflection internal error: no answer"
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeNotAnalysed)
	if r.Outcome.Reason != "reflection internal error: no answer" {
		t.Fatalf("reason %q", r.Outcome.Reason)
	}
}

func TestShortWaitsSpillToTheSchedule(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.decision.Action, s.facts.Waited = messages.Retry(999*ms), false
	if v := s.step(); v.Do != WaitFirst || v.Delay != 999*ms {
		t.Fatalf("verdict %s, %s", v.Do, v.Delay)
	}
	s.facts.NoRoom = true
	if r := s.written(t); r.State != messages.Waiting || !r.DueAt.Equal(epoch.Add(999*ms)) {
		t.Fatalf("without room: %s", show(r))
	}
	s.facts.NoRoom, s.decision.Action = false, messages.Retry(time.Second)
	if r := s.written(t); r.State != messages.Waiting {
		t.Fatalf("a second is long: %s", show(r))
	}
	s.decision.Action = messages.Retry(0)
	if r := s.written(t); r.State != messages.Dispatched {
		t.Fatalf("no delay is no wait: %s", show(r))
	}
}

func TestRecoveredBy(t *testing.T) {
	for _, c := range []struct{ before, by, want string }{
		{"", "retry", "retry"},
		{"retry", "retry", "retry"},
		{"retry", "input_fix (rules/x)", "retry, then input_fix (rules/x)"},
		{"retry, then input_fix (rules/x)", "retry", "retry, then input_fix (rules/x), then retry"},
		{"input_fix (rules/x), then retry", "retry", "input_fix (rules/x), then retry"},
	} {
		if got := joinRecoveries(c.before, c.by); got != c.want {
			t.Errorf("%q + %q = %q", c.before, c.by, got)
		}
	}
}

func TestHoldPutsADueDispatchOff(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.rec.State, s.rec.W = messages.Waiting, 2
	f := s.facts
	f.Gated = func(string) bool { return true }
	f.Passage = &Passage{Wait: &Wait{Until: epoch.Add(time.Minute), Reason: "circuit breaker open"}}
	v := Step(&s.rec, Event{Trigger: messages.Trigger{Kind: messages.TriggerDue, N: 1, W: 2}}, f, epoch)
	if v.Do != Write || v.Record.State != messages.Waiting || v.Record.W != 3 || v.Record.N != 1 || v.Record.Spent != 1 {
		t.Fatalf("verdict %s, %s", v.Do, show(v.Record))
	}
}

func TestCancelOfNothingKnown(t *testing.T) {
	e := Event{Trigger: messages.Trigger{Kind: messages.TriggerCancel}, Cancel: &messages.Cancel{Status: messages.Cancelled}}
	l := newWorld(messages.Unsafe).limits
	if v := Step(nil, e, Facts{Limits: l}, epoch); v.Do != ReadAgain {
		t.Fatalf("one look is not enough: %s", v.Do)
	}
	if v := Step(nil, e, Facts{Limits: l, Gone: true}, epoch); v.Do != Ack {
		t.Fatalf("verdict %s", v.Do)
	}
}

func TestVerdictsAndEffectsHaveNames(t *testing.T) {
	for d := Ack; d <= Closed; d++ {
		if d.String() == "" || d.String() == Do(0).String() {
			t.Errorf("verdict %d has no name", d)
		}
	}
	for k := CheckRun; k <= PurgeSchedule; k++ {
		if k.String() == "" || k.String() == EffectKind(0).String() {
			t.Errorf("effect %d has no name", k)
		}
	}
	if errors.Is(errIdle, nil) || Do(99).String() != "no verdict" || EffectKind(99).String() != "no effect" {
		t.Error("out of range")
	}
}
