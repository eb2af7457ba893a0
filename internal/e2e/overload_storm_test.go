//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// heavy runs what `make overload` runs: the same tests with more of everything.
var heavy = os.Getenv("MULLIGAN_OVERLOAD") != ""

// scaled is n, or more of it in a heavy run.
func scaled(n int) int {
	if heavy {
		return 5 * n
	}
	return n
}

// gather is a tool whose calls all end when so many of them run at once.
type gather struct {
	n       int32
	running atomic.Int32
	all     chan struct{}
}

func (g *gather) run(ctx context.Context, _ tool.Call) (tool.Output, error) {
	if g.running.Add(1) == g.n {
		close(g.all)
	}
	select {
	case <-g.all:
		return tool.Output{}, nil
	case <-ctx.Done():
		g.running.Add(-1)
		return tool.Output{}, context.Cause(ctx)
	}
}

// TestAStormOf500Workers kills the one broker below 500 workers with a connection
// and a slot each, and starts it again. All come back, each once; the registry
// has 500 fresh offers; what was in their hands ends, once; and in the end 500
// calls run at the same time, so that none of the workers has fallen silent.
func TestAStormOf500Workers(t *testing.T) {
	const workers = 500
	calls := make([]messages.Submission, scaled(3000))
	b := newBrokers(t, 1)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	for i := range 2 {
		c.run("coordinator", i, "--policy", c.noBreaker())
		c.run("reflector", i)
	}
	work := tool.Raw("work", nil, func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		select { // long enough that many are in hand when the broker goes
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return tool.Output{}, nil
	}, tool.Effect(messages.Idempotent))
	meeting := &gather{n: workers, all: make(chan struct{})}
	meet := tool.Raw("meet", nil, meeting.run, tool.Effect(messages.Idempotent))
	var starting sync.WaitGroup
	for i := range workers {
		starting.Go(func() { c.within(fmt.Sprintf("worker-%d", i), 1, work, meet) })
	}
	starting.Wait()
	c.serving(workers)

	for i := range calls {
		calls[i] = call("work", `{}`)
	}
	c.submit(calls)
	killed, old := false, uint64(0)
	var back time.Time
	e := c.results(calls, func(done int) {
		if killed || done < len(calls)/3 {
			return
		}
		killed = true
		for _, revision := range c.offers() {
			old = max(old, revision)
		}
		b.nodes[0].kill()
		b.nodes[0].up()
		back = time.Now()
	})
	if !killed {
		t.Fatal("nothing was killed")
	}
	for id, r := range e.results {
		if r.Status != messages.Succeeded || r.Attempts != 1 {
			t.Errorf("call %s ended %s after %d attempts: %s", id, r.Status, r.Attempts, r.Reason)
		}
	}
	c.once(calls)
	ended := time.Since(back)
	eventually(t, "every worker has renewed its offer", func() error {
		fresh := 0
		for _, revision := range c.offers() {
			if revision > old {
				fresh++
			}
		}
		if fresh != workers {
			return fmt.Errorf("%d of %d have", fresh, workers)
		}
		return nil
	})

	meetings := make([]messages.Submission, workers)
	for i := range meetings {
		meetings[i] = call("meet", `{}`)
	}
	c.submit(meetings)
	for id, r := range c.results(meetings, func(int) {}).results {
		if r.Status != messages.Succeeded {
			t.Errorf("call %s, which was to meet all others, ended %s: %s", id, r.Status, r.Reason)
		}
	}

	var v struct {
		Connections int
		Total       int `json:"total_connections"`
		SlowOnes    int `json:"slow_consumers"`
	}
	if err := b.nodes[0].ask("/varz", &v); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls of %d workers: all ended %v after the broker was started again, and %d connections took %d connects", len(calls), workers, ended.Round(time.Millisecond), v.Connections, v.Total)
	if v.Connections < workers || v.Total > v.Connections+v.Connections/2 || v.SlowOnes > 0 {
		t.Errorf("%d connections after %d connects, %d of them too slow", v.Connections, v.Total, v.SlowOnes)
	}
}

// offers are the keys of the offers that live, with their revisions.
func (c *cluster) offers() map[string]uint64 {
	c.t.Helper()
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	out := make(map[string]uint64)
	_ = c.pool.Watch(ctx, messages.BucketTools, "offer.>", cancel, func(e messages.Entry) { // ends with what is there
		if !e.Deleted {
			out[e.Key] = e.Revision
		}
	})
	return out
}
