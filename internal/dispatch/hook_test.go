package dispatch

import (
	"strings"
	"testing"

	"mulligan/pkg/messages"
)

func vetoed(text string) *Passage {
	return &Passage{Refusal: &Refusal{Code: messages.CodeHookVeto, Text: text, Reason: `vetoed by hook "guard": ` + text}}
}

// A call that was vetoed at admission has the hook's own reason as its text.
func TestS6_T7_AVetoBeforeTheFirstDispatch(t *testing.T) {
	w := newWorld(messages.Unsafe)
	record, res := TurnedAway(w.call, *vetoed("not today").Refusal, epoch)
	if res.Status != messages.Failed || res.Code != messages.CodeHookVeto || string(res.Output.Inline) != "not today" || res.Attempts != 0 ||
		res.Reason != `vetoed by hook "guard": not today` || !res.IsError {
		t.Errorf("%+v", res)
	}
	if record.State != messages.Ended || record.Outcome.Code != messages.CodeHookVeto || string(record.Input.Inline) != string(w.call.Input.Inline) || record.Call.Input.Inline != nil {
		t.Errorf("the record that keeps its input: %+v", record)
	}
}

// After an attempt the text stays that attempt's, and the reason stands beside it.
func TestS6_T7_AVetoOfARetry(t *testing.T) {
	s := newScene(messages.Unsafe)
	s.correction(fix(`{"a":2}`))
	gatedBy(vetoed("not today"))(&s.facts)
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeHookVeto)
	res := ResultOf(r, &s.failure, epoch)
	if string(res.Output.Inline) != "boom" || res.Reason != `vetoed by hook "guard": not today` || res.Attempts != 2 {
		t.Errorf("%+v", res)
	}
}

// A veto ends a call, and does not hide that an effect may have happened.
func TestS7_7_AVetoHidesNoAmbiguity(t *testing.T) {
	s := newScene(messages.Unsafe)
	s.rec.Ambiguous = []int{0}
	gatedBy(vetoed("not today"))(&s.facts)
	r := s.written(t)
	wantEnd(t, r, messages.StatusUnknown, messages.CodeAmbiguous)
	if !strings.Contains(r.Outcome.Reason, "may have happened") || !strings.Contains(r.Outcome.Reason, "not today") {
		t.Error(r.Outcome.Reason)
	}
}

// A veto of a worker is final, even where a reflector of another version wants
// to try again with another input.
func TestS6_T7_AVetoOfAWorkerIsNeverRetried(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.correction(fix(`{"a":2}`))
	s.failure.Code, s.failure.Executed, s.failure.Error = messages.CodeHookVeto, false, `vetoed by hook "guard": not today`
	s.failure.Output = messages.Text("not today")
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeHookVeto)
	if r.Spent != 1 || r.Outcome.Reason != s.failure.Error || r.Outcome.Verbatim != 0 {
		t.Errorf("%d spent, %+v", r.Spent, r.Outcome)
	}
	s.rec.LastExecuted = -1 // nothing ran before
	r = s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeHookVeto)
	if res := ResultOf(r, &s.failure, epoch); string(res.Output.Inline) != "not today" {
		t.Errorf("%+v", res)
	}
	s.rec.Ambiguous, s.rec.Call.Effect = []int{0}, messages.Unsafe
	wantEnd(t, s.written(t), messages.StatusUnknown, messages.CodeAmbiguous)
}
