package coordination_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// freezeOnce lets a coordinator's process stand still before its first
// operation of this kind on a subject that holds text.
func freezeOnce(op memory.Op, text string) hookFunc {
	var done atomic.Bool
	return func(b *memory.Broker, o memory.Op, on string) error {
		if o == op && strings.Contains(on, text) && done.CompareAndSwap(false, true) {
			b.Freeze()
		}
		return nil
	}
}

type hookFunc = func(b *memory.Broker, op memory.Op, on string) error

func TestP7_01_CrashBetweenRecordAndEffect(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(hook(freezeOnce(memory.OpSchedule, "retry")))
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(2*time.Second))
		synctest.Wait()
		if rec := r.record(c); rec == nil || rec.State != messages.Waiting {
			t.Fatalf("record %+v", rec)
		}
		r.coordinator()
		pass(lease + 3*time.Second)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
		first.broker.Thaw() // and its late effect changes nothing
		pass(time.Minute)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestP7_02_LoserOfTheCompareAndSetStartsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(hook(freezeOnce(memory.OpSave, "ATTEMPTS")))
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(2*time.Second))
		synctest.Wait()
		second := r.coordinator(hook(freezeOnce(memory.OpSchedule, "retry"))) // wins, and dies before its effect
		pass(lease + time.Second)
		if rec := r.record(c); rec == nil || rec.State != messages.Waiting {
			t.Fatalf("record %+v", rec)
		}
		first.broker.Thaw()
		pass(3 * time.Second)
		r.wantQueued(c, 1) // the loser did the winner's effect
		second.broker.Thaw()
		pass(time.Minute)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestP7_02_LoserDoesNothingOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(hook(freezeOnce(memory.OpSave, "ATTEMPTS")))
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait() // it is about to write that dispatch 1 goes out
		r.coordinator()
		r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID})
		synctest.Wait()
		r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		first.broker.Thaw()
		pass(time.Minute)
		if q, ok := r.queued(c.Run, c.ID); ok {
			t.Fatalf("the loser sent dispatch %d out", q.Dispatch)
		}
		r.wantNoTriggers()
	})
}

func TestP7_04_FullResultsKeepTheTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.admin.SetFull(messages.StreamResults, true)
		r.failAndDecide(c, messages.Fail("no"))
		pass(30 * time.Second)
		if n := r.triggers(messages.StreamRecovery, messages.ConsumerDecisions); n != 1 {
			t.Fatalf("%d decisions are kept", n)
		}
		r.admin.SetFull(messages.StreamResults, false)
		pass(time.Minute)
		r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		r.wantNoTriggers()
	})
}

func TestP7_05_StaleRecordIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(2*time.Second))
		synctest.Wait()
		m.broker.StaleRead("ATTEMPTS.>")
		pass(3 * time.Second)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestP7_06_FullQueueBecomesAWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.admin.SetFull(messages.StreamCalls, true)
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait()
		rec := r.record(c)
		if rec == nil || rec.State != messages.Waiting || rec.N != 1 || rec.W != 1 {
			t.Fatalf("record %+v", rec)
		}
		if m.Busy() != 0 {
			t.Fatal("a full queue holds triggers")
		}
		pass(5 * time.Second)
		if rec := r.record(c); rec.W < 2 {
			t.Fatalf("record %+v", rec)
		}
		r.admin.SetFull(messages.StreamCalls, false)
		pass(5 * time.Second)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestP7_07_CancelledCallStaysQueuedUntilItsResultIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.admin.SetFull(messages.StreamResults, true)
		if reply := r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		pass(time.Minute)
		r.wantQueued(c, 0)
		r.admin.SetFull(messages.StreamResults, false)
		pass(time.Minute)
		r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Fatal("still queued")
		}
	})
}

func TestP7_08_FreeWaitIsANewDispatch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		for n := range 3 {
			d := r.wantQueued(c, n)
			if d.Attempt != 0 {
				t.Fatalf("dispatch %d is attempt %d", n, d.Attempt)
			}
			r.fail(d, func(f *messages.Failure) { f.NothingDone, f.RetryAfter = true, messages.Millis(2*time.Second) })
			r.decide(d, messages.Retry(0))
			pass(3 * time.Second)
		}
		r.wantQueued(c, 3)
	})
}

func TestP7_10_LateFailureDoesNotResurrect(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.succeed(c)
		r.failAndDecide(c, messages.Retry(0)) // of a frozen worker
		synctest.Wait()
		if q, ok := r.queued(c.Run, c.ID); ok {
			t.Fatalf("dispatch %d of a finished call is queued", q.Dispatch)
		}
		if rec := r.record(c); rec == nil || rec.State != messages.Ended || rec.Outcome.Status != messages.Succeeded {
			t.Fatalf("record %+v", rec)
		}
		r.wantResult(c, messages.Succeeded, "")
		r.wantNoTriggers()
	})
}

func TestP7_12_CancelMeetsADueDispatchOnItsWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(hook(freezeOnce(memory.OpPublish, ".1"))) // after the record, before the publish
		r.tool("t", messages.Unsafe)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(2*time.Second))
		pass(3 * time.Second)
		if rec := r.record(c); rec.State != messages.Dispatched || rec.N != 1 {
			t.Fatalf("record %+v", rec)
		}
		r.coordinator()
		r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID})
		synctest.Wait()
		r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		m, err := r.admin.Get(t.Context(), r.names.StartSubject(c.Run, c.ID, 1))
		if err != nil {
			t.Fatal("its start was not claimed")
		}
		if s := must(messages.DecodeStory[messages.Start](m.Body)); s.Tombstone != "cancelled: cancelled" {
			t.Fatalf("start %+v", s)
		}
		first.broker.Thaw()
		pass(time.Minute)
		r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		r.wantNoTriggers()
	})
}

func TestP7_13_CallCancelledDuringAShortWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(900*time.Millisecond))
		pass(100 * time.Millisecond)
		r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID})
		pass(5 * time.Second)
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Fatal("the timer fired for a cancelled call")
		}
		res := r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		if res.Attempts != 1 || string(res.Output.Inline) != "error of 0" {
			t.Fatalf("result %+v", res)
		}
		r.wantNoTriggers()
	})
}

func TestP7_13_CallThatSucceededDuringAShortWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(900*time.Millisecond))
		pass(100 * time.Millisecond)
		r.succeed(c) // by a worker that was frozen; no record tells of it
		pass(5 * time.Second)
		if q, ok := r.queued(c.Run, c.ID); ok {
			t.Fatalf("dispatch %d of a finished call", q.Dispatch)
		}
		r.wantResult(c, messages.Succeeded, "")
		r.wantNoTriggers()
	})
}

func TestP7_17_CancelOfARunningUnsafeCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []func(*messages.Failure)
		status messages.Status
		code   messages.Code
	}{
		{"definite", nil, messages.Cancelled, messages.CodeCancelled},
		{"ambiguous", []func(*messages.Failure){ambiguous}, messages.StatusUnknown, messages.CodeAmbiguous},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Unsafe)
				call := r.accept()
				r.put(must(messages.EncodeStory(r.names.StartSubject(call.Run, call.ID, 0), messages.Start{Token: "x", Worker: "w"})))
				r.cancel(messages.CancelRequest{Run: call.Run, Call: call.ID})
				pass(time.Minute)
				if r.result(call) != nil {
					t.Fatal("cancelled was told while the tool ran")
				}
				r.wantNoTriggers()
				r.fail(call, c.change...)
				r.decide(call, messages.Retry(0))
				synctest.Wait()
				r.wantResult(call, c.status, c.code)
			})
		})
	}
}

func TestP7_21_AnswerByIsAnAnswer(t *testing.T) {
	answer := func(r *rig, c messages.Call, k messages.AnswerKind) bool {
		return r.put(must(messages.EncodeStory(r.names.AnswerSubject(c.Run, c.ID, c.Dispatch), messages.Answer{Kind: k, By: "ann"}))) == nil
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c, late := r.accept(), r.accept()
		for _, x := range []messages.Call{c, late} {
			r.fail(x)
			r.decide(x, messages.AskUser("?"), park)
		}
		pass(23 * time.Hour)
		if rec := r.record(c); rec.State != messages.Parked {
			t.Fatalf("record %+v", rec)
		}
		if !answer(r, c, messages.AnswerRetry) {
			t.Fatal("a human in time was refused")
		}
		pass(2 * time.Hour)
		r.wantQueued(c, 1)
		r.wantResult(late, messages.Failed, messages.CodeAnswerBy)
		if answer(r, late, messages.AnswerRetry) {
			t.Fatal("a human was told accepted, and the clock had won")
		}
		r.wantNoTriggers()
	})
}

func TestP7_23_WinnerRulesTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var c messages.Call
		late := func(_ *memory.Broker, op memory.Op, on string) error {
			if op == memory.OpPutOnce && on == r.names.ResultSubject(c.Run, c.ID) && r.result(c) == nil {
				r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: "t", Status: messages.Succeeded, Ended: time.Now()}))
			}
			return nil
		}
		r.coordinator(hook(late))
		r.tool("t", messages.Idempotent)
		c = r.accept()
		sibling := r.accept()
		for n := range messages.MaxAttempts {
			d := c
			d.Dispatch = n
			r.failAndDecide(d, messages.Retry(0))
			synctest.Wait()
		}
		r.wantResult(c, messages.Succeeded, "")
		if rec := r.record(c); rec.State != messages.Ended || rec.Outcome.Status != messages.Succeeded {
			t.Fatalf("record %+v", rec)
		}
		pass(time.Minute)
		r.wantQueued(sibling, 0) // its run lives
		r.wantNoTriggers()
	})
}

func TestP7_24_SettledClosesTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Hour) })
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait()
		r.succeed(r.wantQueued(c, 1))
		r.put(must(messages.EncodeStory(r.names.SettledSubject(c.Run, c.ID, 1), messages.Settled{By: "w"})))
		synctest.Wait()
		if rec := r.record(c); rec.State != messages.Ended || rec.Outcome.Status != messages.Succeeded {
			t.Fatalf("record %+v", rec)
		}
		due := messages.Due{Kind: messages.DueDeadline, Run: c.Run, Call: c.ID}
		if _, err := r.admin.Get(t.Context(), r.names.ScheduleSubject(due)); !errors.Is(err, messages.ErrNotFound) {
			t.Fatalf("its deadline is still scheduled: %v", err)
		}
	})
}

// Whoever was to say that the call has ended may be gone.
func TestP7_24_RecordThatNobodyClosesGoesByItself(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(func(c *coordination.Config) { c.ResultsRetention, c.RecordTTL = time.Hour, 2*time.Hour })
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait()
		r.succeed(r.wantQueued(c, 1))
		pass(2*time.Hour - time.Minute)
		if r.record(c) == nil {
			t.Fatal("gone before its time")
		}
		pass(2 * time.Minute)
		if rec := r.record(c); rec != nil {
			t.Fatalf("still there: %+v", rec)
		}
	})
}

func TestP7_26_RunEndedBetweenReadAndWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		action messages.RecoveryAction
	}{{"parked", messages.AskUser("?")}, {"waiting", messages.Retry(time.Hour)}, {"dispatched", messages.Retry(0)}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				first := r.coordinator(hook(freezeOnce(memory.OpSave, "ATTEMPTS")))
				r.tool("t", messages.Unsafe)
				call := r.accept()
				r.fail(call)
				r.decide(call, c.action, park)
				synctest.Wait() // it has read that the run goes on, and stands still before the write
				second := r.coordinator()
				if reply := r.cancel(messages.CancelRequest{Run: call.Run}); reply.Error != "" {
					t.Fatal(reply.Error)
				}
				synctest.Wait()
				second.stop()
				first.broker.Thaw()
				pass(time.Second)
				r.wantResult(call, messages.Cancelled, messages.CodeCancelled)
				pass(time.Minute)
				r.wantNoTriggers()
			})
		})
	}
}

func TestP7_27_ReplayIsNotApplied(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent}
		r.fail(c)
		pass(73 * time.Hour)
		r.decide(c, messages.Retry(0))
		r.coordinator()
		pass(time.Minute)
		if r.record(c) != nil || r.result(c) != nil {
			t.Fatal("a replayed decision was applied")
		}
		r.wantNoTriggers()
	})
}

func TestP7_27_RetentionsAreOrdered(t *testing.T) {
	for _, c := range []struct {
		names  string
		change func(*coordination.Config)
	}{
		{"deadline limit", func(c *coordination.Config) { c.DeadlineLimit = c.ResultsRetention }},
		{"record ttl", func(c *coordination.Config) { c.RecordTTL = c.ResultsRetention - 1 }},
		{"cancel ttl", func(c *coordination.Config) { c.CancelTTL = c.DeadlineLimit - 1 }},
		{"answer-by", func(c *coordination.Config) { c.AnswerBy = c.RecordTTL + 1 }},
		{"max wait", func(c *coordination.Config) { c.MaxWait = c.RecordTTL }},
	} {
		cfg := coordination.Config{Broker: memory.New(memory.Config{Lease: lease})}.WithDefaults()
		if err := cfg.Validate(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "coordinator: "+c.names+" ") {
			t.Errorf("%s out of order: %v", c.names, err)
		}
	}
}
