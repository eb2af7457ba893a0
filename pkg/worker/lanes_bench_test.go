//go:build unix

package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The measurements behind docs/adr/0001-fetch-from-lanes.md, on an embedded
// server:
//
//	go test -run '^$' -bench Lanes -benchtime 1x ./pkg/worker
//
// rotation and shares are the two other ways that were measured.

// rotation has one request under way at a time: each lane in turn without
// waiting, the most deserving first, and when all were empty a short wait on
// one, chosen by credit.
type rotation struct {
	lanes
	asking bool
	empty  int // lanes found empty in a row
	next   int
}

const rotationWait = 25 * time.Millisecond

func (r *rotation) plan(_ time.Time, free, _ int) []ask {
	if r.asking || free <= 0 {
		return nil
	}
	r.asking = true
	if r.empty == len(r.all) {
		r.empty = 0
		return []ask{{lane: r.byCredit(), max: 1, wait: rotationWait}}
	}
	if r.empty == 0 {
		r.next = r.byCredit()
	} else {
		r.next = (r.next + 1) % len(r.all)
	}
	return []ask{{lane: r.next, max: free}}
}

func (r *rotation) byCredit() int {
	best, total := 0, 0
	for i := range r.all {
		r.all[i].credit += r.all[i].weight
		total += r.all[i].weight
		if r.all[i].credit > r.all[best].credit {
			best = i
		}
	}
	r.all[best].credit -= total
	return best
}

func (r *rotation) answered(_ int, more bool) {
	r.asking = false
	if r.empty++; more {
		r.empty = 0
	}
}

func (r *rotation) failed(lane int, _ time.Time) { r.answered(lane, false) }

// shares has a standing request on every lane at all times while a slot is
// free, each for the lane's share of the free slots, rounded up.
type shares struct{ lanes }

func (s *shares) plan(now time.Time, free, _ int) []ask {
	if free <= 0 {
		return nil
	}
	total := 0
	for i := range s.all {
		total += s.all[i].weight
	}
	var asks []ask
	for i := range s.all {
		if l := &s.all[i]; l.ready(now) {
			l.asking = true
			asks = append(asks, ask{lane: i, max: (free*l.weight + total - 1) / total, wait: standingWait})
		}
	}
	return asks
}

func choosers() map[string]func([]string) chooser {
	return map[string]func([]string) chooser{
		"standing": func(q []string) chooser { return newLanes(q) },
		"rotation": func(q []string) chooser { return &rotation{lanes: *newLanes(q)} },
		"shares":   func(q []string) chooser { return &shares{lanes: *newLanes(q)} },
	}
}

// bench is a pool with one worker whose tool reports when it is called.
type bench struct {
	b      *testing.B
	pool   *jetstream.Pool
	w      *Worker
	called chan time.Time
	held   atomic.Int64 // the most calls ever held beyond the slots
}

func newBench(b *testing.B, slots int, choose func([]string) chooser, work time.Duration) *bench {
	x := &bench{b: b, pool: natstest.Start(b), called: make(chan time.Time, 1<<16)}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		_ = x.pool.Serve(ctx, messages.EndpointOffer, nil, func(context.Context, []byte) []byte {
			reply, _ := messages.EncodeService(messages.OfferReply{})
			return reply
		})
	})
	b.Cleanup(func() { cancel(); served.Wait() })
	if err := x.pool.EnsureQueue(ctx, "default"); err != nil {
		b.Fatal(err)
	}
	noop := tool.Raw("noop", nil, func(context.Context, tool.Call) (tool.Output, error) {
		x.called <- time.Now()
		x.note()
		if work > 0 {
			<-time.After(work)
		}
		return tool.Output{Body: []byte("ok")}, nil
	})
	var err error
	x.w, err = New(Config{Broker: x.pool, Tools: []*tool.Tool{noop}, Slots: slots, Lease: natstest.Lease})
	if err != nil {
		b.Fatal(err)
	}
	x.w.choose = choose
	return x
}

func (x *bench) note() {
	for h := x.w.counts.held.Load(); ; {
		if most := x.held.Load(); h <= most || x.held.CompareAndSwap(most, h) {
			return
		}
	}
}

func (x *bench) start() {
	if err := x.w.Start(context.Background()); err != nil {
		x.b.Fatal(err)
	}
	x.b.Cleanup(func() { _ = x.w.Stop(context.Background()) })
	for deadline := time.After(20 * time.Second); ; {
		select {
		case <-x.w.Started():
			return
		case <-deadline:
			x.b.Fatalf("the worker did not start: %v", x.w.Err())
		}
	}
}

func (x *bench) call(lane messages.Lane) messages.Message {
	id := messages.NewCallID()
	return x.pool.Names().EncodeCall(messages.Call{
		ID: id, Run: messages.UnnamedRun(id), Tool: "noop", Queue: "default", Lane: lane,
		Effect: messages.Idempotent, Key: id, Input: messages.Body{Inline: make([]byte, 1024)},
	})
}

func (x *bench) publish(lanes ...messages.Lane) {
	ms := make([]messages.Message, len(lanes))
	for i, l := range lanes {
		ms[i] = x.call(l)
	}
	for chunk := range slices.Chunk(ms, 256) {
		for _, err := range x.pool.PublishAll(context.Background(), chunk) {
			if err != nil {
				x.b.Fatal(err)
			}
		}
	}
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
}

// scaled is n, or a twentieth of it under -short, which only shows that the
// benchmarks still run.
func scaled(n int) int {
	if testing.Short() {
		return max(n/20, 1)
	}
	return n
}

// BenchmarkLanesLoneCall: publish to start of the tool, in an idle pool.
func BenchmarkLanesLoneCall(b *testing.B) {
	for name, choose := range choosers() {
		for _, slots := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/slots=%d", name, slots), func(b *testing.B) {
				x := newBench(b, slots, choose, 0)
				x.start()
				var took []time.Duration
				for range b.N * scaled(300) {
					<-time.After(time.Duration(5+rand.IntN(20)) * time.Millisecond)
					lane := messages.Lanes()[rand.IntN(4)]
					from := time.Now()
					x.publish(lane)
					took = append(took, (<-x.called).Sub(from))
				}
				report(b, took)
			})
		}
	}
}

// BenchmarkLanesBehindFlood: a high call while the normal lane never runs dry
// with calls of 2 ms.
func BenchmarkLanesBehindFlood(b *testing.B) {
	for name, choose := range choosers() {
		for _, slots := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/slots=%d", name, slots), func(b *testing.B) {
				x := newBench(b, slots, choose, 2*time.Millisecond)
				var high sync.Map
				x.w.serving.Load().tools["urgent"] = tool.Raw("urgent", nil, func(_ context.Context, c tool.Call) (tool.Output, error) {
					from, _ := high.LoadAndDelete(c.ID)
					x.called <- time.Now()
					return tool.Output{Body: []byte(time.Since(from.(time.Time)).String())}, nil
				})
				x.publish(slices.Repeat([]messages.Lane{messages.LaneNormal}, scaled(min(slots*2000, 60_000)))...)
				x.start()
				var took []time.Duration
				for range b.N * scaled(100) {
					<-time.After(10 * time.Millisecond)
					took = append(took, x.urgent(&high))
				}
				report(b, took)
				b.ReportMetric(float64(x.held.Load()), "overshoot")
			})
		}
	}
}

func (x *bench) urgent(high *sync.Map) time.Duration {
	id := messages.NewCallID()
	m := x.pool.Names().EncodeCall(messages.Call{
		ID: id, Run: messages.UnnamedRun(id), Tool: "urgent", Queue: "default", Lane: messages.LaneHigh,
		Effect: messages.Idempotent, Key: id, Input: messages.Text("{}"),
	})
	high.Store(id, time.Now())
	if err := x.pool.Publish(context.Background(), m); err != nil {
		x.b.Fatal(err)
	}
	for {
		s, err := x.pool.Get(context.Background(), x.pool.Names().ResultSubject(messages.UnnamedRun(id), id))
		if err == nil {
			d, _ := time.ParseDuration(string(s.Body))
			return d
		}
		<-time.After(time.Millisecond)
	}
}

// BenchmarkLanesThroughput: a backlog of no-op calls, in one lane or in all.
func BenchmarkLanesThroughput(b *testing.B) {
	for name, choose := range choosers() {
		for _, slots := range []int{1, 8, 64} {
			for _, in := range []string{"normal", "all"} {
				b.Run(fmt.Sprintf("%s/slots=%d/lanes=%s", name, slots, in), func(b *testing.B) {
					x := newBench(b, slots, choose, 0)
					n := b.N * scaled(min(2000*slots, 10_000))
					lanes := make([]messages.Lane, n)
					for i := range lanes {
						if lanes[i] = messages.LaneNormal; in == "all" {
							lanes[i] = messages.Lanes()[i%4]
						}
					}
					x.publish(lanes...)
					b.ResetTimer()
					cpu := cpuTime()
					x.start()
					for range n {
						<-x.called
					}
					for x.w.Stats().Succeeded < int64(n) {
						<-time.After(time.Millisecond)
					}
					b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
					b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(n), "cpu-us/call")
					b.ReportMetric(float64(x.held.Load()), "overshoot")
				})
			}
		}
	}
}

// cpuTime is what this process, server and all, has used: it compares ways on
// a machine that does other things too.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
