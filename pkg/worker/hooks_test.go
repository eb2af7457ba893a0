package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

func (r *rig) hooked(tools []*tool.Tool, hooks ...hook.Hook) *member {
	cfg := r.config(tools...)
	cfg.Hooks = hooks
	return r.start(cfg)
}

func says(name, veto string) hook.Hook {
	return hook.Hook{Name: name, Before: func(context.Context, hook.Call) (string, error) { return veto, nil }}
}

// watcher is an observer that remembers.
type watcher struct {
	mu   sync.Mutex
	seen []hook.Attempt
}

func (w *watcher) hook(name string) hook.Hook {
	return hook.Hook{Name: name, After: func(_ context.Context, a hook.Attempt) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, a)
	}}
}

func (w *watcher) attempts() []hook.Attempt {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// A veto is a failure that ran nothing and has the hook's own reason, whatever
// the tool's effect, and the hook sees what the tool would be given.
func TestS6_T7_AVetoOfAWorker(t *testing.T) {
	for _, effect := range messages.Effects() {
		bubble(t, func(r *rig) {
			var got hook.Call
			x := counted("x", echo, tool.Effect(effect))
			guard := hook.Hook{Name: "guard", Before: func(_ context.Context, c hook.Call) (string, error) {
				got = c
				return "not on a " + c.Labels["day"], nil
			}}
			r.hooked([]*tool.Tool{x.Tool}, guard)
			c := r.call("x", func(c *messages.Call) {
				c.Effect, c.Input, c.Labels, c.Task = effect, messages.Text(`{"a":1}`), messages.Labels{"day": "Sunday"}, "rest"
			})
			r.publish(c)
			synctest.Wait()
			f := r.failure(c)
			if x.ran() != 0 || f.Code != messages.CodeHookVeto || f.Executed || f.Ambiguous || string(f.Output.Inline) != "not on a Sunday" ||
				f.Error != `vetoed by hook "guard": not on a Sunday` {
				t.Errorf("%s: ran %d times, %+v", effect, x.ran(), f)
			}
			if got.ID != c.ID || got.Tool != "x" || got.Effect != effect || string(got.Input) != `{"a":1}` || got.Size != 7 || got.Task != "rest" || got.Key != c.Key {
				t.Errorf("the hook saw %+v", got)
			}
			r.allAcked()
			if effect == messages.Unsafe { // and nobody runs it after this
				m, _ := r.get(r.names.StartSubject(c.Run, c.ID, 0))
				if s := must(messages.DecodeStory[messages.Start](m.Body)); s.Tombstone == "" {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// Who buried an unsafe call for a veto and came no further leaves a veto.
func TestS6_T7_AVetoOutlivesItsWorker(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo, tool.Effect(messages.Unsafe))
		c := r.call("x", unsafe)
		r.putStory(r.names.StartSubject(c.Run, c.ID, 0), messages.Start{Token: "other", Sequence: 1, Tombstone: messages.Tombstone(messages.CodeHookVeto, "not today")})
		r.worker(x.Tool)
		r.publish(c)
		synctest.Wait()
		if f := r.failure(c); x.ran() != 0 || f.Code != messages.CodeHookVeto || f.Error != "not today" || f.Executed {
			t.Errorf("%+v", f)
		}
		r.noResult(c)
	})
}

// A guard that is broken keeps the door shut: an error, a panic, an end of its
// goroutine, and more time than it has.
func TestS6_T7_ABrokenHookVetoes(t *testing.T) {
	for want, before := range map[string]func(context.Context, hook.Call) (string, error){
		"no list":                func(context.Context, hook.Call) (string, error) { return "", errors.New("no list") },
		"panic: oh":              func(context.Context, hook.Call) (string, error) { panic("oh") },
		"it ended its goroutine": func(context.Context, hook.Call) (string, error) { runtime.Goexit(); return "", nil },
		"it took longer than 300ms": func(ctx context.Context, _ hook.Call) (string, error) {
			<-ctx.Done()
			<-time.After(time.Minute)
			return "", nil
		},
	} {
		bubble(t, func(r *rig) {
			x := counted("x", echo)
			cfg := r.config(x.Tool)
			cfg.Hooks, cfg.HookTimeout = []hook.Hook{{Name: "guard", Before: before}}, 300*time.Millisecond
			r.start(cfg)
			c := r.call("x")
			r.publish(c)
			pass(time.Second)
			f := r.failure(c)
			if x.ran() != 0 || f.Code != messages.CodeHookVeto || !strings.Contains(f.Error, want) || !strings.Contains(f.Error, `hook "guard" could not say`) {
				t.Errorf("%s: ran %d times, %+v", want, x.ran(), f)
			}
			pass(time.Minute)
		})
	}
}

// A hook that never comes back is not called for ever.
func TestAHookThatHangsIsLeftBehindAFewTimes(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		hang, asked := make(chan struct{}), 0
		m := r.hooked([]*tool.Tool{x.Tool}, hook.Hook{Name: "guard", Before: func(context.Context, hook.Call) (string, error) {
			asked++
			<-hang
			return "", nil
		}})
		var last messages.Call
		for range 12 {
			last = r.call("x")
			r.publish(last)
			pass(2 * time.Second)
		}
		if f := r.failure(last); asked != 8 || x.ran() != 0 || !strings.Contains(f.Error, "8 calls of it have not returned") {
			t.Errorf("asked %d times, %+v", asked, f)
		}
		close(hang)
		synctest.Wait()
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		if asked != 9 || r.result(c).Status != messages.Succeeded {
			t.Errorf("asked %d times after it returned", asked)
		}
		m.stop()
	})
}

// A hook that a drain overtakes is not taken for a veto.
func TestAStopIsNoVeto(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		cfg := r.config(x.Tool)
		cfg.Hooks = []hook.Hook{{Name: "guard", Before: func(ctx context.Context, _ hook.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}}
		cfg.HookTimeout, cfg.DrainTimeout = time.Hour, time.Millisecond
		m := r.start(cfg)
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		m.stop()
		r.noFailure(c)
		r.noResult(c)
		if waiting, unacked := r.left(); waiting+unacked != 1 {
			t.Errorf("%d waiting, %d un-acked", waiting, unacked)
		}
	})
}

// What is to end is not asked about: it ends as it would without hooks.
func TestACancelledCallIsNotAskedAbout(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		asked := 0
		r.hooked([]*tool.Tool{x.Tool}, hook.Hook{Name: "guard", Before: func(context.Context, hook.Call) (string, error) {
			asked++
			return "no", nil
		}})
		c := r.call("x")
		r.cancel(messages.ControlCallKey(c.Run, c.ID), messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled})
		r.publish(c)
		synctest.Wait()
		if res := r.result(c); res.Status != messages.Cancelled || asked != 0 {
			t.Errorf("asked %d times, %+v", asked, res)
		}
		r.noFailure(c)
	})
}

// An observer sees every attempt as its outcome was written.
func TestAnObserverSeesEveryAttemptAsItWasWritten(t *testing.T) {
	bubble(t, func(r *rig) {
		var w watcher
		ok := counted("ok", func(_ context.Context, c tool.Call) ([]byte, error) {
			<-time.After(2 * time.Second)
			return c.Input, nil
		})
		bad := counted("bad", func(context.Context, tool.Call) ([]byte, error) { return nil, errors.New("user u1 not found") })
		doubt := counted("doubt", stubborn, tool.Effect(messages.Unsafe))
		veto := hook.Hook{Name: "guard", Before: func(_ context.Context, c hook.Call) (string, error) {
			return c.Labels["veto"], nil
		}}
		r.hooked([]*tool.Tool{ok.Tool, bad.Tool, doubt.Tool}, veto, w.hook("watch"))
		calls := []messages.Call{
			r.call("ok", func(c *messages.Call) { c.Input = messages.Text(`{"n":1}`) }), r.call("bad"), r.call("doubt", unsafe),
			r.call("ok", func(c *messages.Call) { c.Labels = messages.Labels{"veto": "no"} }), r.call("gone"),
		}
		for _, c := range calls {
			r.publish(c)
			pass(2 * time.Minute)
		}
		got := w.attempts()
		if len(got) != len(calls) {
			t.Fatalf("%d attempts of %d: %+v", len(got), len(calls), got)
		}
		for i, c := range calls[1:] {
			f, a := r.failure(c), got[i+1]
			if a.ID != c.ID || a.Succeeded() || a.Code != f.Code || a.Error != f.Error || a.Ambiguous != f.Ambiguous || a.Executed != f.Executed ||
				a.Took != f.Duration.Duration() || a.Worker != f.Worker || a.Late || !a.At.Equal(f.At) {
				t.Errorf("%s: observed %+v, written %+v", c.Tool, a, f)
			}
		}
		res, a := r.result(calls[0]), got[0]
		if !a.Succeeded() || !a.Executed || a.Took != 2*time.Second || a.Worker != res.Worker || string(a.Input) != `{"n":1}` || !a.At.Equal(res.Ended) {
			t.Errorf("observed %+v, written %+v", a, res)
		}
		var codes []messages.Code
		for _, a := range got {
			codes = append(codes, a.Code)
		}
		if want := []messages.Code{"", messages.CodeToolError, messages.CodeTimeout, messages.CodeHookVeto, messages.CodeToolNotFound}; !slices.Equal(codes, want) {
			t.Errorf("%v", codes)
		}
		if !got[2].Ambiguous || got[3].Executed || got[4].Executed {
			t.Errorf("%+v", got[2:])
		}
	})
}

// An outcome that came after another is shown as what it is.
func TestAnObserverSeesWhatCameTooLate(t *testing.T) {
	bubble(t, func(r *rig) {
		var w watcher
		x := counted("x", func(_ context.Context, c tool.Call) ([]byte, error) {
			<-time.After(3 * time.Second)
			return c.Input, nil
		})
		r.hooked([]*tool.Tool{x.Tool}, w.hook("watch"))
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		winner := messages.Result{Call: c.ID, Run: c.Run, Tool: "x", Status: messages.Cancelled, IsError: true, Ended: time.Now(), Output: messages.Text("over")}
		must(r.admin.PutOnce(r.t.Context(), r.names.EncodeResult(winner)))
		pass(5 * time.Second)
		if got := w.attempts(); len(got) != 1 || !got[0].Late || !got[0].Succeeded() {
			t.Errorf("%+v", got)
		}
	})
}

// So is a failure of a dispatch that another one has reported.
func TestAnObserverSeesAFailureThatCameTooLate(t *testing.T) {
	bubble(t, func(r *rig) {
		var w watcher
		x := counted("x", func(context.Context, tool.Call) ([]byte, error) {
			<-time.After(3 * time.Second)
			return nil, errors.New("no")
		})
		r.hooked([]*tool.Tool{x.Tool}, w.hook("watch"))
		c := r.call("x")
		r.publish(c)
		synctest.Wait()
		first := messages.Failure{Call: c, Input: c.Input, Output: messages.Text("lost"), Code: messages.CodeWorkerLost, Executed: true, At: time.Now()}
		must(r.admin.PutOnce(r.t.Context(), must(r.names.EncodeFailure(first))))
		pass(5 * time.Second)
		if got := w.attempts(); len(got) != 1 || !got[0].Late || got[0].Error != "no" {
			t.Errorf("%+v", got)
		}
	})
}

// Whatever an observer does, calls go on, and the other observers see them.
func TestAnObserverHoldsNothingUp(t *testing.T) {
	bubble(t, func(r *rig) {
		var w watcher
		x := counted("x", echo)
		never := hook.Hook{Name: "never", After: func(ctx context.Context, a hook.Attempt) {
			a.Input[0] = 'X'
			<-ctx.Done()
			panic("and now this")
		}}
		m := r.hooked([]*tool.Tool{x.Tool}, never, w.hook("watch"))
		began := time.Now()
		var calls []messages.Call
		for range 20 {
			c := r.call("x")
			calls = append(calls, c)
			r.publish(c)
		}
		synctest.Wait()
		for _, c := range calls {
			if res := r.result(c); res.Status != messages.Succeeded || string(res.Output.Inline) != "{}" {
				t.Errorf("%+v", res)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the calls took %s", took)
		}
		pass(30 * time.Second)
		if got := w.attempts(); len(got) != 20 || string(got[19].Input) != "{}" {
			t.Errorf("%d attempts, %+v", len(got), got)
		}
		m.stop()
	})
}

// What comes faster than observers follow is dropped and counted.
func TestAttemptsThatObserversDoNotFollowAreDropped(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		open, dropped, told := make(chan struct{}), atomic.Int64{}, 0
		cfg := r.config(x.Tool)
		cfg.HookTimeout, cfg.Log = time.Hour, nil
		cfg.Metrics = worker.Metrics{Unobserved: func() { dropped.Add(1) }}
		cfg.Slots = 1
		cfg.Hooks = []hook.Hook{{Name: "slow", After: func(context.Context, hook.Attempt) {
			<-open
			told++
		}}}
		r.start(cfg)
		const calls = 1100
		for range calls {
			r.publish(r.call("x"))
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		if dropped := int(dropped.Load()); told+dropped != calls || dropped < 50 || x.ran() != calls {
			t.Errorf("%d told, %d dropped, %d ran", told, dropped, x.ran())
		}
	})
}

// setPolicy writes the policies of the pool, as a coordinator does.
func (r *rig) setPolicy(document string) {
	r.t.Helper()
	b := must(json.Marshal(messages.PolicyEntry{Version: messages.Version, Document: json.RawMessage(document), By: "op", At: time.Now()}))
	if err := r.admin.Put(r.t.Context(), messages.BucketControl, messages.PolicyKey, b, 0); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// Notes of the pool's policies hold from when they are set, and a document that
// cannot be read changes nothing. Vetoes are the coordinators' matter.
func TestNotesOfThePoolAreLive(t *testing.T) {
	bubble(t, func(r *rig) {
		x := counted("x", echo)
		var noted []string
		cfg := r.config(x.Tool)
		cfg.Metrics = worker.Metrics{Noted: func(name string) { noted = append(noted, name) }}
		m := r.start(cfg)
		run := func() {
			r.publish(r.call("x"))
			synctest.Wait()
		}
		run()
		r.setPolicy(`{"hooks":[{"name":"v","when":"true","veto":"no"},{"name":"a","when":"outcome == \"succeeded\" && size == 2","note":"seen"},{"name":"b","when":"took_ms > 5","note":"slow"}]}`)
		run()
		r.setPolicy(`{"hooks":[{"name":"a","when":"tol","note":"seen"}]}`)
		run()
		r.setPolicy(`{"hooks":[{"name":"c","when":"tool == \"x\"","note":"seen"},{"name":"d","when":"input.none > 3","note":"undecided"}]}`)
		run()
		if err := r.admin.Delete(r.t.Context(), messages.BucketControl, messages.PolicyKey); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		run()
		m.stop()
		if want := []string{"a", "a", "c"}; !slices.Equal(noted, want) || x.ran() != 5 {
			t.Errorf("noted %v, ran %d", noted, x.ran())
		}
	})
}

func TestHooksThatCannotBeUsedAreRefused(t *testing.T) {
	cfg := worker.Config{Broker: memory.New(memory.Config{}), Tools: []*tool.Tool{counted("x", echo).Tool}, Hooks: []hook.Hook{says("a", ""), says("a", "")}}
	if _, err := worker.New(cfg); err == nil || !strings.Contains(err.Error(), `worker: hooks: hook 2: name "a" is that of another hook`) {
		t.Error(err)
	}
	cfg.Hooks, cfg.HookTimeout = nil, -1
	if _, err := worker.New(cfg); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("hook timeout is %v", cfg.HookTimeout)) {
		t.Error(err)
	}
}
