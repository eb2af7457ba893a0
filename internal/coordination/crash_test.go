package coordination_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// story is a call that comes to its end over all kinds of steps: a short wait,
// a correction with its claim, a long wait, a park that nobody answers.
func story(r *rig, c messages.Call) {
	r.fail(c)
	r.decide(c, messages.Retry(200*time.Millisecond))
	c1 := r.await(c, 1)
	r.fail(c1)
	r.decide(c1, messages.Retry(2*time.Second), correction(`{"a":2}`))
	c2 := r.await(c, 2)
	r.fail(c2)
	r.decide(c2, messages.AskUser("?"), park)
	for i := 0; r.result(c) == nil; i++ {
		if i > 200 {
			r.t.Fatalf("no end, record %+v", r.record(c))
		}
		r.tick(5 * time.Second)
	}
}

// await lets time pass until a dispatch is in CALLS, a few lease times at most.
func (r *rig) await(c messages.Call, n int) messages.Call {
	r.t.Helper()
	for range 200 {
		if q, ok := r.queued(c.Run, c.ID); ok && q.Dispatch == n {
			return q
		}
		r.tick(time.Second)
	}
	r.t.Fatalf("dispatch %d never came, record %+v", n, r.record(c))
	return messages.Call{}
}

// tick lets time pass, and another coordinator come when one is needed.
func (r *rig) tick(d time.Duration) {
	pass(d)
	if r.relief != nil && r.relief() {
		r.relief = nil
		r.coordinator(quick)
	}
}

// quick shortens what a test has to sit out.
func quick(cfg *coordination.Config) { cfg.AnswerBy = 20 * time.Second }

// fault is what happens to one operation of the first coordinator.
type fault struct {
	name string
	hit  func(b *memory.Broker, op memory.Op, on string)
	err  error
}

var faultsOfOne = []fault{
	{"it stands still for good", func(b *memory.Broker, _ memory.Op, _ string) { b.Freeze() }, nil},
	{"it fails", nil, fmt.Errorf("the broker is not there")},
	{"it happens and its answer is lost", func(b *memory.Broker, op memory.Op, on string) { b.LoseAck(op, on) }, nil},
}

// TestEveryStepMayFail plays the story once for each operation of the
// coordinator that handles it, with that operation going wrong. Another one is
// there to take over. Nothing may be lost or done twice.
func TestEveryStepMayFail(t *testing.T) {
	for _, f := range faultsOfOne {
		t.Run(f.name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				if !playWithFault(t, f, at) {
					if at < 30 {
						t.Fatalf("the story took only %d operations", at-1)
					}
					t.Logf("%d operations", at-1)
					return
				}
			}
		})
	}
}

// playWithFault says whether the story was long enough for operation number at.
func playWithFault(t *testing.T, f fault, at int64) bool {
	name := fmt.Sprintf("operation %d", at)
	var seen atomic.Int64
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator(quick, hook(func(b *memory.Broker, op memory.Op, on string) error {
			if strings.Contains(on, ".offer.") || strings.Contains(on, "TOOLS") || strings.Contains(on, ".svc.") {
				return nil
			}
			if seen.Add(1) != at {
				return nil
			}
			if f.hit != nil {
				f.hit(b, op, on)
			}
			return f.err
		}))
		r.tool("t", messages.Keyed)
		c := r.accept()
		r.relief = func() bool { return seen.Load() >= at }
		story(r, c)
		first.broker.Thaw()
		pass(time.Minute)

		res := r.result(c)
		if res.Status != messages.Failed || res.Code != messages.CodeAnswerBy || res.Attempts != 3 || res.Dispatch != 2 || string(res.Output.Inline) != "error of 2" {
			t.Fatalf("%s: result %+v", name, res)
		}
		if rec := r.record(c); rec == nil || rec.State != messages.Ended || rec.N != 2 || rec.Spent != 3 || len(rec.Corrections) != 1 {
			t.Fatalf("%s: record %+v", name, rec)
		}
		// A thawed coordinator may publish an old dispatch once more: its worker
		// looks for the outcome first (P7.9). A new one it may not.
		if q, ok := r.queued(c.Run, c.ID); ok && q.Dispatch > 2 {
			t.Fatalf("%s: dispatch %d is queued after the end", name, q.Dispatch)
		}
		r.wantNoTriggers()
		synctest.Wait()
	})
	return seen.Load() >= at
}
