//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// KillConfig says how brokers are killed under load, and nothing else is.
type KillConfig struct {
	Kills   int
	Queued  int           // calls that wait in CALLS at the first kill, at least
	Delayed int           // calls that wait in SCHEDULE at the first kill
	Work    time.Duration // of one call, in the mean
	Delay   time.Duration // of a delayed call, from so much to three times of it
}

// Killing is what happened to the brokers alone.
type Killing struct {
	At      []time.Time // each kill
	Queued  int         // messages in CALLS at the first
	Delayed int         // messages in SCHEDULE at the first
	Fallen  []string    // services that ended, though nobody hurt them
}

// What is submitted while a broker is killed, comes back and has come back.
const (
	loads   = 3
	perLoad = 20
)

// extra calls are queued for those that run before the first kill.
func (c KillConfig) queued() int { return c.Queued + c.Queued/4 }

func (c KillConfig) plan(seed uint64, nodes int) Plan {
	r := rand.New(rand.NewPCG(seed, 4))
	p := Plan{Config: Config{Seed: seed, Nodes: nodes, Faults: c.Kills}}
	for range c.Delayed {
		p.add(r, Order{Ms: 1, Fail: 1, RetryMs: int(between(r, c.Delay, 3*c.Delay).Milliseconds())}, messages.LaneHigh)
	}
	for range c.queued() + c.Kills*loads*perLoad {
		p.add(r, c.order(r), messages.LaneNormal)
	}
	p.Calls = len(p.Wishes)
	return p
}

// order is what most calls are made of while brokers are killed: work, some of
// it longer than a lease, some failing at first, some large.
func (c KillConfig) order(r *rand.Rand) Order {
	o := Order{Ms: int(between(r, c.Work/2, c.Work*3/2).Milliseconds())}
	switch n := r.IntN(100); {
	case n < 2:
		o.Ms = 2500 + r.IntN(1500)
	case n < 7:
		o.Fail = 1
	case n < 9:
		o.Bytes, o.Pad = 300_000, strings.Repeat("x", 200_000)
	}
	return o
}

func (p *Plan) add(r *rand.Rand, o Order, lane messages.Lane) {
	input, err := json.Marshal(o)
	if err != nil {
		panic(err) // a struct of numbers
	}
	tool := []string{"read", "idem", "keyed", "unsafe"}[r.IntN(4)]
	p.Wishes = append(p.Wishes, Wish{Call: messages.Submission{Ref: fmt.Sprintf("call-%d", len(p.Wishes)), Tool: tool, Input: input, Lane: lane}})
}

// KillBrokers is [Run] for brokers that are killed under load. Of a cluster it
// is the leader that is killed, of CALLS and of the records in turn.
func KillBrokers(ctx context.Context, c KillConfig, seed uint64, nodes int, dir, natsServer string) (History, error) {
	return try(ctx, c.plan(seed, nodes), dir, natsServer, Setup{Nodes: nodes}, func(t *trial, ctx context.Context) error { return t.killBrokers(ctx, c) })
}

func (t *trial) killBrokers(ctx context.Context, c KillConfig) error {
	background, stop := context.WithCancel(ctx)
	var side sync.WaitGroup
	defer side.Wait()
	defer stop()
	side.Go(func() { t.watchRecords(background) })

	names, k := t.history.Names, &t.history.Killing
	schedule := names.StreamName(messages.StreamSchedule)
	t.submitBetween(ctx, 0, c.Delayed)
	t.await(ctx, "calls are delayed", func() bool { return t.cluster.holds(ctx, schedule) >= c.Delayed })
	from := c.Delayed + c.queued()
	t.submitBetween(ctx, c.Delayed, from)
	k.Queued, k.Delayed = t.cluster.holds(ctx, names.StreamName(messages.StreamCalls)), t.cluster.holds(ctx, schedule)

	r := rand.New(rand.NewPCG(t.plan.Seed, 5))
	led := []string{names.StreamName(messages.StreamCalls), "KV_" + names.BucketName(messages.BucketAttempts)}
	for i := range c.Kills {
		if err := t.killLeader(ctx, r, led[i%len(led)], from); err != nil {
			return err
		}
		from += loads * perLoad
	}
	err := t.settle(ctx)
	k.Fallen = t.cluster.fallen()
	return err
}

// submitBetween submits the calls from one to another, several portions at once.
func (t *trial) submitBetween(ctx context.Context, from, to int) {
	var all sync.WaitGroup
	room := make(chan struct{}, 8)
	for i := from; i < to; i += portion {
		room <- struct{}{}
		all.Go(func() {
			t.submit(ctx, i, min(i+portion, to))
			<-room
		})
	}
	all.Wait()
}

// killLeader kills the broker that leads a stream while calls are submitted,
// and waits until the pool works again.
func (t *trial) killLeader(ctx context.Context, r *rand.Rand, stream string, from int) error {
	target, err := t.cluster.leader(ctx, stream)
	if err != nil {
		return err
	}
	f := Fault{Kind: Kill, Target: target, For: between(r, 200*time.Millisecond, 3*time.Second)}
	t.cluster.log.Info("strikes", "fault", f, "leads", stream)
	var load sync.WaitGroup
	for i := range loads {
		load.Go(func() {
			pause(ctx, time.Duration(i)*f.For)
			t.submit(ctx, from+i*perLoad, from+(i+1)*perLoad)
		})
	}
	t.history.Killing.At = append(t.history.Killing.At, time.Now())
	t.history.Struck[Kill]++
	if err := t.cluster.processes[target].strike(ctx, f); err != nil {
		return err
	}
	before, _ := t.results(ctx)
	t.await(ctx, "results come again", func() bool { n, ok := t.results(ctx); return ok && n > before })
	load.Wait()
	t.await(ctx, "all brokers are sound", func() bool {
		return !slices.ContainsFunc(t.cluster.monitors, func(m string) bool { return !healthy(ctx, m) })
	})
	return ctx.Err()
}

func (t *trial) results(ctx context.Context) (uint64, bool) {
	n, err := t.cluster.pool.LastSequence(ctx, messages.StreamResults)
	return n, err == nil
}

// await waits for what has to come; where it does not, the checker finds what
// is left.
func (t *trial) await(ctx context.Context, what string, come func() bool) {
	for began := time.Now(); !come() && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		if time.Since(began) > patience {
			t.cluster.log.Error("waited in vain", "for", what)
			return
		}
	}
}

// fallen names the services that have ended since they were first started.
func (c *cluster) fallen() []string {
	var out []string
	for name, p := range c.processes {
		if !strings.HasPrefix(name, "broker") && (p.starts > 1 || !p.running()) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
