package coordination_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// What a call that fails once and then succeeds costs a coordinator in reads
// (ADR 0021).
func TestReadsOfACallThatFailsOnce(t *testing.T) {
	for name, delay := range map[string]time.Duration{"at once": 0, "after a short wait": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				m := r.coordinator()
				r.tool("t", messages.Idempotent)
				c := r.accept()
				m.broker.ResetCounts()
				r.failAndDecide(c, messages.Retry(delay))
				pass(time.Second)
				r.succeed(r.wantQueued(c, 1))
				r.put(must(messages.EncodeStory(r.names.SettledSubject(c.Run, c.ID, 1), messages.Settled{By: "w"})))
				synctest.Wait()
				if rec := r.record(c); rec == nil || rec.State != messages.Ended {
					t.Fatalf("record %+v", rec)
				}
				for _, x := range []struct {
					op   memory.Op
					on   string
					most int
				}{
					{memory.OpGet, ">", 1},           // RESULTS, of the decision
					{memory.OpFind, ">", 2},          // the failure, and the result of settled
					{memory.OpLoad, "RUNS.>", 1},     // after the record is written
					{memory.OpLoad, "ATTEMPTS.>", 1}, // of settled
					{memory.OpSave, "ATTEMPTS.>", 2},
					{memory.OpPublish, ">", 1},
					{memory.OpSchedule, ">", 0},
				} {
					if n := m.broker.Count(x.op, x.on); n != x.most {
						t.Errorf("%d times %s %s, not %d", n, x.op, x.on, x.most)
					}
				}
			})
		})
	}
}

// What was taken to be so and is not shows before anything rests on it.
func TestP7_05_ARecordThatTheFirstDecisionDoesNotExpect(t *testing.T) {
	for name, delay := range map[string]time.Duration{"at once": 0, "after a short wait": 10 * time.Millisecond, "after a long wait": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Idempotent)
				put := func(n int) messages.Call {
					c := r.accept()
					rec := messages.Record{N: n, W: 1, State: messages.Dispatched, Trigger: messages.Trigger{Kind: messages.TriggerDue, N: n, W: 1},
						Call: c, Input: c.Input, Causes: []string{"an earlier one"}, LastExecuted: -1}
					_, err := r.admin.Save(t.Context(), messages.BucketAttempts, messages.CallKey(c.Run, c.ID), must(messages.EncodeRecord(rec)), 0, time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					r.failAndDecide(c, messages.Retry(delay))
					return c
				}
				putOff, past := put(0), put(1)
				pass(2 * time.Minute)
				if rec := r.record(putOff); rec.N != 1 || rec.State != messages.Dispatched || len(rec.Causes) != 2 {
					t.Errorf("a dispatch that had been put off became %+v", rec)
				}
				if rec := r.record(past); rec.N != 1 || rec.W != 1 || rec.Spent != 0 {
					t.Errorf("a record past its decision became %+v", rec)
				}
				r.wantNoTriggers()
			})
		})
	}
}

// A verdict that does not compare and set is not reached without reading: of a
// call that has a record an old decision is applied, of one without it is not.
func TestP7_05_AnOldFirstDecisionOnACallWithARecord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator()
		r.tool("t", messages.Idempotent)
		known, unknown := r.accept(), r.accept()
		first.stop()
		rec := messages.Record{State: messages.Dispatched, W: 1, Trigger: messages.Trigger{Kind: messages.TriggerDue, W: 1}, Call: known, Input: known.Input, LastExecuted: -1}
		_, err := r.admin.Save(t.Context(), messages.BucketAttempts, messages.CallKey(known.Run, known.ID), must(messages.EncodeRecord(rec)), 0, 200*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		r.failAndDecide(known, messages.Retry(0))
		r.failAndDecide(unknown, messages.Retry(0))
		pass(73 * time.Hour)
		r.coordinator()
		pass(time.Minute)
		if rec := r.record(known); rec.N != 1 {
			t.Errorf("record %+v", rec)
		}
		if rec := r.record(unknown); rec != nil {
			t.Errorf("a replay was applied: %+v", rec)
		}
		r.wantNoTriggers()
	})
}
