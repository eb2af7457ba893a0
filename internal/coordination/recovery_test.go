package coordination_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

func TestSubmittedCallStandsInItsQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Keyed)
		c := r.accept()
		if c.Effect != messages.Keyed || c.Queue != "q" || c.Lane != messages.LaneNormal || c.Key != c.ID || c.Repeat || string(c.Input.Inline) != `{"a":1}` {
			t.Fatalf("call %+v", c)
		}
	})
}

func TestLongRetryWaitsInTheScheduleAndHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(5*time.Second))
		synctest.Wait()
		r.wantNoTriggers()
		if n := m.Busy(); n != 0 {
			t.Fatalf("%d triggers are held while the call waits", n)
		}
		pass(4900 * time.Millisecond)
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Fatal("dispatched before its time")
		}
		pass(200 * time.Millisecond)
		c1 := r.wantQueued(c, 1)
		if c1.Attempt != 1 || c1.Key != c.ID || c1.RecoveredBy != "retry" || c1.TravelLane() != messages.LaneRetry {
			t.Fatalf("dispatch 1: %+v", c1)
		}
		r.wantNoTriggers()
	})
}

func TestShortRetryWaitsBesideItsTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(300*time.Millisecond))
		synctest.Wait()
		if m.Busy() != 1 || r.record(c) != nil {
			t.Fatalf("busy %d, record %v", m.Busy(), r.record(c))
		}
		pass(300 * time.Millisecond)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestS6_T11_SoftEndShowsTheFailureVerbatim(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Fail("no use"))
		synctest.Wait()
		res := r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		if string(res.Output.Inline) != "error of 0" || res.Reason != "no use" || res.Guidance != "guidance" || res.Attempts != 1 {
			t.Fatalf("result %+v", res)
		}
		if rec := r.record(c); rec == nil || rec.State != messages.Ended {
			t.Fatalf("record %+v", rec)
		}
		r.wantNoTriggers()
	})
}

func TestExhaustedAfterSixAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		for n := range messages.MaxAttempts {
			d := r.wantQueued(c, n)
			r.failAndDecide(d, messages.Retry(0))
			synctest.Wait()
		}
		res := r.wantResult(c, messages.Exhausted, messages.CodeExhausted)
		if res.Attempts != 6 || res.HardError() == nil {
			t.Fatalf("result %+v", res)
		}
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Fatal("a seventh attempt is queued")
		}
		r.wantNoTriggers()
	})
}

func TestCorrectionIsDispatchedUnderANewKey(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Keyed)
		c := r.accept()
		r.fail(c)
		r.decide(c, messages.Retry(0), correction(`{"a":2}`))
		synctest.Wait()
		c1 := r.wantQueued(c, 1)
		if string(c1.Input.Inline) != `{"a":2}` || c1.Key != c.ID+"-1" || c1.RecoveredBy != "input_fix (rules)" {
			t.Fatalf("dispatch 1: %+v", c1)
		}
		if _, err := r.admin.Get(t.Context(), r.names.MarkSubject(c.Run, c.ID, 0, 1)); err != nil {
			t.Fatalf("the next start of dispatch 0 was not claimed: %v", err)
		}
	})
}
