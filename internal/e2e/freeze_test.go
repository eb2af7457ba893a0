//go:build unix

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// freeze returns when the process has stopped: on a busy machine some of its
// threads go on for a moment.
func (c *cluster) freeze(name string) {
	c.t.Helper()
	c.signal(name, syscall.SIGSTOP)
	pid := c.named(name).cmd.Process.Pid
	c.eventually(func() string {
		if runs(pid) {
			return name + " still runs"
		}
		return ""
	})
}

// runs says whether a thread of a process has not stopped; never where there is
// no /proc to ask.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is sound
	return slices.ContainsFunc(threads, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && !bytes.HasPrefix(b[bytes.LastIndexByte(b, ')'):], []byte(") T "))
	})
}

func (c *cluster) thaw(name string) {
	c.t.Helper()
	c.signal(name, syscall.SIGCONT)
}

// TestS7_5_AFrozenWorkerComesBackTooLate freezes a worker past its leases while
// tools run on it. Another one finishes their calls, and then the frozen one
// goes on: each call keeps its one result, what comes late is kept beside it,
// and nothing unsafe has run twice. Only where a human is still asked, the
// frozen worker's success is the news that ends the call.
func TestS7_5_AFrozenWorkerComesBackTooLate(t *testing.T) {
	t.Parallel()
	const each = 4
	c := alone(t, lease)
	c.coordinator(0)
	c.run("reflector", 0)
	flags := []string{"--slots", "64", "--timeout", "10m"}
	c.hands(0, flags...)
	c.serving(1)
	hold := order{Hold: true}
	again, lost := orders(each, messages.Idempotent, hold), orders(each, messages.Unsafe, hold)
	asked := parking(orders(each, messages.Unsafe, hold))
	c.submit(slices.Concat(again, lost, asked))
	c.begun(3 * each)
	c.hands(1, flags...)
	c.serving(2)

	c.freeze("worker-0")
	fresh := orders(each, messages.Unsafe, order{}) // some of which the frozen one had asked for
	c.submit(fresh)
	c.endedWith(c.results(lost, func(int) {}), messages.StatusUnknown, "")
	c.parked(each)
	c.begun(5 * each)
	c.release()
	c.endedWith(c.results(slices.Concat(again, fresh), func(int) {}), messages.Succeeded, "worker-1")

	c.thaw("worker-0")
	c.endedWith(c.results(asked, func(int) {}), messages.Succeeded, "worker-0")
	var late map[string][]messages.Stored
	c.eventually(func() string {
		late = c.recovery("late")
		return wantNumber("late outcomes", len(late), 2*each)
	})
	c.parked(0)
	c.idle()
	c.onceEach(again, lost, asked, fresh)
	n := times(c.executions())
	for _, s := range slices.Concat(lost, asked, fresh) {
		if n[s.Call] != 1 {
			t.Errorf("call %s of an unsafe tool was executed %d times", s.Call, n[s.Call])
		}
	}
	for _, s := range again {
		if n[s.Call] != 2 {
			t.Errorf("call %s, of a tool that may run twice, was executed %d times", s.Call, n[s.Call])
		}
	}
	for _, s := range slices.Concat(again, lost) {
		if len(late[s.Call]) != 1 {
			t.Errorf("%d late outcomes are kept of call %s", len(late[s.Call]), s.Call)
		}
	}
	for _, id := range []string{again[0].Call, lost[0].Call} {
		text, s := c.explain(id)
		if !strings.Contains(text, "late         a success of dispatch 0 came at") || !strings.Contains(text, "from worker worker-0") {
			t.Errorf("the late outcome is not told:\n%s", text)
		}
		if len(s.Late) != 1 || s.Late[0].Worker != "worker-0" || s.Late[0].Text != `"done by worker-0"` && s.Late[0].Text != "done by worker-0" {
			t.Errorf("the late outcomes of call %s are %+v", id, s.Late)
		}
	}
}

// endedWith says how all of these calls must have ended, and on which worker
// the last of each ran; "" for any.
func (c *cluster) endedWith(e ended, status messages.Status, worker string) {
	c.t.Helper()
	for id, r := range e.results {
		if r.Status != status || worker != "" && r.Worker != worker {
			c.t.Errorf("call %s ended %s on %s, want %s on %s: %s", id, r.Status, r.Worker, status, worker, r.Reason)
		}
	}
}

// TestS5_1_AFrozenServiceHoldsUpNothing freezes a coordinator or a reflector
// past its leases, in the middle of calls that need it. They end without it, so
// do those that are submitted meanwhile, and when it goes on with what it held
// nothing gets a second result, and nothing unsafe runs again.
func TestS5_1_AFrozenServiceHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"coordinator-0", "reflector-0"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			frozenService(t, victim)
		})
	}
}

func frozenService(t *testing.T, victim string) {
	c := alone(t, lease)
	for i := range 2 {
		c.coordinator(i)
		c.run("reflector", i)
		c.hands(i, "--slots", "32")
	}
	c.serving(2)
	c.ready(c.process(victim))
	first := failingOnce(200)
	c.submit(first)
	var frozen time.Time
	e := c.results(first, func(done int) {
		if done == len(first)/4 {
			frozen = time.Now()
			c.freeze(victim)
		}
	})
	took := time.Since(frozen)
	c.endedWith(e, messages.Succeeded, "")

	second := failingOnce(96)
	c.submitImpatiently(second, 8)
	meanwhile := c.results(second, func(int) {})
	c.endedWith(meanwhile, messages.Succeeded, "")
	c.eventually(func() string {
		return wantNumber("milliseconds of frost", int(time.Since(frozen).Milliseconds()), int((2 * lease).Milliseconds()))
	})

	c.thaw(victim)
	third := failingOnce(96)
	c.submitImpatiently(third, 8)
	c.endedWith(c.results(third, func(int) {}), messages.Succeeded, "")
	c.idle()
	c.onceEach(first, second, third)
	c.ranInTime(meanwhile)
	t.Logf("the last of %d calls ended %v after %s froze, with leases of %v; of %d executions %d were repetitions",
		len(first), took, victim, lease, len(c.executions()), c.repetitions(slices.Concat(first, second, third)))
}

// failingOnce makes n calls of all effects whose first attempt fails and did
// nothing.
func failingOnce(n int) []messages.Submission {
	var calls []messages.Submission
	for _, effect := range []messages.Effect{messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Unsafe} {
		calls = append(calls, orders(n/4, effect, order{Fail: 1})...)
	}
	return calls
}

// submitImpatiently submits in many small requests, side by side, and repeats
// those that nobody answers within a lease.
func (c *cluster) submitImpatiently(calls []messages.Submission, each int) {
	c.t.Helper()
	cl, err := client.New(c.pool, client.Config{RequestTimeout: c.lease})
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	var all errgroup.Group
	var refused atomic.Int64
	for some := range slices.Chunk(calls, each) {
		all.Go(func() error {
			r, err := submitSurely(c.t, cl, some)
			refused.Add(int64(len(r)))
			return err
		})
	}
	if err := all.Wait(); err != nil || refused.Load() > 0 {
		c.t.Fatalf("submit: %v, %d refused", err, refused.Load())
	}
}

// ranInTime says that nothing ran again after its end, as by a request that a
// coordinator had before it froze.
func (c *cluster) ranInTime(e ended) {
	c.t.Helper()
	for _, x := range c.executions() {
		if r, ok := e.results[x.Call]; ok && x.At.After(r.Ended.Add(c.lease)) {
			c.t.Errorf("dispatch %d of call %s ran %v after its end", x.Dispatch, x.Call, x.At.Sub(r.Ended))
		}
	}
}

// repetitions counts the executions of a dispatch beyond its first one, which
// an unsafe call must not have.
func (c *cluster) repetitions(calls []messages.Submission) int {
	c.t.Helper()
	type dispatch struct {
		call string
		n    int
	}
	seen, tool := map[dispatch]bool{}, map[string]string{}
	for _, s := range calls {
		tool[s.Call] = s.Tool
	}
	repeated := 0
	for _, e := range c.executions() {
		d := dispatch{e.Call, e.Dispatch}
		if seen[d] {
			repeated++
			if tool[e.Call] == string(messages.Unsafe) {
				c.t.Errorf("dispatch %d of call %s of an unsafe tool ran again on %s", e.Dispatch, e.Call, e.Worker)
			}
		}
		seen[d] = true
	}
	return repeated
}
