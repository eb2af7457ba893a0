package coordination_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

const resetTime = 20 * time.Second

// with gives a coordinator a policy.
func with(p recovery.Policy) func(*coordination.Config) {
	p.LoopWarn, p.LoopStop = new(0), new(0)
	return func(cfg *coordination.Config) { cfg.Policies = recovery.Document{Pool: p.Values()} }
}

func breakerPolicy(mode messages.BreakerMode) func(*coordination.Config) {
	return with(recovery.Policy{Breaker: mode, BreakerReset: messages.Millis(resetTime)})
}

// breaker is the entry of tool t as it stands now.
func (r *rig) breaker() messages.Breaker {
	r.t.Helper()
	e, err := r.admin.Load(r.t.Context(), messages.BucketControl, messages.BreakerKey("t"))
	if err != nil {
		return messages.Breaker{State: messages.BreakerClosed}
	}
	return must(messages.DecodeBreaker(e.Value)).At(time.Now())
}

func (r *rig) wantBreaker(state messages.BreakerState, failures int) {
	r.t.Helper()
	if b := r.breaker(); b.State != state || len(b.Failures) != failures {
		r.t.Fatalf("the breaker is %s with %d failures, want %s with %d: %+v", b.State, len(b.Failures), state, failures, b)
	}
}

// give submits one call, which may end up anywhere.
func (r *rig) give(change ...func(*messages.Submission)) messages.Call {
	r.t.Helper()
	s := submission(change...)
	if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); reply.Error != "" || len(reply.Refused) > 0 {
		r.t.Fatalf("refused: %+v", reply)
	}
	return messages.Call{ID: s.Call, Run: messages.NamedRun(s.Run), Tool: s.Tool}
}

// runFails is a call whose tool was started, failed, and is given up.
func (r *rig) runFails(c messages.Call, change ...func(*messages.Decision)) {
	r.t.Helper()
	r.fail(c, func(f *messages.Failure) { f.Started = time.Now() })
	r.decide(c, messages.Fail("no"), change...)
	synctest.Wait()
}

// trip opens the breaker.
func (r *rig) trip() {
	r.t.Helper()
	for range 5 {
		r.runFails(r.accept())
	}
	r.wantBreaker(messages.BreakerOpen, 5)
}

// runSucceeds is a call whose worker tells that it succeeded.
func (r *rig) runSucceeds(c messages.Call, took time.Duration) {
	r.t.Helper()
	r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: c.Tool, Status: messages.Succeeded, Attempts: c.Attempt + 1,
		Dispatch: c.Dispatch, Duration: messages.Millis(took), Ended: time.Now(), Output: messages.Text("fine")}))
	r.put(must(messages.EncodeStory(r.names.SettledSubject(c.Run, c.ID, c.Dispatch), messages.Settled{By: "w", At: time.Now()})))
	r.done(c)
	synctest.Wait()
}

// probe submits until one call goes out, which it has to do as the probe.
func (r *rig) probe() messages.Call {
	r.t.Helper()
	c := r.accept()
	if !c.Probe {
		r.t.Fatalf("the call went out, and not as the probe: %+v", r.breaker())
	}
	r.wantBreaker(messages.BreakerHalfOpen, 5)
	return c
}

func blaming(f messages.Fault) func(*messages.Decision) {
	return func(d *messages.Decision) { d.Fault = f }
}

func TestS8_1_EndsOpenItForAllCoordinators(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(breakerPolicy(""))
		second := r.coordinator(breakerPolicy(""), func(*coordination.Config) {})
		r.tool("t", messages.Idempotent)
		r.trip()
		for _, stopped := range []*member{nil, first} { // both have been asked before, and each alone knows
			if stopped != nil {
				stopped.stop()
			}
			c := r.give()
			res := r.wantResult(c, messages.Failed, messages.CodeBreakerOpen)
			if string(res.Output.Inline) != messages.BreakerText || !strings.HasPrefix(res.Reason, messages.BreakerText+" until 2000-") || res.Attempts != 0 || !res.IsError {
				t.Errorf("%+v", res)
			}
			if _, ok := r.queued(c.Run, c.ID); ok {
				t.Error("a call that was turned away is queued")
			}
			if rec := r.record(c); rec == nil || rec.State != messages.Ended || len(rec.Input.Inline) == 0 {
				t.Errorf("its input is not kept for a replay: %+v", rec)
			}
		}
		if second.broker.Count(memory.OpPutOnce, ">") == 0 {
			t.Error("the second coordinator did nothing")
		}
	})
}

func TestS8_1_ASuccessBeginsTheCountAnew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		for range 4 {
			r.runFails(r.accept())
		}
		r.wantBreaker(messages.BreakerClosed, 4)
		r.runSucceeds(r.accept(), 0)
		r.wantBreaker(messages.BreakerClosed, 0)
		for range 4 {
			r.runFails(r.accept())
		}
		r.wantBreaker(messages.BreakerClosed, 4)
	})
}

func TestS8_1_TheProbeDecides(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		r.trip()
		pass(resetTime)
		c := r.probe()
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		pass(5 * time.Second)
		r.fail(c, func(f *messages.Failure) { f.Started = time.Now() })
		r.decide(c, messages.Retry(0))
		synctest.Wait()
		r.wantBreaker(messages.BreakerOpen, 5)
		res := r.wantResult(c, messages.Failed, messages.CodeBreakerOpen) // its own retry
		if string(res.Output.Inline) != "error of 0" || res.Attempts != 1 {
			t.Errorf("%+v", res)
		}
		pass(resetTime - time.Millisecond)
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		pass(time.Millisecond)
		r.runSucceeds(r.probe(), 0)
		r.wantBreaker(messages.BreakerClosed, 0)
		if c := r.accept(); c.Probe {
			t.Error("a probe of a closed breaker")
		}
		r.wantNoTriggers()
	})
}

func TestS8_2_RetriesOfOneCallCountOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		c := r.accept()
		for n := range 5 {
			c = r.wantQueued(c, n)
			r.failAndDecide(c, messages.Retry(0))
			synctest.Wait()
		}
		r.wantBreaker(messages.BreakerClosed, 0)
		r.failAndDecide(r.wantQueued(c, 5), messages.Retry(0))
		synctest.Wait()
		r.wantResult(c, messages.Exhausted, messages.CodeExhausted)
		r.wantBreaker(messages.BreakerClosed, 1)
	})
}

// A machine that dies with six calls of a tool on it shuts the tool for nobody;
// a tool that takes down one worker after the other is shut.
func TestS8_2_WhatWasLostWithOneWorkerCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		lost := func(worker string) {
			c := r.accept()
			r.fail(c, func(f *messages.Failure) { f.Started, f.Code, f.Worker = time.Now(), messages.CodeWorkerLost, worker })
			r.decide(c, messages.Fail("no"))
			synctest.Wait()
			r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		}
		for range 6 {
			lost("w0")
		}
		r.wantBreaker(messages.BreakerClosed, 1)
		for i := range 4 {
			lost(fmt.Sprint("w", i+1))
		}
		r.wantBreaker(messages.BreakerOpen, 5)
	})
}

func TestS8_2_WhatIsNotCounted(t *testing.T) {
	for name, end := range map[string]func(r *rig, c messages.Call){
		"a healthy tool that says no": func(r *rig, c messages.Call) { r.runFails(c, blaming(messages.FaultCall)) },
		"a cancel": func(r *rig, c messages.Call) {
			r.fail(c)
			r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID})
		},
		"arguments that do not fit": func(r *rig, c messages.Call) {
			r.fail(c, func(f *messages.Failure) { f.Code, f.Executed = messages.CodeInvalidArguments, false })
			r.decide(c, messages.Fail("no"))
		},
		"a human's no": func(r *rig, c messages.Call) {
			r.fail(c)
			r.decide(c, messages.AskUser("may it?"), func(d *messages.Decision) { d.Park = true })
			synctest.Wait()
			r.put(must(messages.EncodeStory(r.names.AnswerSubject(c.Run, c.ID, 0), messages.Answer{Kind: messages.AnswerFail, By: "ann", At: time.Now()})))
		},
		"a tool whose breaker is off": func(r *rig, c messages.Call) { r.runFails(c) },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			mode := messages.BreakerFailFast
			if name == "a tool whose breaker is off" {
				mode = messages.BreakerOff
			}
			r.coordinator(breakerPolicy(mode))
			r.tool("t", messages.Idempotent)
			for range 6 {
				c := r.accept(func(s *messages.Submission) { s.Input = fmt.Appendf(nil, `{"a":%q}`, s.Call) })
				end(r, c)
				synctest.Wait()
				if r.result(c) == nil {
					t.Fatalf("%s: the call has not ended: %+v", name, r.record(c))
				}
			}
			if b := r.breaker(); b.State != messages.BreakerClosed || len(b.Failures) != 0 {
				t.Errorf("%s is counted: %+v", name, b)
			}
		})
	}
}

func TestS8_2_AStormIsNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		var calls []messages.Call
		for range 300 {
			calls = append(calls, r.accept())
		}
		m.broker.ResetCounts()
		for _, c := range calls {
			r.fail(c, func(f *messages.Failure) { f.Started = time.Now() })
			r.decide(c, messages.Fail("no"))
		}
		synctest.Wait()
		for _, c := range calls {
			r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		}
		r.wantBreaker(messages.BreakerOpen, 5)
		for _, op := range []memory.Op{memory.OpSave, memory.OpLoad} {
			if n := m.broker.Count(op, string(messages.BucketControl)+".breaker.>"); n > 5 {
				t.Errorf("%s of the breaker: %d times for %d ends", op, n, len(calls))
			}
		}
	})
}

func TestS8_3_DeferredCallsWaitHoldingNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(breakerPolicy(messages.BreakerDefer))
		r.tool("t", messages.Idempotent)
		r.trip()
		var waiting []messages.Call
		for range 50 {
			waiting = append(waiting, r.give())
		}
		chained := r.putOff(waiting[0]) // with a number and a record like the others
		if chained.N != 0 || chained.W != 1 || chained.Spent != 0 || !chained.Call.Repeat {
			t.Fatalf("%+v", chained)
		}
		r.wantNoTriggers()
		if n := m.Busy(); n != 0 {
			t.Errorf("the coordinator holds %d triggers", n)
		}
		pass(resetTime + 3*time.Second)
		out := r.sent(waiting)
		if len(out) != 1 || !out[0].Probe {
			t.Fatalf("%d calls are out, want the probe alone", len(out))
		}
		pass(3 * time.Second)
		if again := r.sent(waiting); len(again) != 1 || again[0].ID != out[0].ID {
			t.Fatalf("%d calls are out beside the probe", len(again)-1)
		}
		r.runSucceeds(out[0], 0)
		r.wantBreaker(messages.BreakerClosed, 0)
		pass(5 * time.Second)
		for _, c := range waiting {
			if c.ID == out[0].ID {
				continue
			}
			q := r.wantQueued(c, 0)
			if q.Attempt != 0 || q.Probe {
				t.Fatalf("%+v", q)
			}
			r.runSucceeds(q, 0)
			r.wantResult(c, messages.Succeeded, "")
		}
		r.wantNoTriggers()
	})
}

// putOff is the record of a call that waits.
func (r *rig) putOff(c messages.Call) messages.Record {
	r.t.Helper()
	rec := r.record(c)
	if rec == nil || rec.State != messages.Waiting {
		r.t.Fatalf("the call does not wait: %+v, result %+v", rec, r.result(c))
	}
	return *rec
}

// sent are those of the calls that stand in CALLS.
func (r *rig) sent(calls []messages.Call) []messages.Call {
	r.t.Helper()
	var out []messages.Call
	for _, c := range calls {
		if q, ok := r.queued(c.Run, c.ID); ok {
			out = append(out, q)
		}
	}
	return out
}

func TestS8_3_ARetryWaitsToo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(messages.BreakerDefer))
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.trip()
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait()
		if rec := r.putOff(c); rec.N != 1 || rec.Spent != 1 {
			t.Fatalf("%+v", rec)
		}
		pass(resetTime + 3*time.Second)
		q := r.wantQueued(c, 1)
		if !q.Probe || q.Attempt != 1 {
			t.Fatalf("%+v", q)
		}
		r.runSucceeds(q, 0)
		r.wantResult(c, messages.Succeeded, "")
	})
}

func TestS8_3_ACallChoosesForItself(t *testing.T) {
	for _, tool := range []messages.BreakerMode{messages.BreakerFailFast, messages.BreakerDefer} {
		bubble(t, func(t *testing.T, r *rig) {
			r.coordinator(breakerPolicy(tool))
			r.tool("t", messages.Idempotent)
			r.trip()
			for call, waits := range map[string]bool{"defer": true, "fail_fast": false, "off": tool == messages.BreakerDefer} {
				c := r.give(func(s *messages.Submission) { s.Policy = []byte(`{"breaker":"` + call + `"}`) })
				if rec := r.record(c); waits != (rec != nil && rec.State == messages.Waiting) {
					t.Errorf("tool %s, call %s: waits %v, want %v", tool, call, !waits, waits)
				}
			}
		})
	}
}

func TestS8_3_AHeldCallEndsByCancelAndDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(messages.BreakerDefer))
		r.tool("t", messages.Unsafe)
		r.trip()
		cancelled := r.give()
		expired := r.give(func(s *messages.Submission) { s.Deadline = time.Now().Add(10 * time.Second) })
		swept := r.give(func(s *messages.Submission) { s.Run = "other" })
		if reply := r.cancel(messages.CancelRequest{Run: cancelled.Run, Call: cancelled.ID}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		r.wantResult(cancelled, messages.Cancelled, messages.CodeCancelled)
		pass(11 * time.Second)
		r.wantResult(expired, messages.Expired, messages.CodeDeadline)
		if reply := r.cancel(messages.CancelRequest{Run: swept.Run}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		r.wantResult(swept, messages.Cancelled, messages.CodeCancelled)
		pass(resetTime)
		if out := r.sent([]messages.Call{cancelled, expired, swept}); len(out) != 0 {
			t.Errorf("%d ended calls went out", len(out))
		}
		r.wantNoTriggers()
	})
}

func TestP7_11_AChunkSentAgainWhileItsCallIsHeldRunsOnce(t *testing.T) {
	for name, when := range map[string]time.Duration{"while it waits": 0, "after it went out": resetTime + 3*time.Second} {
		bubble(t, func(t *testing.T, r *rig) {
			r.coordinator(breakerPolicy(messages.BreakerDefer))
			r.tool("t", messages.Idempotent)
			r.trip()
			s := submission()
			c := messages.Call{ID: s.Call, Run: messages.NamedRun(s.Run), Tool: s.Tool}
			again := func() {
				if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); len(reply.Refused) > 0 {
					t.Fatalf("%s: %+v", name, reply.Refused)
				}
			}
			r.send(messages.Chunk{Calls: []messages.Submission{s}})
			r.putOff(c)
			pass(when)
			again()
			pass(resetTime + 3*time.Second - when)
			q := r.wantQueued(c, 0)
			again()
			if !q.Repeat {
				t.Errorf("%s: it does not say that it may be a repetition, so that its worker would not look", name)
			}
			r.runSucceeds(q, 0)
			again()
			if q, ok := r.queued(c.Run, c.ID); ok && !q.Repeat {
				t.Errorf("%s: an unmarked copy stands in CALLS", name)
			}
			r.wantResult(c, messages.Succeeded, "")
			r.wantNoTriggers()
		})
	}
}

// A coordinator that dies between record and schedule leaves a call that its
// submitter was told nothing of, and sends again.
func TestP7_11_AHeldCallWithoutAScheduleGetsOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		broken := true
		r.coordinator(breakerPolicy(messages.BreakerDefer), hook(func(_ *memory.Broker, op memory.Op, on string) error {
			if broken && op == memory.OpSchedule {
				return fmt.Errorf("schedule of %s: the connection is gone", on)
			}
			return nil
		}))
		r.tool("t", messages.Idempotent)
		r.trip()
		s := submission()
		c := messages.Call{ID: s.Call, Run: messages.NamedRun(s.Run), Tool: s.Tool}
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeNotStored {
			t.Fatalf("%+v", reply)
		}
		r.putOff(c)
		broken = false
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); len(reply.Refused) != 0 {
			t.Fatalf("%+v", reply)
		}
		pass(resetTime + 3*time.Second)
		r.wantQueued(c, 0)
	})
}

// A call that is out when the breaker opens is not turned away by its own
// repetition, which nobody could tell from a new call otherwise.
func TestP7_11_ARepetitionUnderAnOpenBreakerEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Unsafe)
		s := submission()
		r.send(messages.Chunk{Calls: []messages.Submission{s}})
		c, _ := r.queued(messages.NamedRun(s.Run), s.Call)
		r.trip()
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); len(reply.Refused) != 0 {
			t.Fatalf("%+v", reply)
		}
		if res := r.result(c); res != nil {
			t.Fatalf("a queued call was ended by its repetition: %+v", res)
		}
		r.runSucceeds(c, 0)
		r.wantResult(c, messages.Succeeded, "")
	})
}

func TestS8_4_OneProbeOfTwoCoordinators(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(messages.BreakerDefer))
		r.coordinator(breakerPolicy(messages.BreakerDefer), func(*coordination.Config) {})
		r.tool("t", messages.Idempotent)
		r.trip()
		for round := range 3 {
			pass(resetTime)
			calls := r.giveAtOnce(100)
			synctest.Wait()
			out := r.sent(calls)
			if len(out) != 1 || !out[0].Probe {
				t.Fatalf("round %d: %d calls are out", round, len(out))
			}
			for range 3 {
				pass(2 * time.Second)
				if n := len(r.sent(calls)); n != 1 {
					t.Fatalf("round %d: %d calls are out", round, n)
				}
			}
			r.runFails(out[0])
			r.wantBreaker(messages.BreakerOpen, 5)
		}
	})
}

// giveAtOnce submits n calls, each by itself and all together.
func (r *rig) giveAtOnce(n int) []messages.Call {
	r.t.Helper()
	calls := make([]messages.Call, n)
	var wg sync.WaitGroup
	for i := range calls {
		s := submission()
		calls[i] = messages.Call{ID: s.Call, Run: messages.NamedRun(s.Run), Tool: s.Tool}
		chunk := must(messages.EncodeChunk(messages.Chunk{Batch: r.batch, Index: i, Calls: []messages.Submission{s}}))
		wg.Go(func() {
			if _, err := r.admin.Request(r.t.Context(), messages.EndpointSubmit, chunk); err != nil {
				r.t.Error(err)
			}
		})
	}
	wg.Wait()
	return calls
}

func TestS8_4_AProbeThatIsLostOpensItAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent, func(s *messages.ToolSpec) { s.Timeout = messages.Millis(4 * time.Second) })
		r.trip()
		pass(resetTime)
		lost := r.probe()
		pass(4*time.Second + 2*lease - time.Millisecond)
		r.wantBreaker(messages.BreakerHalfOpen, 5)
		pass(time.Millisecond)
		r.wantBreaker(messages.BreakerOpen, 5)
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		r.runSucceeds(lost, time.Minute) // it comes late
		r.wantBreaker(messages.BreakerOpen, 5)
		pass(resetTime)
		r.runSucceeds(r.probe(), 0)
		r.wantBreaker(messages.BreakerClosed, 0)
	})
}

func TestS8_4_CallsThatBeganBeforeTheTripChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		early := []messages.Call{r.accept(), r.accept(), r.accept()}
		r.trip()
		until := r.breaker().Until
		pass(5 * time.Second)
		r.runSucceeds(early[0], 10*time.Second)
		r.wantBreaker(messages.BreakerOpen, 5)
		r.runFails(early[1])
		if b := r.breaker(); !b.Until.Equal(until) {
			t.Errorf("its clock was pushed from %s to %s", until, b.Until)
		}
		pass(resetTime)
		probe := r.probe()
		r.runSucceeds(early[2], time.Minute)
		r.wantBreaker(messages.BreakerHalfOpen, 5)
		r.runSucceeds(probe, 0)
		r.wantBreaker(messages.BreakerClosed, 0)
	})
}

func TestS8_4_AProbeThatEndsOtherwiseMakesRoomForAnother(t *testing.T) {
	for name, end := range map[string]func(r *rig, c messages.Call){
		"cancelled":                   func(r *rig, c messages.Call) { r.cancel(messages.CancelRequest{Run: c.Run, Call: c.ID}) },
		"a healthy tool that says no": func(r *rig, c messages.Call) { r.runFails(c, blaming(messages.FaultCall)) },
		"ended by its worker": func(r *rig, c messages.Call) {
			r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: c.Tool, Status: messages.Expired, Dispatch: c.Dispatch, Ended: time.Now()}))
			r.put(must(messages.EncodeStory(r.names.SettledSubject(c.Run, c.ID, c.Dispatch), messages.Settled{By: "w", At: time.Now()})))
		},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.coordinator(breakerPolicy(""))
			r.tool("t", messages.Idempotent)
			r.trip()
			pass(resetTime)
			c := r.probe()
			end(r, c)
			synctest.Wait()
			if b := r.breaker(); b.State != messages.BreakerOpen || b.Trips != 1 {
				t.Fatalf("%s: %+v", name, b)
			}
			r.probe()
		})
	}
}

// Nothing is read or written for a tool whose breaker has counted nothing.
func TestS8_1_AClosedBreakerCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		m.broker.ResetCounts()
		c := r.accept()
		r.failAndDecide(c, messages.Retry(0))
		synctest.Wait()
		r.succeed(r.wantQueued(c, 1))
		ops := m.broker.Counts()
		for _, op := range []memory.Op{memory.OpLoad, memory.OpSave} {
			if n := m.broker.Count(op, string(messages.BucketControl)+".>"); n != 0 {
				t.Errorf("%s of CONTROL: %d, of %v", op, n, ops)
			}
		}
		if !slices.Contains([]int{1, 2}, ops[memory.OpSave]) {
			t.Errorf("the retry wrote its record %d times", ops[memory.OpSave])
		}
	})
}

// force asks as an operator does.
func (r *rig) force(req messages.BreakerRequest) messages.BreakerReply {
	r.t.Helper()
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointBreaker, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.BreakerReply](raw))
}

func TestS8_3_AHumanShutsATool(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(messages.BreakerOff)) // whatever the policy says
		r.tool("t", messages.Idempotent)
		reply := r.force(messages.BreakerRequest{Tool: "t", Action: messages.BreakerForceOpen, For: messages.Millis(time.Hour), Reason: "the shop moves", By: "ann"})
		if reply.Error != "" || reply.Breaker.By != "ann" || !reply.Breaker.Until.Equal(time.Now().Add(time.Hour)) {
			t.Fatalf("%+v", reply)
		}
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		pass(time.Hour - time.Second)
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		reply = r.force(messages.BreakerRequest{Tool: "t", Action: messages.BreakerForceClose, By: "bob"})
		if reply.Error != "" || reply.Breaker.State != messages.BreakerClosed || reply.Breaker.By != "bob" {
			t.Fatalf("%+v", reply)
		}
		if c := r.accept(); c.Probe {
			t.Error("a probe of a closed breaker")
		}
	})
}

func TestWhatABreakerIsNotToldToDo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		for says, req := range map[string]messages.BreakerRequest{
			"Did you mean 't'?":       {Tool: "tt", Action: messages.BreakerForceOpen, By: "ann"},
			"by":                      {Tool: "t", Action: messages.BreakerForceOpen},
			"for_ms 345600000 is":     {Tool: "t", Action: messages.BreakerForceOpen, For: messages.Millis(96 * time.Hour), By: "ann"},
			"closed for good":         {Tool: "t", Action: messages.BreakerForceClose, For: 1, By: "ann"},
			"reason is 1001 bytes":    {Tool: "t", Action: messages.BreakerForceClose, Reason: strings.Repeat("x", 1001), By: "ann"},
			"breaker action \"stop\"": {Tool: "t", Action: "stop", By: "ann"},
		} {
			raw, err := r.admin.Request(t.Context(), messages.EndpointBreaker, must(json.Marshal(withVersion(req))))
			if err != nil {
				t.Fatal(err)
			}
			if reply := must(messages.DecodeService[messages.BreakerReply](raw)); !strings.Contains(reply.Error, says) || reply.Breaker != nil || reply.Code != messages.CodeBadCall {
				t.Errorf("%+v, want %q", reply, says)
			}
		}
		r.wantBreaker(messages.BreakerClosed, 0)
	})
}

func withVersion(req messages.BreakerRequest) messages.BreakerRequest {
	req.Version = messages.Version
	return req
}

func TestS6_T8_TheTextOfAnOpenBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		r.trip()
		c := r.give()
		if res := r.wantResult(c, messages.Failed, messages.CodeBreakerOpen); string(res.Output.Inline) != "tool temporarily unavailable: circuit breaker open" {
			t.Errorf("%s", res.Output.Inline)
		}
		if _, err := r.admin.Get(t.Context(), r.names.FailureSubject(c.Run, c.ID, 0)); !errors.Is(err, messages.ErrNotFound) {
			t.Errorf("a failure that reflectors read: %v", err)
		}
	})
}

func TestS8_4_AProbeIsToldOfThoughTheBrokerFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(breakerPolicy(""))
		r.tool("t", messages.Idempotent)
		r.trip()
		pass(resetTime)
		c := r.probe()
		m.broker.Fail(memory.OpSave, string(messages.BucketControl)+".breaker.>", 2, errors.New("the broker is ill"))
		r.fail(c, func(f *messages.Failure) { f.Started = time.Now() })
		r.decide(c, messages.Retry(0))
		synctest.Wait()
		if res := r.result(c); res != nil {
			t.Fatalf("the probe went on before its breaker knew: %+v", res)
		}
		pass(5 * time.Second)
		r.wantResult(c, messages.Failed, messages.CodeBreakerOpen)
		if b := r.breaker(); b.State != messages.BreakerOpen || b.Trips != 2 {
			t.Errorf("%+v", b)
		}
	})
}

// A year in which the tool is shut is longer than CONTROL keeps what is written
// there, and so is a probe's lease with the reset that follows if it dies.
func TestS8_1_AResetTimeMayBeLongerThanControlKeepsEntries(t *testing.T) {
	const year = 365 * 24 * time.Hour
	bubble(t, func(t *testing.T, r *rig) {
		shut := with(recovery.Policy{BreakerThreshold: 1, BreakerReset: messages.Millis(year)})
		c := r.coordinator(shut)
		r.tool("t", messages.Idempotent)
		r.runFails(r.accept())
		c.stop()
		pass(30 * 24 * time.Hour)
		c = r.coordinator(shut)
		r.tool("t", messages.Idempotent)
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		c.stop()
		pass(year - 30*24*time.Hour)
		c = r.coordinator(shut)
		r.tool("t", messages.Idempotent)
		if probe := r.accept(); !probe.Probe {
			t.Fatalf("the call went out, and not as the probe: %+v", r.breaker())
		}
		c.stop()
		pass(30 * 24 * time.Hour)
		r.coordinator(shut)
		r.tool("t", messages.Idempotent)
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
	})
}

// A record is kept for a month: a call that waits for a year would never end.
func TestS8_3_NoCallIsDeferredForLongerThanItIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(with(recovery.Policy{Breaker: messages.BreakerDefer, BreakerThreshold: 1, BreakerReset: messages.Millis(365 * 24 * time.Hour)}))
		r.tool("t", messages.Idempotent)
		retried := r.accept()
		r.runFails(r.accept())
		r.wantResult(r.give(), messages.Failed, messages.CodeBreakerOpen)
		r.failAndDecide(retried, messages.Retry(0))
		synctest.Wait()
		if res := r.wantResult(retried, messages.Failed, messages.CodeBreakerOpen); string(res.Output.Inline) != "error of 0" {
			t.Errorf("%+v", res)
		}
		if reply := r.force(messages.BreakerRequest{Tool: "t", Action: messages.BreakerForceOpen, For: messages.Millis(72 * time.Hour), By: "ann"}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		r.putOff(r.give())
	})
}
