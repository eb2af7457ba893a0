package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Short calls are fetched several at a time, also with a single slot, and still
// run one after the other.
func TestShortCallsAreAskedForAhead(t *testing.T) {
	for _, c := range []struct {
		name         string
		takes        time.Duration
		fewest, most int // fetches
	}{{"short", time.Millisecond, 1, 12}, {"long", 10 * time.Millisecond, 20, 30}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				const calls = 20
				running, beside := 0, 0
				x := counted("x", func(context.Context, tool.Call) ([]byte, error) {
					running++
					beside = max(beside, running)
					<-time.After(c.takes)
					running--
					return nil, nil
				})
				cfg := r.config(x.Tool)
				cfg.Slots = 1
				w := r.start(cfg)
				for range calls {
					r.publish(r.call("x"))
				}
				pass(time.Second)
				r.allAcked()
				if n := w.broker.Count(memory.OpFetch, ">"); x.ran() != calls || beside != 1 || n < c.fewest || n > c.most {
					t.Errorf("%d fetches for %d executions, %d side by side", n, x.ran(), beside)
				}
			})
		})
	}
}

// What was fetched ahead and meets a long call is soon in other hands.
func TestCallsFetchedAheadDoNotWaitForALongOne(t *testing.T) {
	bubble(t, func(r *rig) {
		published := make(chan struct{}, 1)
		short := counted("short", func(context.Context, tool.Call) ([]byte, error) { <-published; return nil, nil })
		long := counted("long", func(context.Context, tool.Call) ([]byte, error) { <-time.After(20 * time.Second); return nil, nil })
		cfg := r.config(short.Tool, long.Tool)
		cfg.Slots = 1
		first := r.start(cfg)
		published <- struct{}{}
		r.publish(r.call("short"))
		synctest.Wait() // from now on calls are known to be short
		r.publish(r.call("short"))
		synctest.Wait()            // this one holds the slot until the others wait in the lane
		r.publish(r.call("short")) // is fetched alone, and tells of those behind it
		r.publish(r.call("long"))
		var behind []messages.Call
		for range 3 {
			behind = append(behind, r.call("short"))
			r.publish(behind[len(behind)-1])
		}
		close(published)
		synctest.Wait()
		if s := first.Stats(); s.Running != 1 || s.Held == 0 {
			t.Fatalf("nothing is held behind the long call: %+v", s)
		}
		second := r.config(short.Tool, long.Tool)
		second.Name = "w2"
		r.start(second)
		pass(100 * time.Millisecond)
		for _, c := range behind {
			if res := r.result(c); res.Worker != "w2" || res.Status != messages.Succeeded {
				t.Errorf("%s by %s", res.Status, res.Worker)
			}
		}
		if short.ran() != 6 || long.ran() != 1 {
			t.Errorf("ran %d short ones and %d long ones", short.ran(), long.ran())
		}
	})
}

// While results are being stored other calls run, a few, so that a store that
// does not answer leaves the rest to other workers.
func TestAResultThatIsBeingStoredHoldsNoSlot(t *testing.T) {
	bubble(t, func(r *rig) {
		const calls, mostStoring = 10, 3
		x := counted("x", echo)
		cfg := r.config(x.Tool)
		h := &hooked{Broker: r.admin.Peer()}
		stored := make(chan struct{})
		h.beforePut = func(string) { <-stored }
		cfg.Broker, cfg.Slots, cfg.HoldLimit = h, 1, 10*time.Millisecond
		r.start(cfg)
		for range calls {
			r.publish(r.call("x"))
		}
		pass(time.Second)
		if x.ran() != 1+mostStoring {
			t.Errorf("%d calls ran while no result was stored", x.ran())
		}
		if waiting, _ := r.left(); waiting == 0 {
			t.Error("all calls are in the hands of one worker")
		}
		close(stored)
		pass(time.Second)
		r.allAcked()
		if x.ran() != calls {
			t.Errorf("ran %d times", x.ran())
		}
	})
}
