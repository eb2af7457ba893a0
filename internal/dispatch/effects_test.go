package dispatch

import (
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestS7_2_KeyFollowsToolAndInput(t *testing.T) {
	s := newScene(messages.ReadOnly)
	if r := s.written(t); r.Call.Key != testCall {
		t.Fatalf("a bare retry changed the key to %s", r.Call.Key)
	}
	s.correction(fix(`{"a":2}`))
	r := s.written(t)
	if r.Call.Key != testCall+"-2" {
		t.Fatalf("a correction left the key at %s", r.Call.Key)
	}
	s.rec, s.failure.Call, s.decision.Analysis.Correction = r, r.Call, nil
	s.decision.Dispatch = 2
	if r = s.written(t); r.Call.Key != testCall+"-2" || r.N != 3 {
		t.Fatalf("a bare retry of the corrected input has key %s", r.Call.Key)
	}
}

func TestS7_3_AmbiguousUnsafeIsNeverRetriedByMachine(t *testing.T) {
	for _, action := range []messages.RecoveryAction{messages.Retry(0), messages.Retry(time.Minute), messages.AskUser("?"), messages.Skip("s"), messages.Fail("f")} {
		for _, park := range []bool{false, true} {
			s := newScene(messages.Unsafe)
			s.failure.Ambiguous, s.decision.Action, s.decision.Park = true, action, park
			r := s.written(t)
			asks := action.Type == messages.ActRetry || action.Type == messages.ActAskUser
			if park && asks {
				if r.State != messages.Parked {
					t.Fatalf("%s, park: %s", action, show(r))
				}
				continue
			}
			wantEnd(t, r, messages.StatusUnknown, messages.CodeAmbiguous)
		}
	}
	s := newScene(messages.Unsafe)
	wantNext(t, s.written(t), "t", `{"a":1}`) // a definite one may be
}

func TestS7_5_EarlierSuccessEndsTheCallOnce(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.rec.State, s.rec.N, s.rec.DueAt = messages.Waiting, 2, epoch.Add(time.Minute)
	e := Event{Trigger: messages.Trigger{Kind: messages.TriggerDue, N: 2}}
	f := Facts{Result: &messages.Result{Status: messages.Succeeded, Dispatch: 0}}
	v := Step(&s.rec, e, f, epoch)
	if v.Do != Close || v.Record.Outcome.Status != messages.Succeeded {
		t.Fatalf("verdict %s, %s", v.Do, show(v.Record))
	}
	for _, x := range AfterEnd(&v.Record, *f.Result) {
		if x.Kind == Publish || x.Kind == PutResult || x.Kind == EndRun {
			t.Fatalf("after the end: %s", x.Kind)
		}
	}
	again := Step(&v.Record, Event{Trigger: messages.Trigger{Kind: messages.TriggerDecision, N: 1}}, f, epoch)
	if again.Do != Closed {
		t.Fatalf("what comes after the end changes nothing, got %s", again.Do)
	}
}

func TestS7_6_CorrectionAfterAmbiguityBecomesAskUser(t *testing.T) {
	for _, c := range []struct {
		name      string
		effect    messages.Effect
		ambiguous bool
		mark      int
		claim     Claim
		corrects  bool
	}{
		{"definite and alone", messages.Idempotent, false, 1, ClaimWon, true},
		{"ambiguous", messages.Idempotent, true, 1, ClaimWon, false},
		{"ambiguous, keyed", messages.Keyed, true, 1, ClaimWon, false},
		{"a second execution", messages.Keyed, false, 2, ClaimWon, false},
		{"another one has begun", messages.Keyed, false, 1, ClaimLost, false},
		{"changes nothing, so it may", messages.ReadOnly, true, 2, ClaimLost, true},
		{"unsafe and definite: its start is its own", messages.Unsafe, false, 0, ClaimLost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(c.effect)
			s.failure.Ambiguous, s.failure.Mark, s.facts.Claim = c.ambiguous, c.mark, c.claim
			s.correction(fix(`{"a":2}`))
			r := s.written(t)
			if c.corrects {
				wantNext(t, r, "t", `{"a":2}`)
				return
			}
			wantEnd(t, r, messages.Failed, messages.CodeAskUser)
			wantApplication(t, r, messages.CorrectionRejected, "a machine may not apply it")
			s.decision.Analysis.Correction = nil
			wantNext(t, s.written(t), "t", `{"a":1}`) // the identical retry may
		})
	}
}

func TestS7_7_AmbiguityIsSticky(t *testing.T) {
	ambiguous := func() *scene {
		s := newScene(messages.Unsafe)
		s.rec.Ambiguous = []int{0}
		return s
	}
	stop := func(status messages.Status) messages.Record {
		s := ambiguous()
		s.rec.State, s.rec.DueAt = messages.Waiting, epoch
		return Step(&s.rec, Event{Trigger: messages.Trigger{Kind: messages.TriggerCancel}, Cancel: &messages.Cancel{Status: status}}, s.facts, epoch).Record
	}
	decided := func(change func(*scene)) messages.Record {
		s := ambiguous()
		change(s)
		return s.written(t)
	}
	for name, r := range map[string]messages.Record{
		"cancelled":          stop(messages.Cancelled),
		"expired":            stop(messages.Expired),
		"out of budget":      decided(func(s *scene) { s.rec.Spent = 5 }),
		"given up":           decided(func(s *scene) { s.decision.Action = messages.Fail("f") }),
		"returned to a user": decided(func(s *scene) { s.decision.Action = messages.AskUser("?") }),
		"a correction":       decided(func(s *scene) { s.correction(fix(`{"a":2}`)) }),
	} {
		if r.State != messages.Ended || r.Outcome.Status != messages.StatusUnknown || r.Outcome.EndsRun {
			t.Errorf("%s: %s", name, show(r))
		}
		if r.Outcome != nil && !strings.Contains(r.Outcome.Reason, "dispatch 0") {
			t.Errorf("%s: the attempt is not listed: %q", name, r.Outcome.Reason)
		}
	}
	p := parkedRecord(2)
	p.Ambiguous = []int{0, 1}
	r := answerStep(p, messages.Answer{Kind: messages.AnswerFail, By: "ann"}, Facts{}).Record
	wantEnd(t, r, messages.Failed, messages.CodeDenied)
	if !strings.Contains(r.Outcome.Reason, "dispatches 0, 1") {
		t.Errorf("a human's word ends it otherwise, with the attempts listed: %q", r.Outcome.Reason)
	}
	r = answerStep(p, messages.Answer{Kind: messages.AnswerTimedOut}, Facts{}).Record
	wantEnd(t, r, messages.StatusUnknown, messages.CodeAmbiguous)
}
