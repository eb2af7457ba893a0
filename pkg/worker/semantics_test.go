package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// stubborn waits for the end of its context and returns its error.
func stubborn(ctx context.Context, _ tool.Call) ([]byte, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("request failed: %w", ctx.Err())
}

// S4.4: a drain in time starts nothing new and spends nothing; what runs ends well.
func TestS4_4_ADrainInTimeSpendsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		slow := counted("x", func(_ context.Context, c tool.Call) ([]byte, error) {
			<-time.After(5 * time.Second)
			return c.Input, nil
		})
		cfg := r.config(slow.Tool)
		cfg.Slots, cfg.HoldLimit = 1, time.Hour
		w := r.start(cfg)
		running := r.call("x", unsafe)
		r.publish(running)
		synctest.Wait()
		waiting := r.call("x", unsafe, func(c *messages.Call) { c.Lane = messages.LaneHigh }) // held beyond the slot
		r.publish(waiting)
		queued := r.call("x")
		r.publish(queued)
		synctest.Wait()
		if s := w.Stats(); s.Running != 1 || s.Held != 1 {
			t.Fatalf("stats %+v", s)
		}
		w.stop()
		if r.result(running).Status != messages.Succeeded || slow.ran() != 1 {
			t.Errorf("ran %d times", slow.ran())
		}
		for _, c := range []messages.Call{waiting, queued} {
			r.noResult(c)
			r.noFailure(c)
			if _, ok := r.get(r.names.StartSubject(c.Run, c.ID, 0)); ok {
				t.Error("a start was written for what did not run")
			}
		}
		if waits, unacked := r.left(); waits+unacked != 2 || w.broker.Count(memory.OpNak, ">") != 1 {
			t.Errorf("%d waiting, %d un-acked, %d NAKs", waits, unacked, w.broker.Count(memory.OpNak, ">"))
		}
		cfg = r.config(slow.Tool)
		cfg.Name = "w2"
		r.start(cfg)
		pass(time.Minute)
		if r.result(waiting).Status != messages.Succeeded || r.result(queued).Status != messages.Succeeded {
			t.Error("what was given back did not run")
		}
	})
}

// S4.4: a drain that runs into its own time-out cancels the call, which is
// ambiguous and spent.
func TestS4_4_ADrainTimeOutIsAmbiguousAndSpent(t *testing.T) {
	for effect, ambiguous := range map[messages.Effect]bool{messages.Unsafe: true, messages.Idempotent: true, messages.ReadOnly: false} {
		bubble(t, func(r *rig) {
			x := counted("x", stubborn, tool.Timeout(time.Hour))
			w := r.worker(x.Tool)
			c := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(c)
			synctest.Wait()
			start := time.Now()
			w.stop()
			if d := time.Since(start); d != 30*time.Second {
				t.Errorf("the drain took %v", d)
			}
			f := r.failure(c)
			if f.Code != messages.CodeDrained || f.Ambiguous != ambiguous || !f.Executed || f.Error != "Tool 'x' was stopped: its worker shut down before it was done" {
				t.Errorf("%s: %+v", effect, f)
			}
			r.allAcked()
		})
	}
}

// S4.4: arguments that could not be used spend an attempt, though nothing ran.
func TestS4_4_UnusableArgumentsAreAFailureThatExecutedNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		typed := tool.New("typed", func(context.Context, struct{ N int }) (string, error) { return "", nil })
		r.worker(typed)
		c := r.call("typed", func(c *messages.Call) { c.Input = messages.Text(`["n"]`) })
		r.publish(c)
		synctest.Wait()
		if f := r.failure(c); f.Code != messages.CodeInvalidArguments || f.Executed || f.Ambiguous {
			t.Errorf("%+v", f)
		}
	})
}

// S4.6: after a crash an idempotent tool runs again within the same attempt,
// counted; an unsafe one does not.
func TestS4_6_AfterACrashOnlyTheIdempotentRunAgain(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			dying := counted("x", stubborn, tool.Timeout(time.Hour))
			w := r.worker(dying.Tool)
			c := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(c)
			synctest.Wait()
			w.broker.Freeze() // as good as dead
			again := counted("x", echo)
			cfg := r.config(again.Tool)
			cfg.Name = "w2"
			r.start(cfg)
			pass(2 * lease)
			if effect == messages.Unsafe {
				if f := r.failure(c); again.ran() != 0 || !f.Ambiguous {
					t.Errorf("%s: ran again %d times, %+v", effect, again.ran(), f)
				}
				return
			}
			if res := r.result(c); again.ran() != 1 || res.Attempts != 1 || len(r.marks(c)) != 1 {
				t.Errorf("%s: ran again %d times, %d marks, %+v", effect, again.ran(), len(r.marks(c)), res)
			}
		})
	}
}

// S4.6: the first delivery of dispatch 0 writes no mark, a later dispatch does.
func TestS4_6_OnlyRepetitionsAreMarked(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		r.worker(x.Tool)
		first, later := r.call("x"), r.call("x", dispatch(3))
		r.publish(first)
		r.publish(later)
		synctest.Wait()
		if len(r.marks(first)) != 0 || len(r.marks(later)) != 1 || x.ran() != 2 {
			t.Errorf("marks %d and %d, ran %d", len(r.marks(first)), len(r.marks(later)), x.ran())
		}
	})
}

// S5.2: what a tool said is stored whole and byte for byte, however large, and
// whatever quoting does to its size.
func TestS5_2_OutputsAreKeptVerbatim(t *testing.T) {
	quotes := func(n int) []byte { return []byte(strings.Repeat(`"`, n)) }
	for name, out := range map[string][]byte{
		"empty":             {},
		"invalid UTF-8":     []byte("\xff\xfe\x00 ok"),
		"0.1 MiB of quotes": quotes(105 << 10),
		"at the limit":      quotes(messages.MaxInline),
		"above the limit":   quotes(messages.MaxInline + 1),
		"0.5 MiB of quotes": quotes(512 << 10),
		"1.1 MiB of quotes": quotes(1153434),
		"0.1 MiB of bytes":  []byte(strings.Repeat("\xff", 100<<10)),
		"largest":           make([]byte, messages.MaxPayload),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				good := counted("good", func(context.Context, tool.Call) ([]byte, error) { return out, nil })
				bad := counted("bad", func(context.Context, tool.Call) ([]byte, error) { return nil, tool.Failed(out) })
				r.worker(good.Tool, bad.Tool)
				succeeds, fails := r.call("good"), r.call("bad")
				r.publish(succeeds)
				r.publish(fails)
				pass(time.Second)
				if got := r.whole(r.result(succeeds).Output); string(got) != string(out) {
					t.Errorf("as a success: %d bytes, not %d", len(got), len(out))
				}
				f := r.failure(fails)
				if got := r.whole(f.Output); string(got) != string(out) && len(out) > 0 {
					t.Errorf("as a failure: %d bytes, not %d", len(got), len(out))
				}
				if n := f.Output.EncodedSize(); n > messages.MaxInline {
					t.Errorf("the output takes %d bytes in its failure", n)
				}
				if b := must(json.Marshal(f)); len(b) > 512<<10 {
					t.Errorf("the failure takes %d bytes", len(b))
				}
				r.allAcked()
			})
		})
	}
}

func (r *rig) whole(b messages.Body) []byte {
	r.t.Helper()
	if b.Ref == nil {
		return b.Inline
	}
	return must(r.admin.GetPayload(r.t.Context(), *b.Ref))
}

// S5.2: a call that is cancelled before its next attempt ends with what the
// last executed attempt said.
func TestS5_2_ACancelledRetryEndsWithTheLastFailureVerbatim(t *testing.T) {
	bubble(t, func(r *rig) {
		r.worker(counted("x", echo).Tool)
		c := r.call("x", dispatch(2), named)
		for n, f := range []messages.Failure{
			{Executed: true, Output: messages.Text("said first \xff"), Code: messages.CodeToolError},
			{Executed: false, Output: messages.Text("Tool not found"), Code: messages.CodeToolNotFound},
		} {
			f.Call = c
			f.Call.Dispatch = n
			must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(f))))
		}
		r.cancel(messages.ControlRunKey(c.Run), wish())
		r.publish(c)
		synctest.Wait()
		if res := r.result(c); string(res.Output.Inline) != "said first \xff" || !res.IsError || res.Attempts != 2 || res.Status != messages.Cancelled {
			t.Errorf("%q, %+v", res.Output.Inline, res)
		}
	})
}

func TestS6_T1_TextsOfFailures(t *testing.T) {
	for name, c := range map[string]struct {
		run       func(context.Context, tool.Call) ([]byte, error)
		effect    messages.Effect
		code      messages.Code
		text      string
		ambiguous bool
	}{
		"error":          {func(context.Context, tool.Call) ([]byte, error) { return nil, errors.New("user u1 not found") }, messages.Unsafe, messages.CodeToolError, "user u1 not found", false},
		"panic":          {func(context.Context, tool.Call) ([]byte, error) { panic("oh") }, messages.Unsafe, messages.CodePanic, `Tool "x" panicked: oh`, true},
		"unknown panic":  {func(context.Context, tool.Call) ([]byte, error) { panic(struct{}{}) }, messages.ReadOnly, messages.CodePanic, `Tool "x" panicked: (unknown payload)`, false},
		"time-out":       {stubborn, messages.Unsafe, messages.CodeTimeout, "Tool 'x' timed out after 60s", true},
		"read time-out":  {stubborn, messages.ReadOnly, messages.CodeTimeout, "Tool 'x' timed out after 60s", false},
		"ignores it all": {func(context.Context, tool.Call) ([]byte, error) { <-time.After(time.Hour); return nil, nil }, messages.Unsafe, messages.CodeTimeout, "Tool 'x' timed out after 60s", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.worker(counted("x", c.run).Tool, counted("y", echo).Tool)
				call, sibling := r.call("x", func(m *messages.Call) { m.Effect = c.effect }), r.call("y")
				r.publish(call)
				r.publish(sibling)
				synctest.Wait()
				if r.result(sibling).Status != messages.Succeeded {
					t.Error("a sibling was touched")
				}
				pass(70 * time.Second)
				f := r.failure(call)
				if f.Error != c.text || string(f.Output.Inline) != c.text || f.Code != c.code || f.Ambiguous != c.ambiguous || !f.Executed {
					t.Errorf("%+v", f)
				}
				r.allAcked()
				if name == "ignores it all" {
					pass(2 * time.Hour) // lets it return, so that the bubble can end
				}
			})
		})
	}
}

// The call's own time-out goes before the tool's, which goes before the worker's.
func TestS6_T3_TimeOutsOfCallToolAndWorker(t *testing.T) {
	bubble(t, func(r *rig) {
		r.worker(counted("x", stubborn, tool.Timeout(7*time.Second)).Tool)
		own := r.call("x", func(c *messages.Call) { c.Timeout = messages.Millis(1500 * time.Millisecond) })
		tools := r.call("x")
		r.publish(own)
		r.publish(tools)
		pass(10 * time.Second)
		if a, b := r.failure(own).Error, r.failure(tools).Error; a != "Tool 'x' timed out after 1.5s" || b != "Tool 'x' timed out after 7s" {
			t.Errorf("%s; %s", a, b)
		}
	})
}

// S6: a tool whose offer was withdrawn is not found, with what there is instead.
func TestS6_T5_AToolServedByNobodyIsNotFound(t *testing.T) {
	bubble(t, func(r *rig) {
		var tools []*tool.Tool
		for _, n := range []string{"list_orders", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b1", "b2"} {
			tools = append(tools, counted(n, echo).Tool)
		}
		r.worker(tools...)
		for _, effect := range messages.Effects() {
			c := r.call("list_order", func(c *messages.Call) { c.Effect = effect })
			r.publish(c)
			pass(time.Second)
			f := r.failure(c)
			want := "Tool not found: list_order. Available: a1, a2, a3, a4, a5, a6, a7, a8, a9, b1... (and 2 more). Did you mean 'list_orders'?"
			if f.Error != want || f.Code != messages.CodeToolNotFound || f.Executed || f.Ambiguous || f.Mark != 0 {
				t.Errorf("%s: %+v", effect, f)
			}
			r.noResult(c)
		}
		r.allAcked()
	})
}

// S6: while others serve it, it is handed on, as often as it takes (ADR 0010);
// the pause is beside the delivery and holds no slot.
func TestS6_T5_AToolOfAnotherWorkerIsHandedOnWhileItIsLive(t *testing.T) {
	bubble(t, func(r *rig) {
		cfg := r.config(counted("mine", echo).Tool)
		cfg.Slots = 1
		w := r.start(cfg)
		offer := messages.OfferRequest{Worker: "w2", Tools: []messages.ToolSpec{counted("theirs", echo).Spec()}}
		r.register(t.Context(), offer)
		theirs, mine := r.call("theirs"), r.call("mine")
		r.publish(theirs)
		synctest.Wait()
		r.publish(mine)
		synctest.Wait()
		if r.result(mine).Status != messages.Succeeded {
			t.Error("the pause holds a slot")
		}
		// 1 s three times, then 2, 4 and 8, and 8 again
		for _, after := range []time.Duration{1, 1, 1, 2, 4, 8, 8} {
			before := w.broker.Count(memory.OpNak, ">")
			pass(after*time.Second - 100*time.Millisecond)
			if n := w.broker.Count(memory.OpNak, ">") - before; n != 0 {
				t.Errorf("%d NAKs in less than %d s", n, after)
			}
			pass(100 * time.Millisecond)
			if n := w.broker.Count(memory.OpNak, ">") - before; n != 1 {
				t.Fatalf("%d NAKs after %d s", n, after)
			}
		}
		r.noFailure(theirs)
		offer.Withdraw = true
		r.register(t.Context(), offer)
		pass(10 * time.Second)
		if f := r.failure(theirs); f.Code != messages.CodeToolNotFound {
			t.Errorf("%+v", f)
		}
		r.allAcked()
	})
}

// S6: while an offer is only late, calls wait.
func TestS6_T5_AToolWhoseOfferIsLateWaits(t *testing.T) {
	bubble(t, func(r *rig) {
		cfg := r.config(counted("mine", echo).Tool)
		cfg.Slots = 1
		w := r.start(cfg)
		theirs := counted("theirs", echo)
		r.register(t.Context(), messages.OfferRequest{Worker: "w2", Tools: []messages.ToolSpec{theirs.Spec()}})
		pass(31 * time.Second) // the offer lapses
		c := r.call("theirs")
		r.publish(c)
		pass(2 * time.Minute)
		r.noFailure(c)
		if n := w.broker.Count(memory.OpNak, ">"); n != 0 {
			t.Errorf("%d NAKs while it waits", n)
		}
		mine := r.call("mine")
		r.publish(mine)
		synctest.Wait()
		if r.result(mine).Status != messages.Succeeded {
			t.Error("the wait holds up others")
		}
		cfg = r.config(theirs.Tool)
		cfg.Name = "w2"
		w.stop() // it would compete for what it hands on
		r.start(cfg)
		pass(time.Second)
		if res := r.result(c); res.Worker != "w2" {
			t.Errorf("%+v", res)
		}
	})
}

// A call whose tool is not found may still have been begun by a worker that
// had it and died: then it is not "not found" but ambiguous.
func TestS6_T10_NotFoundDoesNotHideALostWorker(t *testing.T) {
	bubble(t, func(r *rig) {
		r.withQueue()
		c := repetitions()["second delivery"](r, r.call("gone", unsafe))
		seq := must(r.admin.LastSequence(t.Context(), messages.StreamCalls))
		r.putStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "t", Sequence: seq, Worker: "w0"})
		r.worker(counted("mine", echo).Tool)
		pass(time.Second)
		if f := r.failure(c); f.Code != messages.CodeWorkerLost || !f.Ambiguous || f.Error != `worker w0 was lost while it ran tool "gone"` {
			t.Errorf("%+v", f)
		}
	})
}

// S6.2: a tool's own hint reaches whoever decides on the delay.
func TestS6_2_RetryHintsTravelInTheFailure(t *testing.T) {
	bubble(t, func(r *rig) {
		busy := counted("busy", func(context.Context, tool.Call) ([]byte, error) {
			return nil, tool.RateLimited(errors.New("429 Too Many Requests"), 7*time.Second)
		})
		half := counted("half", func(context.Context, tool.Call) ([]byte, error) {
			return nil, tool.RetryAfter(errors.New("try later"), 2*time.Second, false)
		})
		r.worker(busy.Tool, half.Tool)
		a, b := r.call("busy", unsafe), r.call("half", unsafe)
		r.publish(a)
		r.publish(b)
		synctest.Wait()
		if f := r.failure(a); f.Code != messages.CodeRateLimited || !f.NothingDone || f.RetryAfter.Duration() != 7*time.Second || f.Ambiguous || f.Error != "429 Too Many Requests" {
			t.Errorf("%+v", f)
		}
		if f := r.failure(b); f.NothingDone || f.RetryAfter.Duration() != 2*time.Second || f.Ambiguous {
			t.Errorf("%+v", f)
		}
	})
}

// S7.1 with protocol section 3: the effect is the one frozen into the message,
// not what this worker's version of the tool declares.
func TestS7_1_TheEffectIsThatOfTheMessage(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo, tool.Effect(messages.ReadOnly))
		r.worker(x.Tool)
		c := r.call("x", unsafe)
		r.publish(c)
		synctest.Wait()
		if _, ok := r.get(r.names.StartSubject(c.Run, c.ID, 0)); !ok {
			t.Error("an unsafe call of a tool that now says read_only ran without its start")
		}
	})
}

func TestS7_2_TheIdempotencyKeyReachesTheTool(t *testing.T) {
	bubble(t, func(r *rig) {
		var got tool.Call
		r.worker(counted("x", func(_ context.Context, c tool.Call) ([]byte, error) { got = c; return nil, nil }).Tool)
		c := r.call("x", dispatch(3), func(c *messages.Call) { c.Key, c.Attempt = "key-7", 2 })
		r.publish(c)
		synctest.Wait()
		if got.Key != "key-7" || got.ID != c.ID || got.Attempt != 2 || got.Dispatch != 3 || got.Run != c.Run || got.Ref != "r1" {
			t.Errorf("%+v", got)
		}
	})
}

// S7.3: definite and ambiguous are told apart by what the tool answered.
func TestS7_3_DefiniteAndAmbiguous(t *testing.T) {
	base := errors.New("boom")
	for name, c := range map[string]struct {
		err       error
		ambiguous bool
	}{
		"an answer":        {base, false},
		"a failing result": {tool.Failed([]byte("no")), false},
		"says it":          {tool.Ambiguous(base), true},
		"connection lost":  {tool.ConnectionLost(base), true},
	} {
		for _, effect := range messages.Effects() {
			bubble(t, func(r *rig) {
				r.worker(counted("x", func(context.Context, tool.Call) ([]byte, error) { return nil, c.err }).Tool)
				call := r.call("x", func(m *messages.Call) { m.Effect = effect })
				r.publish(call)
				synctest.Wait()
				if f := r.failure(call); f.Ambiguous != (c.ambiguous && effect != messages.ReadOnly) || !f.Executed {
					t.Errorf("%s, %s: %+v", name, effect, f)
				}
			})
		}
	}
}

// S7.4: the start of an unsafe tool stands before the tool runs; others pay nothing.
func TestS7_4_TheStartIsWrittenBeforeAnUnsafeToolRuns(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			stood := false
			var c messages.Call
			r.worker(counted("x", func(ctx context.Context, _ tool.Call) ([]byte, error) {
				_, err := r.admin.Get(ctx, r.names.StartSubject(c.Run, c.ID, 0))
				stood = err == nil
				return nil, nil
			}).Tool)
			c = r.call("x", func(m *messages.Call) { m.Effect = effect })
			r.publish(c)
			synctest.Wait()
			if stood != (effect == messages.Unsafe) {
				t.Errorf("%s: start there while it ran: %v", effect, stood)
			}
		})
	}
}

// S7.4: nothing runs while the start is not known to be written.
func TestS7_4_AnUnsafeToolWaitsForItsStart(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		w.broker.Fail(memory.OpPutOnce, "mulligan.start.>", 20, fmt.Errorf("recovery: %w", messages.ErrFull))
		c := r.call("x", unsafe)
		r.publish(c)
		pass(10 * time.Second)
		if x.ran() != 0 {
			t.Error("it ran without a start")
		}
		pass(2 * time.Minute)
		if x.ran() != 1 || r.result(c).Status != messages.Succeeded {
			t.Errorf("ran %d times", x.ran())
		}
	})
}

// S7.5: a success that comes after a failure of its dispatch, before the end,
// ends the call; after the end it is kept as late and changes nothing.
func TestS7_5_BestNewsWinsOnce(t *testing.T) {
	for _, ended := range []bool{false, true} {
		bubble(t, func(r *rig) {
			x := counted("x", func(context.Context, tool.Call) ([]byte, error) {
				<-time.After(10 * time.Second)
				return []byte("done"), nil
			})
			r.worker(x.Tool)
			c := r.call("x")
			r.publish(c)
			pass(time.Second)
			must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(messages.Failure{Call: c, Code: messages.CodeWorkerLost, Ambiguous: true}))))
			if ended {
				must(r.admin.PutOnce(t.Context(), r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: "x", Status: messages.Failed})))
			}
			pass(10 * time.Second)
			res, late := r.result(c), r.late(c)
			if !ended && (res.Status != messages.Succeeded || len(late) != 0) {
				t.Errorf("before the end: %+v, %d late", res, len(late))
			}
			if ended && (res.Status != messages.Failed || len(late) != 1 || late[0].Output == nil || string(late[0].Output.Inline) != "done") {
				t.Errorf("after the end: %+v, late %+v", res, late)
			}
			r.allAcked()
		})
	}
}

func TestS7_5_AFailureThatIsSecondIsKeptAsLate(t *testing.T) {
	bubble(t, func(r *rig) {
		r.worker(counted("x", func(context.Context, tool.Call) ([]byte, error) {
			<-time.After(time.Second)
			return nil, errors.New("mine")
		}).Tool)
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		must(r.admin.PutOnce(t.Context(), must(r.names.EncodeFailure(messages.Failure{Call: c, Code: messages.CodeWorkerLost, Error: "theirs"}))))
		pass(2 * time.Second)
		late := r.late(c)
		if r.failure(c).Error != "theirs" || len(late) != 1 || late[0].Failure == nil || late[0].Failure.Error != "mine" {
			t.Errorf("late %+v", late)
		}
	})
}

// A publish whose answer was lost finds itself and is no late news.
func TestALostAckOfAnOutcomeIsNotLate(t *testing.T) {
	for name, err := range map[string]error{"result": nil, "failure": errors.New("no")} {
		bubble(t, func(r *rig) {
			w := r.worker(counted("x", func(context.Context, tool.Call) ([]byte, error) { return []byte("ok"), err }).Tool)
			w.broker.LoseAck(memory.OpPutOnce, "mulligan."+name+".>")
			c := r.call("x")
			r.publish(c)
			pass(time.Second)
			if len(r.late(c)) != 0 {
				t.Errorf("%s: its own outcome counts as another's", name)
			}
			r.allAcked()
		})
	}
}

func (r *rig) late(c messages.Call) []messages.Late {
	r.t.Helper()
	var out []messages.Late
	err := r.admin.List(r.t.Context(), messages.StreamRecovery, r.names.StoryFilters(c.Run, c.ID), func(m messages.Stored) bool {
		if a := must(r.names.Parse(m.Subject)); a.Kind == messages.KindLate {
			out = append(out, must(messages.DecodeStory[messages.Late](m.Body)))
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// S7.7: a call of an unsafe tool with an ambiguous attempt does not end as cancelled.
func TestS7_7_ACancelAfterAnAmbiguousAttemptIsUnknown(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		r.worker(x.Tool)
		c := r.call("x", unsafe, dispatch(1), func(c *messages.Call) { c.Ambiguous = []int{0} })
		r.cancel(messages.ControlCallKey(c.Run, c.ID), wish())
		r.publish(c)
		synctest.Wait()
		if res := r.result(c); res.Status != messages.StatusUnknown || res.Code != messages.CodeAmbiguous || x.ran() != 0 {
			t.Errorf("%+v", res)
		}
	})
}
