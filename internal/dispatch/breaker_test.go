package dispatch

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func gatedBy(p *Passage) func(*Facts) {
	return func(f *Facts) {
		f.Gated = func(string) bool { return true }
		f.Passage = p
	}
}

func TestS8_3_ARefusalInAChainKeepsTheOriginalError(t *testing.T) {
	s := newScene(messages.Idempotent)
	gatedBy(nil)(&s.facts)
	if v := s.step(); v.Do != AskGate || v.Record.N != 2 {
		t.Fatalf("verdict %s", v.Do)
	}
	gatedBy(&Passage{Refusal: &Refusal{Code: messages.CodeBreakerOpen, Text: messages.BreakerText}})(&s.facts)
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeBreakerOpen)
	res := ResultOf(r, &s.failure, epoch)
	if r.Outcome.Verbatim != 1 || string(res.Output.Inline) != "boom" || res.Reason != messages.BreakerText || res.Attempts != 2 {
		t.Fatalf("%+v", res)
	}
}

// A worker refuses what was queued when the breaker opened.
func TestS8_3_ARefusalOfAWorkerEndsTheCallWithItsText(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.failure.Executed, s.failure.NothingDone, s.failure.Mark = false, true, 1
	s.failure.Code, s.failure.Error, s.failure.Output = messages.CodeBreakerOpen, messages.BreakerText, messages.Text(messages.BreakerText)
	s.decision.Analysis, s.decision.Action = nil, messages.Fail(messages.BreakerText)
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeBreakerOpen)
	if r.Outcome.Verbatim != 0 || r.Outcome.Reason != messages.BreakerText || r.Spent != 1 {
		t.Fatalf("%+v, %d spent", r.Outcome, r.Spent)
	}
	s.rec.LastExecuted = -1
	if r := s.written(t); r.Outcome.Verbatim != 1 {
		t.Fatalf("verbatim %d: nothing ran, so the refusal is what there is to read", r.Outcome.Verbatim)
	}
}

func TestS8_3_ADeferredCallWaitsAndSpendsNothing(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.failure.Executed, s.failure.NothingDone, s.failure.RetryAfter = false, true, messages.Millis(time.Minute)
	s.failure.Code, s.decision.Analysis, s.decision.Action = messages.CodeBreakerOpen, nil, messages.Retry(time.Minute)
	for _, waits := range []int{0, messages.MaxFreeWaits} {
		s.rec.FreeWaits = waits
		r := s.written(t)
		if r.State != messages.Waiting || r.N != 2 || r.Spent != 1 || !r.DueAt.Equal(epoch.Add(time.Minute)) || r.Call.RecoveredBy != "" {
			t.Fatalf("after %d waits: %s, recovered by %q", waits, show(r), r.Call.RecoveredBy)
		}
	}
}

// A dispatch 0 that was put off goes out with the mark of a repetition, so
// that its first execution has start mark 1 and not none.
func TestS8_3_APutOffCallCanStillBeCorrected(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.correction(fix(`{"a":2}`))
	s.rec.N, s.rec.Spent, s.rec.LastExecuted, s.rec.W, s.rec.Call.Dispatch = 0, 0, -1, 1, 0
	s.failure.Call.Dispatch, s.failure.Mark, s.decision.Dispatch = 0, 1, 0
	if r := s.written(t); r.N != 1 || string(r.Input.Inline) != `{"a":2}` {
		t.Fatalf("got %s", show(r))
	}
	s.rec.W = 0
	wantEnd(t, s.written(t), messages.Failed, messages.CodeAskUser)
}

func TestS8_2_WhatSpeaksAgainstTheTool(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     messages.Code
		executed bool
		fault    messages.Fault
		want     bool
	}{
		{"an error", messages.CodeToolError, true, "", true},
		{"an error that is the tool's", messages.CodeToolError, true, messages.FaultTool, true},
		{"a healthy tool that says no", messages.CodeToolError, true, messages.FaultCall, false},
		{"a time-out", messages.CodeTimeout, true, "", true},
		{"a worker that was lost", messages.CodeWorkerLost, true, "", true},
		{"a tool that is too busy", messages.CodeRateLimited, true, "", true},
		{"a code of the tool's own", "backend_down", true, "", true},
		{"arguments that do not fit", messages.CodeInvalidArguments, false, "", false},
		{"a tool that is not here", messages.CodeToolNotFound, false, "", false},
		{"a refusal of a breaker", messages.CodeBreakerOpen, false, "", false},
		{"a cancel", messages.CodeCancelled, true, "", false},
		{"a deadline", messages.CodeDeadline, true, "", false},
		{"a drain", messages.CodeDrained, true, "", false},
		{"an answer that is too long", messages.CodeOutputTooLarge, true, "", false},
	} {
		if got := ToolFailed(messages.Failure{Code: c.code, Executed: c.executed}, messages.Decision{Fault: c.fault}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestS8_2_WhichEndsCount(t *testing.T) {
	for _, c := range []struct {
		status messages.Status
		code   messages.Code
		want   bool
	}{
		{messages.Failed, messages.CodeRecoveryGaveUp, true},
		{messages.Failed, messages.CodeAskUser, true},
		{messages.Failed, messages.CodeNotAnalysed, true},
		{messages.Exhausted, messages.CodeExhausted, true},
		{messages.StatusUnknown, messages.CodeAmbiguous, true},
		{messages.Succeeded, "", false},
		{messages.Cancelled, messages.CodeCancelled, false},
		{messages.Expired, messages.CodeDeadline, false},
		{messages.Failed, messages.CodeBreakerOpen, false},
		{messages.Failed, messages.CodeHookVeto, false},
		{messages.Failed, messages.CodeDenied, false},
		{messages.Failed, messages.CodeAnswerBy, false},
	} {
		if got := ByFailure(messages.Outcome{Status: c.status, Code: c.code}); got != c.want {
			t.Errorf("%s (%s): %v", c.status, c.code, got)
		}
	}
}
