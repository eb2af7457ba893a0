package dispatch

import (
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestS5_1_EachEndIsReachable(t *testing.T) {
	cancelled := func(status messages.Status) messages.Record {
		s := newScene(messages.Idempotent)
		return Step(&s.rec, Event{Trigger: messages.Trigger{Kind: messages.TriggerCancel}, Cancel: &messages.Cancel{Status: status, Code: messages.CodeCancelled}}, s.facts, epoch).Record
	}
	decided := func(effect messages.Effect, change func(*scene)) messages.Record {
		s := newScene(effect)
		change(s)
		return s.written(t)
	}
	s := newScene(messages.Idempotent)
	for _, c := range []struct {
		want messages.Status
		got  messages.Record
	}{
		{messages.Succeeded, Step(&s.rec, Event{Trigger: messages.Trigger{Kind: messages.TriggerSettled}}, Facts{Result: &messages.Result{Status: messages.Succeeded}}, epoch).Record},
		{messages.Failed, decided(messages.Idempotent, func(s *scene) { s.decision.Action = messages.Skip("not worth it") })},
		{messages.Exhausted, decided(messages.Idempotent, func(s *scene) { s.rec.Spent = 5 })},
		{messages.Cancelled, cancelled(messages.Cancelled)},
		{messages.Expired, cancelled(messages.Expired)},
		{messages.StatusUnknown, decided(messages.Unsafe, func(s *scene) { s.failure.Ambiguous = true })},
	} {
		if c.got.State != messages.Ended || c.got.Outcome.Status != c.want {
			t.Errorf("got %s, want %s", show(c.got), c.want)
		}
	}
}

func TestS5_2_SoftEndShowsTheLastExecutedFailureVerbatim(t *testing.T) {
	output := []byte("bytes \x00\xff as they were")
	s := newScene(messages.Idempotent)
	s.failure.Output = messages.Body{Inline: output}
	s.failure.Worker = "w1"
	s.decision.Action = messages.Fail("max retries (3) exceeded")
	r := s.written(t)
	if r.Outcome.Verbatim != 1 {
		t.Fatalf("verbatim %d", r.Outcome.Verbatim)
	}
	res := ResultOf(r, &s.failure, epoch)
	if string(res.Output.Inline) != string(output) || !res.IsError || res.Attempts != 2 || res.Worker != "w1" {
		t.Fatalf("result %+v", res)
	}
	if res.Reason != "max retries (3) exceeded" || res.Guidance != "read the manual" {
		t.Fatalf("reason %q, guidance %q", res.Reason, res.Guidance)
	}
}

func TestS5_2_WhatExecutedNothingIsNotTheLastExecuted(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.failure.Executed, s.failure.Code = false, messages.CodeToolNotFound
	s.decision.Action = messages.Fail("gone")
	if r := s.written(t); r.Outcome.Verbatim != 0 {
		t.Fatalf("verbatim %d, want the failure of dispatch 0, which ran", r.Outcome.Verbatim)
	}
	s.rec.LastExecuted = -1
	if r := s.written(t); r.Outcome.Verbatim != 1 {
		t.Fatalf("verbatim %d: nothing ever ran, so the failure at hand is what there is to read", r.Outcome.Verbatim)
	}
}

func TestS5_3_AskUserParksOrReturns(t *testing.T) {
	s := newScene(messages.Unsafe)
	s.decision.Action = messages.AskUser("may it be 2?")
	s.correction(fix(`{"a":2}`))
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeAskUser)
	if r.Outcome.Reason != "may it be 2?" || r.Outcome.Verbatim != 1 {
		t.Fatalf("outcome %+v", r.Outcome)
	}
	s.decision.Park = true
	r = s.written(t)
	if r.State != messages.Parked || r.Prompt != "may it be 2?" || r.Proposed == nil || !r.AnswerBy.Equal(epoch.Add(time.Hour)) {
		t.Fatalf("got %s, prompt %q, answer by %s", show(r), r.Prompt, r.AnswerBy)
	}
}

func TestS5_3_Answers(t *testing.T) {
	edit, bad := messages.Text(`{"a":3}`), messages.Text(`{"b":3}`)
	tool := func(string) (Tool, bool) { return Tool{Validate: needs("a")}, true }
	for _, c := range []struct {
		name   string
		answer messages.Answer
		input  string // of the next dispatch; empty: ended failed
		key    string
	}{
		{"approve", messages.Answer{Kind: messages.AnswerApprove}, `{"a":2}`, testCall + "-2"},
		{"edit", messages.Answer{Kind: messages.AnswerEdit, Input: &edit}, `{"a":3}`, testCall + "-2"},
		{"edit that does not fit", messages.Answer{Kind: messages.AnswerEdit, Input: &bad}, ``, ""},
		{"edit without input", messages.Answer{Kind: messages.AnswerEdit}, ``, ""},
		{"retry", messages.Answer{Kind: messages.AnswerRetry}, `{"a":1}`, testCall},
		{"skip", messages.Answer{Kind: messages.AnswerSkip}, ``, ""},
		{"fail", messages.Answer{Kind: messages.AnswerFail}, ``, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Tool: tool}
			if c.answer.Input != nil {
				f.Input = c.answer.Input.Inline
			}
			r := answerStep(parkedRecord(2), c.answer, f).Record
			if c.input == "" {
				wantEnd(t, r, messages.Failed, messages.CodeDenied)
				return
			}
			wantNext(t, r, "t", c.input)
			if r.Call.Key != c.key || r.State != messages.Dispatched {
				t.Fatalf("key %s, %s", r.Call.Key, show(r))
			}
		})
	}
}

func TestS5_4_DenialEndsTheCallWithItsReason(t *testing.T) {
	r := answerStep(parkedRecord(2), messages.Answer{Kind: messages.AnswerFail, By: "ann", Reason: "wrong customer"}, Facts{}).Record
	wantEnd(t, r, messages.Failed, messages.CodeDenied)
	if r.Outcome.Reason != "fail by ann: wrong customer" || r.Outcome.EndsRun {
		t.Fatalf("outcome %+v", r.Outcome)
	}
	if es := Effects(r); len(es) != 1 || es[0].Kind != PutResult {
		t.Fatalf("a denial is neither reflected on nor retried: %v", es)
	}
}

func TestS5_5_OnlyAHardEndOfANamedRunEndsIt(t *testing.T) {
	for _, c := range []struct {
		status messages.Status
		run    messages.Run
		want   bool
	}{
		{messages.Exhausted, messages.NamedRun("r"), true},
		{messages.Exhausted, messages.UnnamedRun("01900000-0000-7000-8000-0000000000ff"), false},
		{messages.Failed, messages.NamedRun("r"), false},
		{messages.StatusUnknown, messages.NamedRun("r"), false},
		{messages.Cancelled, messages.NamedRun("r"), false},
		{messages.Expired, messages.NamedRun("r"), false},
		{messages.Succeeded, messages.NamedRun("r"), false},
	} {
		es := AfterEnd(nil, messages.Result{Status: c.status, Run: c.run})
		if got := len(es) == 1 && es[0].Kind == EndRun; got != c.want {
			t.Errorf("%s of run %q: effects %v", c.status, c.run, es)
		}
	}
}

func TestS5_6_GuidanceStandsInItsOwnField(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.decision.Action = messages.Fail("no")
	res := ResultOf(s.written(t), &s.failure, epoch)
	if res.Guidance != "read the manual" || strings.Contains(string(res.Output.Inline), "manual") {
		t.Fatalf("guidance %q, output %q", res.Guidance, res.Output.Inline)
	}
}

// The worker stops a tool as soon as CONTROL says so, and its failure may be
// decided on before the cancel's own trigger is.
func TestS5_1_AStoppedExecutionEndsAsWhatStoppedIt(t *testing.T) {
	for _, c := range []struct {
		code      messages.Code
		effect    messages.Effect
		ambiguous bool
		want      messages.Status
		wantCode  messages.Code
	}{
		{messages.CodeCancelled, messages.ReadOnly, false, messages.Cancelled, messages.CodeCancelled},
		{messages.CodeRunEnded, messages.Idempotent, true, messages.Cancelled, messages.CodeRunEnded},
		{messages.CodeDeadline, messages.Keyed, true, messages.Expired, messages.CodeDeadline},
		{messages.CodeCancelled, messages.Unsafe, true, messages.StatusUnknown, messages.CodeAmbiguous},
		{messages.CodeDrained, messages.Idempotent, true, messages.Failed, messages.CodeRecoveryGaveUp},
	} {
		s := newScene(c.effect)
		s.failure.Code, s.failure.Ambiguous = c.code, c.ambiguous
		s.decision.Action = messages.Fail("not reflected on")
		wantEnd(t, s.written(t), c.want, c.wantCode)
	}
}
