package dispatch

import (
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestS4_1_CeilingWhateverTheStrategySays(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.decision.MaxRetries = 1000
	for attempt := 1; attempt <= messages.MaxRetries; attempt++ {
		r := s.written(t)
		if attempt == messages.MaxRetries {
			wantEnd(t, r, messages.Exhausted, messages.CodeExhausted)
			return
		}
		if r.Spent != attempt+1 || r.Call.Attempt != attempt+1 {
			t.Fatalf("attempt %d: spent %d, next attempt %d", attempt, r.Spent, r.Call.Attempt)
		}
		s.rec = r
		s.failure.Call = r.Call
	}
}

func TestS4_2_ExhaustedAfterSix(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * ms, time.Minute} {
		s := newScene(messages.Idempotent)
		s.rec.Spent, s.facts.Waited = 5, false
		s.decision.Action = messages.Retry(delay)
		r := s.written(t) // no last wait
		wantEnd(t, r, messages.Exhausted, messages.CodeExhausted)
		if !r.Outcome.EndsRun {
			t.Fatal("the run was named and has to end")
		}
		if !strings.Contains(r.Outcome.Reason, `tool "t" failed in all 6 attempts`) {
			t.Fatalf("reason %q", r.Outcome.Reason)
		}
	}
}

func TestS4_3_StrategysFailIsSoft(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.rec.Spent = 5
	s.decision.Action = messages.Fail("max retries (5) exceeded")
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeRecoveryGaveUp)
	if r.Outcome.EndsRun || r.Outcome.Reason != "max retries (5) exceeded" {
		t.Fatalf("outcome %+v", r.Outcome)
	}
}

func TestS4_4_WhatSpendsAnAttempt(t *testing.T) {
	for _, c := range []struct {
		name     string
		executed bool
		code     messages.Code
		spent    int
		verbatim int
	}{
		{"the tool was started", true, messages.CodeToolError, 2, 1},
		{"its arguments could not be used", false, messages.CodeInvalidArguments, 2, 1},
		{"nobody serves it", false, messages.CodeToolNotFound, 1, 0},
		{"nothing was started", false, messages.CodeWorkerLost, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.Idempotent)
			s.failure.Executed, s.failure.Code = c.executed, c.code
			r := s.written(t)
			if r.Spent != c.spent || r.Call.Attempt != c.spent || r.LastExecuted != c.verbatim || r.N != 2 {
				t.Fatalf("got %s attempt=%d last executed=%d", show(r), r.Call.Attempt, r.LastExecuted)
			}
		})
	}
}

func TestS4_4_DispatchesThatSpendNothingEndToo(t *testing.T) {
	s := newScene(messages.Idempotent)
	s.rec.N, s.rec.Call.Dispatch = messages.MaxDispatches, messages.MaxDispatches
	s.failure.Call, s.failure.Executed, s.failure.Code = s.rec.Call, false, messages.CodeToolNotFound
	s.decision.Dispatch = messages.MaxDispatches
	r := s.written(t)
	wantEnd(t, r, messages.Failed, messages.CodeRecoveryGaveUp)
	if !strings.Contains(r.Outcome.Reason, "26 dispatches") {
		t.Fatalf("reason %q", r.Outcome.Reason)
	}
}

func parkedRecord(spent int) messages.Record {
	s := newScene(messages.Unsafe)
	r := s.rec
	r.State, r.Spent, r.LastExecuted, r.AnswerBy = messages.Parked, spent, 1, epoch.Add(time.Hour)
	c := fix(`{"a":2}`)
	r.Proposed, r.Prompt = &c, "may it be 2?"
	return r
}

func answerStep(r messages.Record, a messages.Answer, f Facts) Verdict {
	f.Limits = Limits{AnswerBy: time.Hour, AnswerByLimit: 3 * time.Hour, MaxWait: time.Hour, ResultsRetention: time.Hour}
	if f.Input == nil {
		f.Input = r.Input.Inline
	}
	return Step(&r, Event{Trigger: messages.Trigger{Kind: messages.TriggerAnswer, N: r.N}, Answer: &a}, f, epoch)
}

func TestS4_7_WithSixSpentOnlySkipAndFail(t *testing.T) {
	edit := messages.Text(`{"a":3}`)
	for _, c := range []struct {
		answer messages.Answer
		code   messages.Code
	}{
		{messages.Answer{Kind: messages.AnswerApprove}, messages.CodeExhausted},
		{messages.Answer{Kind: messages.AnswerRetry}, messages.CodeExhausted},
		{messages.Answer{Kind: messages.AnswerEdit, Input: &edit}, messages.CodeExhausted},
		{messages.Answer{Kind: messages.AnswerSkip}, messages.CodeDenied},
		{messages.Answer{Kind: messages.AnswerFail}, messages.CodeDenied},
	} {
		v := answerStep(parkedRecord(6), c.answer, Facts{})
		wantEnd(t, v.Record, messages.Failed, c.code)
		if v := answerStep(parkedRecord(5), c.answer, Facts{}); (v.Record.State == messages.Dispatched) != (c.code == messages.CodeExhausted) {
			t.Fatalf("with five spent %s gives %s", c.answer.Kind, show(v.Record))
		}
	}
}

func TestS6_2_RetryHint(t *testing.T) {
	for _, c := range []struct {
		name    string
		nothing bool
		waits   int // free waits before
		delay   time.Duration
		hint    time.Duration
		spent   int
		free    int
		due     time.Duration
	}{
		{"a floor of the delay", false, 0, time.Second, 5 * time.Second, 2, 0, 5 * time.Second},
		{"below the delay", false, 0, 9 * time.Second, 5 * time.Second, 2, 0, 9 * time.Second},
		{"nothing done spends nothing", true, 3, 0, 5 * time.Second, 1, 4, 5 * time.Second},
		{"at most twenty", true, messages.MaxFreeWaits, 0, 5 * time.Second, 2, 0, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(messages.Unsafe)
			s.rec.FreeWaits = c.waits
			s.failure.NothingDone, s.failure.RetryAfter = c.nothing, messages.Millis(c.hint)
			s.decision.Action = messages.Retry(c.delay)
			r := s.written(t)
			if r.Spent != c.spent || r.FreeWaits != c.free || r.N != 2 || !r.DueAt.Equal(epoch.Add(c.due)) {
				t.Fatalf("got %s", show(r))
			}
		})
	}
	t.Run("a hint beyond what is kept ends the call", func(t *testing.T) {
		s := newScene(messages.Idempotent)
		s.failure.RetryAfter = messages.Millis(1000 * time.Hour)
		wantEnd(t, s.written(t), messages.Failed, messages.CodeRecoveryGaveUp)
	})
	t.Run("never past the deadline", func(t *testing.T) {
		s := newScene(messages.Idempotent)
		s.rec.Call.Deadline = epoch
		s.failure.NothingDone, s.failure.RetryAfter = true, messages.Millis(time.Second)
		wantEnd(t, s.written(t), messages.Expired, messages.CodeDeadline)
	})
}

// A result says how often something was tried. What ran and did nothing is an
// attempt once no more can come of it.
func TestS6_2_AnAttemptThatOnlyWaitedIsCountedAtTheEnd(t *testing.T) {
	for _, c := range []struct{ spent, free, want int }{
		{0, 0, 0}, {0, 3, 1}, {2, 0, 2}, {2, 1, 3}, {messages.MaxAttempts, 1, messages.MaxAttempts},
	} {
		r := messages.Record{State: messages.Ended, Spent: c.spent, FreeWaits: c.free, Outcome: &messages.Outcome{Status: messages.Expired, Verbatim: -1}}
		if got := ResultOf(r, nil, epoch).Attempts; got != c.want {
			t.Errorf("%d spent and %d free waits: %d attempts, want %d", c.spent, c.free, got, c.want)
		}
	}
}
