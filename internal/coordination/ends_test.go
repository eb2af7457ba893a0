package coordination_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// exhaust fails a call six times.
func (r *rig) exhaust(c messages.Call) {
	r.t.Helper()
	for n := range messages.MaxAttempts {
		d := c
		if n > 0 {
			d = r.wantQueued(c, n)
		}
		r.failAndDecide(d, messages.Retry(0))
		synctest.Wait()
	}
}

func inRun(name string) func(*messages.Submission) {
	return func(s *messages.Submission) { s.Run = name }
}

func TestS5_5_HardEndStopsItsRunAndNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		completed, queued, waiting, parked := r.accept(), r.accept(), r.accept(), r.accept()
		stranger := r.accept(inRun("r2"))
		r.succeed(completed)
		r.failAndDecide(waiting, messages.Retry(time.Hour))
		r.fail(parked)
		r.decide(parked, messages.AskUser("?"), park)
		synctest.Wait()

		c := r.accept()
		r.exhaust(c)
		synctest.Wait()
		r.wantResult(c, messages.Exhausted, messages.CodeExhausted)
		r.wantResult(completed, messages.Succeeded, "")
		for _, x := range []messages.Call{queued, waiting, parked} {
			if res := r.wantResult(x, messages.Cancelled, messages.CodeRunEnded); !strings.Contains(res.Reason, c.ID) {
				t.Errorf("reason %q", res.Reason)
			}
			if _, ok := r.queued(x.Run, x.ID); ok {
				t.Error("still queued")
			}
		}
		if r.result(stranger) != nil {
			t.Error("another run was touched")
		}
		m := must(r.admin.Load(t.Context(), messages.BucketControl, messages.ControlRunKey(c.Run)))
		if wish := must(messages.DecodeStory[messages.Cancel](m.Value)); wish.Code != messages.CodeRunEnded {
			t.Errorf("the workers are told %+v", wish)
		}
		if code := r.submitTo("t"); code != messages.CodeRunIsOver {
			t.Errorf("a call into the ended run: %q", code)
		}
		r.wantNoTriggers()
		pass(2 * time.Hour) // no schedule is left that would bring anything back
		r.wantResult(waiting, messages.Cancelled, messages.CodeRunEnded)
		r.wantNoTriggers()
	})
}

func TestS5_5_CallsWithoutARunNeverAffectEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c, sibling := r.accept(inRun("")), r.accept(inRun(""))
		if c.Run != sibling.Run {
			t.Fatal("submitted together, and not found with one filter")
		}
		r.exhaust(c)
		pass(time.Minute)
		r.wantResult(c, messages.Exhausted, messages.CodeExhausted)
		r.wantQueued(sibling, 0)
	})
}

func TestCallThatWasReflectedOnWhenItsRunEnded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		reflecting := r.accept()
		r.fail(reflecting) // in no queue, and without a record
		r.exhaust(r.accept())
		synctest.Wait()
		r.decide(reflecting, messages.Retry(0))
		synctest.Wait()
		res := r.wantResult(reflecting, messages.Cancelled, messages.CodeRunEnded)
		if res.Attempts != 1 || string(res.Output.Inline) != "error of 0" {
			t.Fatalf("result %+v", res)
		}
	})
}

func TestCancelEndpoint(t *testing.T) {
	for _, c := range []struct {
		name   string
		bring  func(r *rig, c messages.Call)
		effect messages.Effect
		status messages.Status
		spent  int
	}{
		{"queued", func(*rig, messages.Call) {}, messages.Idempotent, messages.Cancelled, 0},
		{"queued, unsafe", func(*rig, messages.Call) {}, messages.Unsafe, messages.Cancelled, 0},
		{"waiting", func(r *rig, c messages.Call) { r.failAndDecide(c, messages.Retry(time.Hour)) }, messages.Unsafe, messages.Cancelled, 1},
		{"parked", func(r *rig, c messages.Call) { r.fail(c); r.decide(c, messages.AskUser("?"), park) }, messages.Unsafe, messages.Cancelled, 1},
		{"parked, ambiguous", func(r *rig, c messages.Call) { r.fail(c, ambiguous); r.decide(c, messages.AskUser("?"), park) }, messages.Unsafe, messages.StatusUnknown, 1},
		{"reflected on", func(r *rig, c messages.Call) { r.fail(c) }, messages.Idempotent, messages.Cancelled, 1},
		{"dispatched again", func(r *rig, c messages.Call) { r.failAndDecide(c, messages.Retry(0)) }, messages.Unsafe, messages.Cancelled, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", c.effect)
				call := r.accept()
				c.bring(r, call)
				synctest.Wait()
				reply := r.cancel(messages.CancelRequest{Run: call.Run, Call: call.ID, Reason: "not needed", By: "ann"})
				if reply.Error != "" || reply.Ended != "" {
					t.Fatalf("reply %+v", reply)
				}
				res := r.result(call)
				if res == nil || res.Status != c.status || res.Attempts != c.spent || !strings.Contains(res.Reason, "not needed") {
					t.Fatalf("result %+v", res)
				}
				if _, ok := r.queued(call.Run, call.ID); ok {
					t.Fatal("still queued")
				}
				if e := must(r.admin.Load(t.Context(), messages.BucketControl, messages.ControlCallKey(call.Run, call.ID))); len(e.Value) == 0 {
					t.Fatal("the workers were not told")
				}
				if reply := r.cancel(messages.CancelRequest{Run: call.Run, Call: call.ID}); reply.Ended != c.status {
					t.Fatalf("a second time: %+v", reply)
				}
				r.wantNoTriggers()
			})
		})
	}
}

func TestCancelOfWhatIsNotThere(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		id := messages.NewCallID()
		reply := r.cancel(messages.CancelRequest{Run: messages.NamedRun("r"), Call: id})
		if !strings.Contains(reply.Error, "no call "+id+" is known in run 'r'") {
			t.Fatalf("reply %+v", reply)
		}
		raw := must(r.admin.Request(t.Context(), messages.EndpointCancel, []byte(`{"version":"1","call":"x"}`)))
		if reply := must(messages.DecodeService[messages.CancelReply](raw)); reply.Error == "" {
			t.Fatal("a bad request is no error")
		}
		// A trigger for a call that never came is acked, not kept for a month.
		m := must(messages.EncodeStory(r.names.CancelSubject(messages.NamedRun("r"), id), messages.Cancel{Status: messages.Cancelled}))
		r.put(m)
		pass(time.Minute)
		r.wantNoTriggers()
	})
}

func TestCancelOfARun(t *testing.T) {
	for _, run := range []string{"r", ""} {
		t.Run("run "+run, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", messages.Unsafe)
				queued, waiting, running := r.accept(inRun(run)), r.accept(inRun(run)), r.accept(inRun(run))
				r.failAndDecide(waiting, messages.Retry(time.Hour))
				r.put(must(messages.EncodeStory(r.names.StartSubject(running.Run, running.ID, 0), messages.Start{Token: "x", Worker: "w"})))
				synctest.Wait()
				if reply := r.cancel(messages.CancelRequest{Run: queued.Run, By: "ann"}); reply.Error != "" {
					t.Fatalf("reply %+v", reply)
				}
				for _, c := range []messages.Call{queued, waiting} {
					if res := r.wantResult(c, messages.Cancelled, messages.CodeCancelled); res.Reason != "cancelled by ann" {
						t.Errorf("reason %q", res.Reason)
					}
				}
				if r.result(running) != nil {
					t.Fatal("cancelled was told while the tool runs")
				}
				r.failAndDecide(running, messages.Retry(0))
				synctest.Wait()
				r.wantResult(running, messages.Cancelled, messages.CodeCancelled)
				r.wantNoTriggers()
			})
		})
	}
}

func TestCancelOfALargeRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		calls := r.many(1000)
		r.cancel(messages.CancelRequest{Run: calls[0].Run})
		pass(time.Second)
		for _, c := range calls {
			r.wantResult(c, messages.Cancelled, messages.CodeCancelled)
		}
		r.wantNoTriggers()
	})
}

func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect messages.Effect
		bring  func(r *rig, c messages.Call)
		status messages.Status
		code   messages.Code
	}{
		{"queued", messages.Idempotent, func(*rig, messages.Call) {}, messages.Expired, messages.CodeDeadline},
		{"queued, unsafe", messages.Unsafe, func(*rig, messages.Call) {}, messages.Expired, messages.CodeDeadline},
		{"waiting", messages.Idempotent, func(r *rig, c messages.Call) { r.failAndDecide(c, messages.Retry(time.Hour)) }, messages.Expired, messages.CodeDeadline},
		{"parked, ambiguous", messages.Unsafe, func(r *rig, c messages.Call) { r.fail(c, ambiguous); r.decide(c, messages.AskUser("?"), park) }, messages.StatusUnknown, messages.CodeAmbiguous},
		{"succeeded in time", messages.Idempotent, func(r *rig, c messages.Call) { r.succeed(c) }, messages.Succeeded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.coordinator()
				r.tool("t", c.effect)
				call := r.accept(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Minute) })
				c.bring(r, call)
				pass(59 * time.Second)
				if res := r.result(call); res != nil && c.status != messages.Succeeded {
					t.Fatalf("ended early: %+v", res)
				}
				pass(2 * time.Second)
				res := r.wantResult(call, c.status, c.code)
				if c.status == messages.Expired && !strings.Contains(res.Reason, "its deadline "+call.Deadline.Format(time.RFC3339)+" passed") {
					t.Errorf("reason %q", res.Reason)
				}
				if _, ok := r.queued(call.Run, call.ID); ok {
					t.Error("still queued")
				}
				if c.status == messages.Succeeded && r.record(call) != nil {
					t.Error("a call that succeeded in time got a record")
				}
				r.wantNoTriggers()
			})
		})
	}
}

func TestDeadlineOfAnUnsafeCallThatRuns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		c := r.accept(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Minute) })
		r.put(must(messages.EncodeStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "x", Worker: "w"})))
		pass(2 * time.Minute)
		if r.result(c) != nil {
			t.Fatal("expired was told while the tool runs")
		}
		r.succeed(c)
		r.put(must(messages.EncodeStory(r.names.SettledSubject(c.Run, c.ID, 0), messages.Settled{By: "w"})))
		synctest.Wait()
		if rec := r.record(c); rec == nil || rec.State != messages.Ended || rec.Outcome.Status != messages.Succeeded {
			t.Fatalf("record %+v", rec)
		}
	})
}

func TestDeadlineOfARun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		err := r.admin.Schedule(t.Context(), messages.Due{Kind: messages.DueDeadline, Run: c.Run, At: time.Now().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		pass(61 * time.Second)
		r.wantResult(c, messages.Expired, messages.CodeDeadline)
		if code := r.submitTo("t"); code != messages.CodeRunIsOver {
			t.Fatalf("code %q", code)
		}
		r.wantNoTriggers()
	})
}

func TestCallAcceptedWhileItsRunEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := messages.NamedRun("r")
		var end sync.Once
		r.coordinator(hook(func(_ *memory.Broker, op memory.Op, on string) error {
			if op == memory.OpSchedule { // the run was looked at, the call is not stored yet
				end.Do(func() {
					entry := messages.RunEntry{Run: run, Ended: &messages.Cancel{Status: messages.Cancelled, Code: messages.CodeRunEnded, Reason: "over"}}
					if err := r.admin.Put(t.Context(), messages.BucketRuns, messages.RunKey(run), must(json.Marshal(entry)), 0); err != nil {
						t.Error(err)
					}
					<-time.After(time.Second) // the watch brings it
				})
			}
			return nil
		}))
		r.tool("t", messages.Idempotent)
		s := submission(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Hour) })
		r.send(messages.Chunk{Calls: []messages.Submission{s}})
		pass(time.Second)
		r.wantResult(messages.Call{ID: s.Call, Run: run}, messages.Cancelled, messages.CodeRunEnded)
		r.wantNoTriggers()
	})
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	_, err := coordination.New(coordination.Config{
		Lease: time.Millisecond, Concurrency: -1, DeadlineLimit: 80 * time.Hour, MaxWait: 1000 * time.Hour, OfferLease: time.Millisecond, DrainEvery: -1,
	})
	for _, text := range []string{"broker is nil", "lease 1ms", "concurrency -1", "deadline limit 80h0m0s must be less than results retention 72h0m0s",
		"max wait 1000h0m0s", "offer lease 1ms", "drain every"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v\ndoes not say %q", err, text)
		}
	}
}
