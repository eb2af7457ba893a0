package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// breaker writes the entry of tool x, as a coordinator does.
func (r *rig) breaker(b messages.Breaker) {
	r.t.Helper()
	r.writeBreaker(b)
	synctest.Wait()
}

func (r *rig) writeBreaker(b messages.Breaker) {
	r.t.Helper()
	b.Tool, b.Updated = "x", time.Now()
	if b.Mode == "" {
		b.Mode = messages.BreakerFailFast
	}
	if err := r.admin.Put(r.t.Context(), messages.BucketControl, messages.BreakerKey("x"), must(messages.EncodeBreaker(b)), 0); err != nil {
		r.t.Fatal(err)
	}
}

func openFor(d time.Duration) messages.Breaker {
	return messages.Breaker{State: messages.BreakerOpen, Failures: []string{"a", "b"}, Opened: time.Now(), Until: time.Now().Add(d),
		Reset: messages.Millis(d), Trips: 1}
}

func halfOpen(c messages.Call, lease time.Duration) messages.Breaker {
	p := messages.ProbeOf(c)
	b := openFor(lease)
	b.State, b.Probe = messages.BreakerHalfOpen, &p
	return b
}

func probing(c *messages.Call) { c.Probe = true }

func TestS8_3_QueuedCallsOfAShutToolDoNotRun(t *testing.T) {
	for _, effect := range []messages.Effect{messages.ReadOnly, messages.Idempotent, messages.Unsafe} {
		bubble(t, func(r *rig) {
			x, y := counted("x", echo), counted("y", echo)
			r.worker(x.Tool, y.Tool)
			r.breaker(openFor(time.Minute))
			call := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(call)
			r.publish(r.call("y"))
			synctest.Wait()
			f := r.failure(call)
			if f.Code != messages.CodeBreakerOpen || f.Error != messages.BreakerText || string(f.Output.Inline) != messages.BreakerText ||
				f.Executed || f.Ambiguous || !f.NothingDone || f.RetryAfter != 0 {
				t.Errorf("%s: %+v", effect, f)
			}
			r.noResult(call)
			if x.ran() != 0 || y.ran() != 1 {
				t.Errorf("%s: x ran %d times, y %d times", effect, x.ran(), y.ran())
			}
			r.allAcked()
		})
	}
}

func TestS8_3_ADeferredCallComesBackAfterTheReset(t *testing.T) {
	ofCall := func(mode string) func(*messages.Call) {
		return func(c *messages.Call) { c.Policy = []byte(`{"breaker":"` + mode + `","max_retries":1}`) }
	}
	for name, c := range map[string]struct {
		mode    messages.BreakerMode
		call    func(*messages.Call)
		waits   bool
		longest time.Duration
	}{
		"its tool waits":             {messages.BreakerDefer, func(*messages.Call) {}, true, 66 * time.Second},
		"the call waits":             {messages.BreakerFailFast, ofCall("defer"), true, 66 * time.Second},
		"the call does not":          {messages.BreakerDefer, ofCall("fail_fast"), false, 0},
		"no call is without breaker": {messages.BreakerFailFast, ofCall("off"), false, 0},
	} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			b := openFor(time.Minute)
			b.Mode = c.mode
			r.breaker(b)
			call := r.call("x", c.call)
			r.publish(call)
			synctest.Wait()
			f := r.failure(call)
			after := f.RetryAfter.Duration()
			if f.Code != messages.CodeBreakerOpen || !f.NothingDone || after > 0 != c.waits || c.waits && (after < time.Minute || after > c.longest) {
				t.Errorf("%s: %s, retry after %s", name, f.Code, after)
			}
			if x.ran() != 0 {
				t.Errorf("%s: it ran", name)
			}
		})
	}
}

func TestS8_4_OnlyTheProbeRuns(t *testing.T) {
	for _, effect := range []messages.Effect{messages.Idempotent, messages.Unsafe} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			w := r.worker(x.Tool)
			probe := r.call("x", probing, func(c *messages.Call) { c.Effect = effect })
			r.breaker(halfOpen(probe, time.Minute))
			other := r.call("x", func(c *messages.Call) { c.Effect = effect })
			r.publish(other)
			r.publish(probe)
			synctest.Wait()
			if f := r.failure(other); f.Code != messages.CodeBreakerOpen || x.ran() != 1 {
				t.Errorf("%s: %s, ran %d times", effect, f.Code, x.ran())
			}
			if res := r.result(probe); res.Status != messages.Succeeded {
				t.Errorf("%s: %+v", effect, res)
			}
			if _, ok := r.get(r.names.SettledSubject(probe.Run, probe.ID, 0)); !ok {
				t.Errorf("%s: the success of the probe is told to nobody", effect)
			}
			if n := w.broker.Count(memory.OpLoad, ">"); n != 1 {
				t.Errorf("%s: %d reads of the leader, want that of the probe", effect, n)
			}
			r.allAcked()
		})
	}
}

// The watch may lag behind: only the leader says whose lease it is.
func TestS8_4_AProbeAsksTheLeader(t *testing.T) {
	for name, c := range map[string]struct {
		now  func(r *rig, probe messages.Call)
		runs bool
	}{
		"another is the probe": {func(r *rig, _ messages.Call) { r.writeBreaker(halfOpen(r.call("x"), time.Minute)) }, false},
		"it is another dispatch": {func(r *rig, probe messages.Call) {
			probe.Dispatch = 1
			r.writeBreaker(halfOpen(probe, time.Minute))
		}, false},
		"its lease is over": {func(r *rig, probe messages.Call) { r.writeBreaker(halfOpen(probe, 0)) }, false},
		"open again":        {func(r *rig, _ messages.Call) { r.writeBreaker(openFor(time.Minute)) }, false},
		"closed":            {func(r *rig, _ messages.Call) { r.writeBreaker(messages.Breaker{State: messages.BreakerClosed}) }, true},
		"gone": {func(r *rig, _ messages.Call) {
			if err := r.admin.Delete(r.t.Context(), messages.BucketControl, messages.BreakerKey("x")); err != nil {
				r.t.Error(err)
			}
		}, true},
	} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			var probe messages.Call
			cfg := r.config(x.Tool)
			h := &hooked{Broker: r.admin.Peer()}
			h.beforeGet = func(string) { // a repetition looks for its outcome before it asks
				h.beforeGet = nil
				c.now(r, probe)
			}
			cfg.Broker = h
			r.start(cfg)
			probe = r.call("x", probing, func(c *messages.Call) { c.Repeat = true })
			r.breaker(halfOpen(probe, time.Minute))
			r.publish(probe)
			synctest.Wait()
			if ran := x.ran() == 1; ran != c.runs {
				t.Errorf("%s: it ran: %v", name, ran)
			}
			if !c.runs && r.failure(probe).Code != messages.CodeBreakerOpen {
				t.Errorf("%s: %+v", name, r.failure(probe))
			}
		})
	}
}

func TestS8_4_NoProbeRunsWhileTheLeaderDoesNotAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		probe := r.call("x", probing)
		r.breaker(halfOpen(probe, time.Minute))
		w.broker.Fail(memory.OpLoad, ">", 2, errBroker)
		r.publish(probe)
		synctest.Wait()
		if x.ran() != 0 {
			t.Fatal("it ran without an answer")
		}
		pass(3 * time.Second)
		if x.ran() != 1 {
			t.Errorf("it ran %d times after the answer", x.ran())
		}
	})
}

func TestS8_1_OneSuccessIsToldWhereFailuresAreCounted(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		w := r.worker(x.Tool)
		settled := func(n int) (told int) {
			for range n {
				call := r.call("x")
				r.publish(call)
				synctest.Wait()
				if r.result(call).Status != messages.Succeeded {
					t.Fatal("no success")
				}
				if _, ok := r.get(r.names.SettledSubject(call.Run, call.ID, 0)); ok {
					told++
				}
			}
			return told
		}
		if n := settled(3); n != 0 {
			t.Errorf("%d successes are told while nothing is counted", n)
		}
		counting := messages.Breaker{State: messages.BreakerClosed, Failures: []string{"a"}}
		r.breaker(counting)
		if n := settled(3); n != 1 {
			t.Errorf("%d of 3 successes are told, want one", n)
		}
		counting.Failures = append(counting.Failures, "b")
		r.breaker(counting)
		if n := settled(3); n != 1 {
			t.Errorf("%d of 3 successes are told after another failure, want one", n)
		}
		counting.Opened = time.Now().Add(time.Second) // what runs now began before it opened last
		r.breaker(counting)
		if n := settled(2); n != 0 {
			t.Errorf("%d successes are told that would not count", n)
		}
		if n := w.broker.Count(memory.OpLoad, ">") + w.broker.Count(memory.OpGet, ">"); n != 0 {
			t.Errorf("%d reads on the way of successes", n)
		}
	})
}

// Whoever put the tombstone may have come no further.
func TestS8_3_ATombstoneOfABreakerIsARefusal(t *testing.T) {
	for name, mode := range map[string]messages.BreakerMode{"fail_fast": messages.BreakerFailFast, "defer": messages.BreakerDefer} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			r.worker(x.Tool)
			r.breaker(messages.Breaker{State: messages.BreakerClosed, Mode: mode})
			call := r.call("x", func(c *messages.Call) { c.Effect, c.Repeat = messages.Unsafe, true })
			r.putStory(r.names.StartSubject(call.Run, call.ID, 0),
				messages.Start{Token: "t", Worker: "gone", Tombstone: messages.Tombstone(messages.CodeBreakerOpen, messages.BreakerText)})
			r.publish(call)
			synctest.Wait()
			f := r.failure(call)
			if f.Code != messages.CodeBreakerOpen || f.Error != messages.BreakerText || f.Executed || x.ran() != 0 || f.RetryAfter > 0 != (name == "defer") {
				t.Errorf("%s: ran %d times, %+v", name, x.ran(), f)
			}
		})
	}
}
