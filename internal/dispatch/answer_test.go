package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestS4_7_WhatIsOfferedIsWhatIsLeft(t *testing.T) {
	advice := messages.Correction{Type: messages.Escalate}
	for _, c := range []struct {
		name   string
		change func(*messages.Record)
		want   string
	}{
		{"all", func(*messages.Record) {}, "[approve edit retry skip fail]"},
		{"nothing proposed", func(r *messages.Record) { r.Proposed = nil }, "[edit retry skip fail]"},
		{"advice", func(r *messages.Record) { r.Proposed = &advice }, "[edit retry skip fail]"},
		{"six spent", func(r *messages.Record) { r.Spent = messages.MaxAttempts }, "[skip fail]"},
		{"all dispatches used", func(r *messages.Record) { r.N = messages.MaxDispatches }, "[skip fail]"},
		{"deadline passed", func(r *messages.Record) { r.Call.Deadline = epoch.Add(-time.Second) }, "[skip fail]"},
	} {
		r := parkedRecord(2)
		c.change(&r)
		if got := fmt.Sprint(Offered(r, epoch)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestWhatIsOfferedIsWhatIsDone: an answer to which nothing is objected sends
// the call out again or ends it as it says, and one that is objected to would
// have ended it.
func TestWhatIsOfferedIsWhatIsDone(t *testing.T) {
	fits, bad := messages.Text(`{"a":3}`), messages.Text(`{"b":3}`)
	tool := func(string) (Tool, bool) { return Tool{Validate: needs("a")}, true }
	for _, spent := range []int{2, messages.MaxAttempts} {
		for _, a := range []messages.Answer{
			{Kind: messages.AnswerApprove}, {Kind: messages.AnswerRetry}, {Kind: messages.AnswerEdit, Input: &fits}, {Kind: messages.AnswerEdit, Input: &bad},
			{Kind: messages.AnswerSkip}, {Kind: messages.AnswerFail},
		} {
			r, f := parkedRecord(spent), Facts{Tool: tool}
			f.Input = r.Input.Inline
			if a.Input != nil {
				f.Input = a.Input.Inline
			}
			code, why := Objection(r, a, f, epoch)
			out := answerStep(r, a, f).Record.State == messages.Dispatched
			no := a.Kind == messages.AnswerSkip || a.Kind == messages.AnswerFail
			if (why == "") != (out || no) || (code == "") != (why == "") {
				t.Errorf("%s with %d spent: objection %q (%s), and it goes out: %v", a.Kind, spent, why, code, out)
			}
		}
	}
}

func TestObjectionsNameTheWayOut(t *testing.T) {
	r := parkedRecord(2)
	r.Proposed = nil
	if _, why := Objection(r, messages.Answer{Kind: messages.AnswerApprove}, Facts{}, epoch); !strings.Contains(why, "answer one of edit, retry, skip, fail") {
		t.Error(why)
	}
	r.Call.Deadline = epoch
	if code, why := Objection(r, messages.Answer{Kind: messages.AnswerRetry}, Facts{}, epoch); code != messages.CodeDeadlinePassed || !strings.Contains(why, "has passed; answer skip or fail") {
		t.Errorf("%s %s", code, why)
	}
}

func TestS5_3_AnswerByHasADefaultAndALimit(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute, 2 * time.Hour: 2 * time.Hour, 9 * time.Hour: 3 * time.Hour} {
		s := newScene(messages.Unsafe)
		s.decision.Action, s.decision.Park, s.decision.AnswerBy = messages.AskUser("?"), true, messages.Millis(said)
		if r := s.written(t); !r.AnswerBy.Equal(epoch.Add(want)) {
			t.Errorf("a policy that says %v waits until %v, want %v", said, r.AnswerBy.Sub(epoch), want)
		}
	}
}

// However an answer goes on, the schedule of its question is taken back: the
// record of what follows no longer knows when it was to be answered by.
func TestS5_3_AnAnswerTakesTheQuestionBack(t *testing.T) {
	wait := &Passage{Wait: &Wait{Until: epoch.Add(time.Minute), Reason: "circuit breaker open"}}
	refusal := &Passage{Refusal: &Refusal{Code: messages.CodeBreakerOpen, Text: messages.BreakerText}}
	for name, c := range map[string]struct {
		answer messages.AnswerKind
		gate   *Passage
		state  messages.State
	}{
		"goes out":       {messages.AnswerRetry, &Passage{}, messages.Dispatched},
		"is put off":     {messages.AnswerRetry, wait, messages.Waiting},
		"is refused":     {messages.AnswerRetry, refusal, messages.Ended},
		"is skipped":     {messages.AnswerSkip, nil, messages.Ended},
		"is out of time": {messages.AnswerTimedOut, nil, messages.Ended},
	} {
		r := parkedRecord(2)
		f := Facts{}
		gatedBy(c.gate)(&f)
		v := answerStep(r, messages.Answer{Kind: c.answer, By: "ada"}, f)
		if v.Do != Write || v.Record.State != c.state {
			t.Fatalf("%s: verdict %s, %s", name, v.Do, show(v.Record))
		}
		effects := Effects(v.Record)
		if c.state == messages.Ended {
			effects = append(effects, AfterEnd(&v.Record, messages.Result{Status: v.Record.Outcome.Status})...)
		}
		back := 0
		for _, e := range effects {
			if e.Kind == PurgeSchedule && e.Due.Kind == messages.DueAnswerBy && e.Due.N == r.N {
				back++
			}
		}
		if back != 1 {
			t.Errorf("%s: the question is taken back %d times by %v", name, back, effects)
		}
	}
}
