package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The rows of protocol section 7 that the worker keeps. Each test fails when
// its rule is taken out of the code.

func unsafe(c *messages.Call) { c.Effect = messages.Unsafe }

func named(c *messages.Call) { c.Run = messages.NamedRun("a run/" + c.ID) }

func dispatch(n int) func(*messages.Call) {
	return func(c *messages.Call) { c.Dispatch, c.Attempt = n, min(n, 5) }
}

var errBroker = errors.New("the broker is ill")

func wish() messages.Cancel {
	return messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: "no longer needed", By: "someone"}
}

// Row 7: the canceller may be gone after its entry in CONTROL, so the worker
// writes the result before it drops the call.
func TestP7_07_ResultIsWrittenBeforeACancelledCallIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		effect messages.Effect
		key    func(messages.Call) string
	}{
		"call":        {messages.Idempotent, func(c messages.Call) string { return messages.ControlCallKey(c.Run, c.ID) }},
		"run":         {messages.ReadOnly, func(c messages.Call) string { return messages.ControlRunKey(c.Run) }},
		"unsafe call": {messages.Unsafe, func(c messages.Call) string { return messages.ControlCallKey(c.Run, c.ID) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				x := counted("x", echo)
				w := r.worker(x.Tool)
				call := r.call("x", named, func(m *messages.Call) { m.Effect = c.effect })
				r.cancel(c.key(call), wish())
				w.broker.Fail(memory.OpPutOnce, "mulligan.result.>", 3, errBroker)
				r.publish(call)
				synctest.Wait()
				if n := w.broker.Count(memory.OpAck, ">"); n != 0 {
					t.Errorf("%d acks before the result was stored", n)
				}
				pass(time.Second)
				res := r.result(call)
				if res.Status != messages.Cancelled || res.Code != messages.CodeCancelled || res.Reason != "no longer needed" || !res.IsError || res.Attempts != 0 {
					t.Errorf("result %+v", res)
				}
				if x.ran() != 0 {
					t.Error("it ran")
				}
				r.allAcked()
				if _, ok := r.get(r.names.SettledSubject(call.Run, call.ID, 0)); !ok {
					t.Error("not settled: a record may stay open")
				}
			})
		})
	}
}

func TestP7_07_ResultIsWrittenWhenTheDeadlineHasPassed(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		r.worker(x.Tool)
		call := r.call("x", func(c *messages.Call) { c.Deadline = time.Now().Add(-time.Second).UTC() })
		r.publish(call)
		synctest.Wait()
		if res := r.result(call); res.Status != messages.Expired || res.Code != messages.CodeDeadline || x.ran() != 0 {
			t.Errorf("ran %d times, result %+v", x.ran(), res)
		}
		r.allAcked()
	})
}

// repetitions are the three ways in which a delivery may repeat an execution.
func repetitions() map[string]func(*rig, messages.Call) messages.Call {
	return map[string]func(*rig, messages.Call) messages.Call{
		"later dispatch": func(r *rig, c messages.Call) messages.Call {
			dispatch(1)(&c)
			r.publish(c)
			return c
		},
		"second delivery": func(r *rig, c messages.Call) messages.Call {
			r.publish(c)
			got := must(r.admin.Fetch(r.t.Context(), messages.StreamCalls, r.names.LaneConsumer("default", c.Lane), 1, 0))
			if len(got) != 1 {
				r.t.Fatal("nothing to give back")
			}
			if err := r.admin.Nak(r.t.Context(), got[0]); err != nil {
				r.t.Fatal(err)
			}
			return c
		},
		"repeated chunk": func(r *rig, c messages.Call) messages.Call {
			c.Repeat = true
			r.publish(c)
			return c
		},
	}
}

// withQueue makes the consumers of the default queue before any worker is there.
func (r *rig) withQueue() {
	if err := r.admin.EnsureQueue(r.t.Context(), "default"); err != nil {
		r.t.Fatal(err)
	}
}

// Row 9: an idempotent call does not run again after its end.
func TestP7_09_OutcomeIsLookedForBeforeARepetition(t *testing.T) {
	for name, repeat := range repetitions() {
		t.Run(name+", result", func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.withQueue()
				x := counted("x", echo)
				c := r.call("x")
				must(r.admin.PutOnce(t.Context(), r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: "x", Status: messages.Failed})))
				c = repeat(r, c)
				r.worker(x.Tool)
				pass(time.Second)
				if x.ran() != 0 {
					t.Error("it ran after the end")
				}
				if _, ok := r.get(r.names.SettledSubject(c.Run, c.ID, c.Dispatch)); !ok {
					t.Error("not settled")
				}
				r.allAcked()
			})
		})
		t.Run(name+", failure", func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.withQueue()
				x := counted("x", echo)
				c := repeat(r, r.call("x"))
				if c.Dispatch > 0 { // who failed had written its mark
					r.putStory(r.names.MarkSubject(c.Run, c.ID, c.Dispatch, 1), messages.Start{Token: "t", Worker: "w0", Sequence: 1})
				}
				must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(messages.Failure{Call: c, Code: messages.CodeToolError}))))
				r.worker(x.Tool)
				pass(time.Second)
				if x.ran() != 0 {
					t.Error("it ran after its failure was written")
				}
				r.noResult(c)
				r.allAcked()
			})
		})
	}
}

// Row 9, the other half: an outcome that cannot be looked for is not an absent one.
func TestP7_09_NothingRunsWhileTheOutcomeIsUnknown(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		w.broker.Fail(memory.OpGet, ">", -1, errBroker)
		c := r.call("x", dispatch(1))
		r.publish(c)
		pass(3 * lease)
		if x.ran() != 0 || w.broker.Count(memory.OpAck, ">")+w.broker.Count(memory.OpNak, ">") != 0 {
			t.Errorf("ran %d times", x.ran())
		}
		w.broker.Heal()
		pass(2 * lease)
		if res := r.result(c); x.ran() != 1 || res.Status != messages.Succeeded {
			t.Errorf("ran %d times, result %+v", x.ran(), res)
		}
	})
}

// Row 11: a chunk sent again after its first copy was done finds its end.
func TestP7_11_ARepeatedChunkDoesNotRunAgain(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			c := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(c)
			synctest.Wait()
			first := r.result(c)
			c.Repeat = true
			r.publish(c)
			synctest.Wait()
			if x.ran() != 1 || !r.result(c).Ended.Equal(first.Ended) {
				t.Errorf("%s: ran %d times", effect, x.ran())
			}
			r.noFailure(c)
			r.allAcked()
		})
	}
}

// Row 14: what is written once carries no Nats-Msg-Id, whose ack for a
// duplicate looks like success, and a refusal is read as one.
func TestP7_14_PutOnceCarriesNoMsgId(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", func(context.Context, tool.Call) ([]byte, error) { return nil, errors.New("no") })
		r.worker(x.Tool)
		c := r.call("x", unsafe)
		r.publish(c)
		synctest.Wait()
		for _, stream := range []messages.Stream{messages.StreamRecovery, messages.StreamResults} {
			err := r.admin.List(t.Context(), stream, nil, func(m messages.Stored) bool {
				if m.Header.Get("Nats-Msg-Id") != "" {
					t.Errorf("%s has a Nats-Msg-Id", m.Subject)
				}
				return true
			})
			if err != nil {
				t.Error(err)
			}
		}
		if _, ok := r.get(r.names.StartSubject(c.Run, c.ID, 0)); !ok || x.ran() != 1 {
			t.Errorf("no start, ran %d times", x.ran())
		}
	})
}

func TestP7_14_ASecondStartIsRefusedAndDoesNotRun(t *testing.T) {
	bubble(t, func(r *rig) {
		r.withQueue()
		x := counted("x", echo)
		c := repetitions()["second delivery"](r, r.call("x", unsafe))
		seq := must(r.admin.LastSequence(t.Context(), messages.StreamCalls))
		r.putStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "other", Sequence: seq, Delivery: 1, Worker: "w0"})
		r.worker(x.Tool)
		pass(time.Second)
		if f := r.failure(c); x.ran() != 0 || !f.Ambiguous || f.Code != messages.CodeWorkerLost {
			t.Errorf("ran %d times, failure %+v", x.ran(), f)
		}
		r.allAcked()
	})
}

// Row 15: a lost ack of the start finds itself and runs, once.
func TestP7_15_ALostAckOfTheStartFindsItself(t *testing.T) {
	for _, c := range []struct {
		effect   messages.Effect
		dispatch int
	}{{messages.Unsafe, 0}, {messages.Unsafe, 2}, {messages.Idempotent, 2}} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			w := r.worker(x.Tool)
			w.broker.LoseAck(memory.OpPutOnce, "mulligan.start.>")
			call := r.call("x", func(m *messages.Call) { m.Effect = c.effect }, dispatch(c.dispatch))
			r.publish(call)
			pass(time.Second)
			if x.ran() != 1 || r.result(call).Status != messages.Succeeded {
				t.Errorf("%s: ran %d times", c.effect, x.ran())
			}
			r.noFailure(call)
			if m := r.marks(call); c.effect != messages.Unsafe && len(m) != 1 {
				t.Errorf("%d marks for one execution", len(m))
			}
		})
	}
}

// Row 15: a worker that restarted under its name does not take its old start
// for its own.
func TestP7_15_ARestartedWorkerIsNotTheOneThatStarted(t *testing.T) {
	bubble(t, func(r *rig) {
		dying := counted("x", func(ctx context.Context, _ tool.Call) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
		w := r.worker(dying.Tool)
		c := r.call("x", unsafe)
		r.publish(c)
		synctest.Wait()
		w.broker.Freeze() // as good as dead
		again := counted("x", echo)
		r.worker(again.Tool) // under the same name
		pass(2 * lease)
		f := r.failure(c)
		if dying.ran() != 1 || again.ran() != 0 || f.Code != messages.CodeWorkerLost || !f.Ambiguous || !f.Executed || f.Error != `worker w1 was lost while it ran tool "x"` {
			t.Errorf("ran %d and %d times, failure %+v", dying.ran(), again.ran(), f)
		}
		r.allAcked()
	})
}

// Row 16: a duplicate message does not judge the one that runs well.
func TestP7_16_ADuplicateMessageIsNotALostWorker(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		r.worker(x.Tool)
		c := r.call("x", unsafe, func(c *messages.Call) { c.Repeat = true })
		r.putStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "other", Sequence: 77, Delivery: 1, Worker: "w0"})
		r.publish(c)
		pass(time.Second)
		if x.ran() != 0 {
			t.Error("it ran")
		}
		r.noFailure(c)
		r.noResult(c)
		r.allAcked()
	})
}

// Row 17: what is told as cancelled never runs, since both claim one subject.
func TestP7_17_ACancelledUnsafeCallIsBuriedFirst(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		c := r.call("x", unsafe)
		r.cancel(messages.ControlCallKey(c.Run, c.ID), wish())
		w.broker.Fail(memory.OpPutOnce, "mulligan.result.>", -1, errBroker)
		r.publish(c)
		synctest.Wait()
		m, ok := r.get(r.names.StartSubject(c.Run, c.ID, 0))
		if !ok {
			t.Fatal("cancelled without claiming the start")
		}
		s := must(messages.DecodeStory[messages.Start](m.Body))
		if s.Tombstone != "cancelled: no longer needed" || s.Token == "" || s.Sequence == 0 || s.Worker != "w1" {
			t.Errorf("start %+v", s)
		}
		w.broker.Heal()
		pass(time.Minute)
		if res := r.result(c); res.Status != messages.Cancelled || x.ran() != 0 {
			t.Errorf("ran %d times, result %+v", x.ran(), res)
		}
	})
}

func TestP7_17_ATombstoneKeepsTheToolFromRunning(t *testing.T) {
	for stone, want := range map[string]messages.Status{
		"cancelled: no longer needed": messages.Cancelled,
		"expired: too late":           messages.Expired,
		"deadline: too late":          messages.Expired,
		"run_ended: its run is over":  messages.Cancelled,
		"someone said so":             messages.Cancelled,
	} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			c := r.call("x", unsafe)
			r.putStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "c", Worker: "coordinator", Tombstone: stone})
			r.publish(c)
			pass(time.Second)
			if res := r.result(c); res.Status != want || x.ran() != 0 || res.Code == messages.CodeAmbiguous {
				t.Errorf("%q: ran %d times, result %+v", stone, x.ran(), res)
			}
			r.noFailure(c)
			r.allAcked()
		})
	}
}

func TestP7_17_ATombstoneAmongTheMarksKeepsAnOlderDispatchFromRunning(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		c := r.call("x", dispatch(1))
		r.putStory(r.names.MarkSubject(c.Run, c.ID, 1, 1), messages.Start{Token: "a", Worker: "w0"})
		w.broker.StaleRead(r.names.FailureSubject(c.Run, c.ID, 1)) // the failure comes after the worker has looked
		must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(messages.Failure{Call: c, Code: messages.CodeToolError, Executed: true}))))
		r.putStory(r.names.MarkSubject(c.Run, c.ID, 1, 2), messages.Start{Token: "b", Worker: "coordinator", Tombstone: "bad_call: a correction takes its place"})
		r.publish(c)
		pass(time.Second)
		if x.ran() != 0 {
			t.Error("it ran beside its correction")
		}
		r.noResult(c)
		if f := r.failure(c); f.Code != messages.CodeToolError {
			t.Errorf("%+v", f)
		}
		r.allAcked()
	})
}

// A later dispatch of an unsafe tool is not looked for but by its start.
func TestP7_17_ATombstoneBesideAFailureEndsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		r.worker(x.Tool)
		c := r.call("x", unsafe, dispatch(1))
		r.putStory(r.names.StartSubject(c.Run, c.ID, 1), messages.Start{Token: "a", Worker: "coordinator", Tombstone: "cancelled: by another"})
		must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(messages.Failure{Call: c, Code: messages.CodeToolError}))))
		r.publish(c)
		pass(time.Second)
		if x.ran() != 0 {
			t.Error("it ran beside its correction")
		}
		r.noResult(c)
		r.allAcked()
	})
}

// Whoever buried a dispatch and came no further leaves it to the next.
func TestP7_17_ATombstoneWithoutAnOutcomeGetsOne(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			c := r.call("x", dispatch(1), func(c *messages.Call) { c.Effect = effect })
			at := r.names.MarkSubject(c.Run, c.ID, 1, 1)
			if effect == messages.Unsafe {
				at = r.names.StartSubject(c.Run, c.ID, 1)
			}
			r.putStory(at, messages.Start{Token: "b", Worker: "coordinator", Tombstone: "tool_not_found: Tool not found: x."})
			r.publish(c)
			pass(time.Second)
			if f := r.failure(c); f.Code != messages.CodeToolNotFound || f.Error != "Tool not found: x." || f.Executed || f.Ambiguous || x.ran() != 0 {
				t.Errorf("%s: ran %d times, %+v", effect, x.ran(), f)
			}
			r.allAcked()
		})
	}
}

// Row 18: what ends a call before it runs does not hide what an earlier
// attempt may have done.
func TestP7_18_AnEndWithoutARunKeepsAnEarlierAmbiguity(t *testing.T) {
	for name, late := range map[string]bool{"cancel": false, "deadline": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				x := counted("x", echo)
				r.worker(x.Tool)
				c := r.call("x", unsafe, dispatch(2), func(c *messages.Call) { c.Ambiguous = []int{1} })
				if late {
					c.Deadline = time.Now().Add(-time.Second).UTC()
				} else {
					r.cancel(messages.ControlCallKey(c.Run, c.ID), wish())
				}
				r.publish(c)
				synctest.Wait()
				if res := r.result(c); res.Status != messages.StatusUnknown || res.Code != messages.CodeAmbiguous || x.ran() != 0 {
					t.Errorf("ran %d times, result %+v", x.ran(), res)
				}
				r.allAcked()
			})
		})
	}
}

// Row 24: a success says that the call has ended where a record of it may be
// open, and costs nothing more where there can be none.
func TestP7_24_ASuccessThatMayHaveARecordIsSettled(t *testing.T) {
	settled := func(r *rig, c messages.Call) bool {
		_, ok := r.get(r.names.SettledSubject(c.Run, c.ID, c.Dispatch))
		return ok
	}
	for n, want := range []bool{false, true} {
		bubble(t, func(r *rig) {
			r.worker(counted("x", echo).Tool)
			c := r.call("x", dispatch(n))
			r.publish(c)
			synctest.Wait()
			if r.result(c).Status != messages.Succeeded || settled(r, c) != want {
				t.Errorf("dispatch %d: settled is %v", n, !want)
			}
		})
	}
	t.Run("first delivery, its lease lapsed", func(t *testing.T) {
		bubble(t, func(r *rig) {
			release := make(chan struct{})
			x := counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { <-release; return c.Input, nil })
			w := r.worker(x.Tool)
			c := r.call("x")
			r.publish(c)
			synctest.Wait()
			w.broker.Freeze()
			pass(2 * lease)
			w.broker.Thaw()
			close(release)
			pass(time.Second)
			if r.result(c).Status != messages.Succeeded || !settled(r, c) || x.ran() != 1 {
				t.Errorf("ran %d times, not settled", x.ran())
			}
		})
	})
}

// A cancel or a deadline that meets a running unsafe tool leaves a record, which
// waits for the outcome to close it.
func TestP7_24_ASuccessThatWasToEndIsSettled(t *testing.T) {
	for name, end := range map[string]func(r *rig, c messages.Call){
		"cancelled":       func(r *rig, c messages.Call) { r.cancel(messages.ControlCallKey(c.Run, c.ID), wish()) },
		"deadline passed": func(*rig, messages.Call) { pass(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				release := make(chan struct{})
				x := counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { <-release; return c.Input, nil })
				r.worker(x.Tool)
				c := r.call("x", func(m *messages.Call) { m.Effect = messages.Unsafe })
				if name != "cancelled" {
					c.Deadline = time.Now().Add(500 * time.Millisecond)
				}
				r.publish(c)
				synctest.Wait()
				end(r, c)
				close(release)
				synctest.Wait()
				if _, ok := r.get(r.names.SettledSubject(c.Run, c.ID, 0)); r.result(c).Status != messages.Succeeded || !ok {
					t.Errorf("ended %s, settled is %v", r.result(c).Status, ok)
				}
			})
		})
	}
}

// Row 25: marks count executions; NAKs, drains and restarts count for nothing.
func TestP7_25_DeliveriesAreNotStarts(t *testing.T) {
	bubble(t, func(r *rig) {
		r.withQueue()
		x := counted("x", echo)
		c := r.call("x")
		r.publish(c)
		for range 7 {
			got := must(r.admin.Fetch(t.Context(), messages.StreamCalls, r.names.LaneConsumer("default", c.Lane), 1, 0))
			if err := r.admin.Nak(t.Context(), got[0]); err != nil {
				t.Fatal(err)
			}
		}
		r.worker(x.Tool)
		pass(time.Second)
		if res := r.result(c); res.Status != messages.Succeeded || x.ran() != 1 || len(r.marks(c)) != 1 {
			t.Errorf("ran %d times, %d marks, %+v", x.ran(), len(r.marks(c)), res)
		}
	})
}

func TestP7_25_ThreeMarksWithoutAnOutcomeAreALostWorker(t *testing.T) {
	for effect, ambiguous := range map[messages.Effect]bool{messages.ReadOnly: false, messages.Idempotent: true, messages.Keyed: true} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			c := r.call("x", dispatch(1), func(c *messages.Call) { c.Effect = effect })
			for k := 1; k <= messages.MaxMarks; k++ {
				r.putStory(r.names.MarkSubject(c.Run, c.ID, 1, k), messages.Start{Token: "t", Worker: "w0", Sequence: 1})
			}
			r.publish(c)
			pass(time.Second)
			f := r.failure(c)
			if x.ran() != 0 || f.Code != messages.CodeWorkerLost || f.Ambiguous != ambiguous || f.Mark != messages.MaxMarks {
				t.Errorf("%s: ran %d times, failure %+v", effect, x.ran(), f)
			}
			r.allAcked()
		})
	}
}

// Row 28: a worker that froze longer than its lease touches nothing: neither
// the tool nor the delivery that another holds now.
func TestP7_28_AThawedWorkerLetsGo(t *testing.T) {
	for _, effect := range messages.Effects() {
		t.Run(string(effect), func(t *testing.T) { bubble(t, func(r *rig) { thawedLetsGo(r, effect) }) })
	}
}

func thawedLetsGo(r *rig, effect messages.Effect) {
	t := r.t
	release := make(chan struct{})
	frozen, other := counted("x", echo), counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { <-release; return c.Input, nil })
	w := r.freezesAtLook(frozen.Tool)
	c := r.call("x", dispatch(1), func(c *messages.Call) { c.Effect = effect })
	r.publish(c)
	pass(lease / 2)
	if w.broker.Count(memory.OpDelivery, ">") != 1 {
		t.Fatal("the frozen worker does not hold the call")
	}
	cfg := r.config(other.Tool)
	cfg.Name = "w2"
	w2 := r.start(cfg)
	pass(lease)
	if other.ran() != 1 {
		t.Fatalf("the second worker ran it %d times", other.ran())
	}
	w.broker.ResetCounts()
	w.broker.Thaw()
	pass(lease / 2)
	if ops := w.broker.Counts(); frozen.ran() != 0 || ops[memory.OpNak]+ops[memory.OpAck]+ops[memory.OpPutOnce] != 0 {
		t.Errorf("the thawed worker ran it %d times, operations %v", frozen.ran(), ops)
	}
	close(release)
	pass(time.Second)
	if res := r.result(c); res.Worker != "w2" || w2.broker.Count(memory.OpAck, ">") != 1 {
		t.Errorf("result %+v", res)
	}
	r.noFailure(c)
}

// The same where the delivery waits beside its pause to be handed on.
func TestP7_28_AThawedWorkerDoesNotHandOn(t *testing.T) {
	bubble(t, func(r *rig) {
		release := make(chan struct{})
		theirs := counted("theirs", func(_ context.Context, c tool.Call) ([]byte, error) { <-release; return c.Input, nil })
		cfg := r.config(counted("mine", echo).Tool)
		cfg.HandOnPause = 3 * lease
		w1 := r.start(cfg)
		r.register(t.Context(), messages.OfferRequest{Worker: "w2", Tools: []messages.ToolSpec{theirs.Spec()}})
		c := r.call("theirs")
		r.publish(c)
		pass(lease)
		if w1.broker.Count(memory.OpDelivery, ">") != 1 {
			t.Fatal("the worker without the tool does not hold the call")
		}
		w1.broker.Freeze()
		cfg = r.config(theirs.Tool)
		cfg.Name = "w2"
		r.start(cfg)
		pass(lease + time.Second)
		if theirs.ran() != 1 {
			t.Fatalf("the second worker ran it %d times", theirs.ran())
		}
		w1.broker.Thaw()
		pass(3 * lease)
		if n := w1.broker.Count(memory.OpNak, ">"); n != 0 {
			t.Errorf("%d NAKs of a delivery that another holds", n)
		}
		close(release)
		pass(time.Second)
		if res := r.result(c); res.Worker != "w2" || theirs.ran() != 1 {
			t.Errorf("ran %d times, result %+v", theirs.ran(), res)
		}
	})
}

func TestP7_28_AThawedWorkerThatDrainsDoesNotGiveBack(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.freezesAtLook(x.Tool)
		c := r.call("x", dispatch(1))
		r.publish(c)
		pass(lease)
		if w.broker.Count(memory.OpDelivery, ">") != 1 {
			t.Fatal("the frozen worker does not hold the call")
		}
		stopped := make(chan error, 1)
		go func() { stopped <- w.Stop(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		w.broker.Thaw()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if n := w.broker.Count(memory.OpNak, ">"); n != 0 || x.ran() != 0 {
			t.Errorf("%d NAKs of a delivery that another may hold", n)
		}
	})
}

// A delivery that this worker gets a second time before it began has been
// another's for all it knows.
func TestP7_28_ARedeliveryDoesNotMendALapsedLease(t *testing.T) {
	bubble(t, func(r *rig) {
		looked := make(chan struct{})
		x := counted("x", echo)
		cfg := r.config(x.Tool)
		h := &hooked{Broker: r.admin.Peer()}
		h.beforeGet = func(string) {
			h.beforeGet = nil
			<-looked
		}
		cfg.Broker = h
		w := r.start(cfg)
		c := r.call("x", dispatch(1))
		r.publish(c)
		synctest.Wait()
		r.admin.ExpireLeases(messages.StreamCalls, r.names.LaneConsumer("default", c.TravelLane()))
		pass(time.Second)
		if n := w.broker.Count(memory.OpDelivery, ">"); n != 2 {
			t.Fatalf("%d deliveries", n)
		}
		close(looked)
		synctest.Wait()
		if ops := w.broker.Counts(); x.ran() != 0 || ops[memory.OpNak]+ops[memory.OpAck]+ops[memory.OpPutOnce] != 0 {
			t.Errorf("ran %d times, operations %v", x.ran(), ops)
		}
		pass(2 * lease)
		if res := r.result(c); x.ran() != 1 || res.Status != messages.Succeeded {
			t.Errorf("ran %d times, result %+v", x.ran(), res)
		}
	})
}
