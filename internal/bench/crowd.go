package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The scenarios with many calls that wait: delayed, parked, queued, failed.

// slice is how many calls are made ready and submitted at a time.
const slice = 20_000

// queue submits n calls of a tool, without waiting for them.
func (r *rig) queue(ctx context.Context, n int, body []byte, tool string) error {
	for n > 0 {
		j, err := r.job(min(n, slice), body, always(tool))
		if err == nil {
			err = j.submit(ctx)
		}
		if err != nil {
			return err
		}
		n -= len(j.calls)
	}
	return nil
}

// until asks again until it is so.
func until(ctx context.Context, what string, so func() (bool, error)) error {
	for {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// freshRate is at which rate calls come that others should not slow down.
const freshRate = 200

// fresh measures calls that come while something else is or is not there.
func (e *env) fresh(ctx context.Context, calls int) ([]lap, error) {
	return e.alone(ctx, calls, func(l *lap) (task, error) {
		return atRate(calls, freshRate, e.rig.caller(e.body()), l), nil
	})
}

// delayed fails with an hour to wait; parked is not known to have done nothing.
func delayedAndParked() []*tool.Tool {
	return append(noops(),
		tool.Raw("delayed", noopSchema, func(context.Context, tool.Call) (tool.Output, error) {
			return tool.Output{}, tool.RateLimited(errors.New("too many requests"), time.Hour)
		}, tool.Effect(messages.ReadOnly), tool.Queue("waiting")),
		tool.Raw("parked", noopSchema, func(context.Context, tool.Call) (tool.Output, error) {
			return tool.Output{}, tool.Ambiguous(errors.New("the answer was lost"))
		}, tool.Effect(messages.Unsafe), tool.Queue("waiting")),
	)
}

func waiting(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	delayed, parked, calls := e.n(100_000, 100), e.n(10_000, 20), e.calls(1000, 50)
	policy := `{"pool":{"ask_user":"park","breaker":"off"}}`
	err := e.on(ctx, rigConfig{tools: delayedAndParked(), policies: policy, noRaw: true}, func() error {
		before, err := e.fresh(ctx, calls)
		if err != nil {
			return err
		}
		ours, broker, err := e.held(ctx, e.rig)
		if err != nil {
			return err
		}
		e.say("  %d calls are delayed, %d parked", delayed, parked)
		if err := e.rig.queue(ctx, delayed, e.body(), "delayed"); err != nil {
			return err
		}
		if err := e.rig.allScheduled(ctx, delayed); err != nil {
			return err
		}
		oursNow, brokerNow, err := e.held(ctx, e.rig)
		if err != nil {
			return err
		}
		if err := e.rig.queue(ctx, parked, e.body(), "parked"); err != nil {
			return err
		}
		if err := e.rig.allScheduled(ctx, delayed+parked); err != nil { // a parked call has its answer-by
			return err
		}
		after, err := e.fresh(ctx, calls)
		r.add("delayed", float64(delayed))
		r.add("parked", float64(parked))
		r.latency("", after)
		r.latency("before_", before)
		p99, _ := r.Value("p99_ms")
		was, _ := r.Value("before_p99_ms")
		r.add("p99_change", over([]float64{p99}, []float64{was})...)
		r.add("server_heap_per_delayed_call", growth(broker, brokerNow, delayed))
		r.add("client_heap_per_delayed_call", growth(ours, oursNow, delayed))
		r.most("p99_change", 1.2)
		r.most("server_heap_per_delayed_call", 2048)
		r.most("client_heap_per_delayed_call", 64) // 0, but for what a garbage collector leaves
		return err
	})
	return []*Report{r}, err
}

// held is what this process and the brokers hold when nothing has happened for a while: a
// broker keeps the blocks that it wrote last in memory for some seconds, which is
// more than what it keeps of the calls in them.
func (e *env) held(ctx context.Context, r *rig) (ours, brokers usage, err error) {
	const quiet = 5 // seconds without less
	for least, since := uint64(math.MaxUint64), 0; since < quiet; since++ {
		if ours, brokers, err = r.usage(settled); err != nil || e.o.Short {
			return ours, brokers, err
		}
		if heap := ours.Heap + brokers.Heap; heap < least-least/100 {
			least, since = heap, 0
		}
		if err := wait(ctx, time.Second); err != nil {
			return ours, brokers, err
		}
	}
	return ours, brokers, nil
}

// growth is by how many bytes of heap a process grew for each of n.
func growth(before, after usage, n int) float64 {
	return max(0, float64(int64(after.Heap)-int64(before.Heap))/float64(n))
}

// allScheduled returns when n schedules wait in SCHEDULE.
func (r *rig) allScheduled(ctx context.Context, n int) error {
	return until(ctx, "schedules", func() (bool, error) {
		have, err := r.broker.Count(ctx, messages.StreamSchedule, "")
		return have >= uint64(n), err
	})
}

// gate is a tool that runs as often as it has been let.
type gate struct{ passes chan struct{} }

func newGate(room int) *gate { return &gate{make(chan struct{}, room)} }

func (g *gate) let(n int) {
	for range n {
		g.passes <- struct{}{}
	}
}

func (g *gate) tool() *tool.Tool {
	return tool.Raw("gated", noopSchema, func(ctx context.Context, c tool.Call) (tool.Output, error) {
		select {
		case <-g.passes:
			return tool.Output{Body: c.Input}, nil
		case <-ctx.Done():
			return tool.Output{}, context.Cause(ctx)
		}
	}, tool.Effect(messages.ReadOnly), tool.Queue("default"), tool.Timeout(time.Hour))
}

// crowd is a pool with a queue whose calls are let through in counted numbers.
type crowd struct {
	rig   *rig
	gate  *gate
	ended atomic.Int64
	wake  chan struct{}
}

// drain lets n calls through and returns when their results are here.
func (c *crowd) drain(ctx context.Context, n int) error {
	goal := c.ended.Load() + int64(n)
	c.gate.let(n)
	for c.ended.Load() < goal {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// follow counts the results until ctx is done.
func (c *crowd) follow(ctx context.Context) error {
	err := c.rig.client.Results(ctx, client.Query{}, func(messages.Result) error {
		c.ended.Add(1)
		select {
		case c.wake <- struct{}{}:
		default:
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// backlog compares two pools in turns, one with a short queue and one with a
// long one behind the calls that are drained.
func backlog(ctx context.Context, e *env) ([]*Report, error) {
	few := e.n(1000, 50)
	for _, many := range []int{e.n(100_000, 200), e.n(1_000_000, 400)} {
		r := e.report(plural(many, "queued call"))
		calls := e.calls(10_000, 100)
		all := calls * (e.repetitions() + 1)
		err := e.crowded(ctx, all, few, func(small *crowd) error {
			return e.crowded(ctx, all, many, func(big *crowd) error { return e.drains(ctx, r, calls, big, small) })
		})
		if err != nil {
			return nil, err
		}
		r.ratioIsLeast(0.9)
		r.most("progress_ms", 200)
		if err := e.done(r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (e *env) crowded(ctx context.Context, drained, behind int, do func(*crowd) error) error {
	c := &crowd{gate: newGate(drained), wake: make(chan struct{}, 1)}
	return e.on(ctx, rigConfig{tools: []*tool.Tool{c.gate.tool()}, noRaw: true}, func() (err error) {
		c.rig = e.rig
		e.say("  %d calls are queued", drained+behind)
		if err := e.rig.queue(ctx, drained+behind, e.body(), "gated"); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		followed := make(chan error, 1)
		go func() { followed <- c.follow(ctx) }()
		defer func() {
			stop()
			err = errors.Join(err, <-followed)
		}()
		return do(c)
	})
}

func (e *env) drains(ctx context.Context, r *Report, calls int, big, small *crowd) error {
	_, full, err := e.held(ctx, big.rig)
	if err != nil {
		return err
	}
	way := func(c *crowd) func(*lap) (task, error) {
		return func(*lap) (task, error) {
			e.rig = c.rig
			return func(ctx context.Context) error { return c.drain(ctx, calls) }, nil
		}
	}
	o, w, err := e.turns(ctx, calls, way(big), way(small))
	if err != nil {
		return err
	}
	_, lean, err := e.held(ctx, small.rig)
	if err != nil {
		return err
	}
	rate := func(l lap) float64 { return l.rate() }
	r.add("calls_per_s", each(o, rate)...)
	r.add("few_queued_per_s", each(w, rate)...)
	r.add("ratio", over(each(o, rate), each(w, rate))...)
	took, err := big.rig.progress(ctx)
	r.add("progress_ms", took...)
	r.costs(o, w)
	have, perr := big.rig.broker.Count(ctx, messages.StreamCalls, "")
	r.add("server_heap_per_queued_call", growth(lean, full, max(1, int(have))))
	return errors.Join(err, perr)
}

// progress asks several times how many results there are, and gives the times
// in milliseconds.
func (r *rig) progress(ctx context.Context) (ms []float64, err error) {
	for range 5 {
		begun := time.Now()
		if _, err := r.broker.Count(ctx, messages.StreamResults, r.broker.Names().ResultsFilter("")); err != nil {
			return nil, err
		}
		ms = append(ms, float64(time.Since(begun).Microseconds())/1000)
	}
	return ms, nil
}

func burst(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	failures, calls := e.n(10_000, 100), e.calls(1000, 40)
	tools := append(noops(), failsOnce("flaky"))
	err := e.on(ctx, rigConfig{tools: tools, policies: `{"pool":{"breaker":"off"}}`, noRaw: true}, func() error {
		before, err := e.fresh(ctx, calls)
		if err != nil {
			return err
		}
		var took []float64
		during, err := e.alone(ctx, calls, func(l *lap) (task, error) {
			j, err := e.rig.job(failures, e.body(), always("flaky"))
			return func(ctx context.Context) error {
				failing := make(chan error, 1)
				begun := time.Now()
				go func() { failing <- e.rig.run(ctx, j, nil) }()
				err := atRate(calls, freshRate, e.rig.caller(e.body()), l)(ctx)
				err = errors.Join(err, <-failing)
				took = append(took, float64(failures)/time.Since(begun).Seconds())
				return err
			}, err
		})
		r.add("failures", float64(failures))
		r.add("recovered_per_s", took...)
		r.latency("", during)
		r.latency("before_", before)
		return err
	})
	return []*Report{r}, err
}

func restart(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	results, queued := e.n(1_000_000, 200), e.n(100_000, 50)
	tools := append(noops(), echo("other", "other"))
	err := e.on(ctx, rigConfig{tools: tools, noRaw: true}, func() error {
		if err := e.rig.keepResults(ctx, results, e.body()); err != nil {
			return err
		}
		if err := e.rig.stopWorkers(); err != nil {
			return err
		}
		if err := e.rig.queue(ctx, queued, e.body(), "other"); err != nil {
			return err
		}
		e.rig.cfg.tools = noops() // the queue stays as it is
		var ready, broker []float64
		for range e.repetitions() {
			brokerReady, allReady, err := e.rig.again(ctx)
			if err != nil {
				return err
			}
			e.say("  ready after %v", allReady.Round(time.Millisecond))
			broker = append(broker, float64(brokerReady.Milliseconds()))
			ready = append(ready, float64(allReady.Milliseconds()))
		}
		ours, brokers, err := e.held(ctx, e.rig)
		r.add("results", float64(results))
		r.add("queued", float64(queued))
		r.add("ready_ms", ready...)
		r.add("broker_ready_ms", broker...)
		r.held(ours, brokers)
		r.most("ready_ms", 3000)
		r.most("client_heap_mib", 64)
		return err
	})
	return []*Report{r}, err
}

// keepResults stores results as workers would.
func (r *rig) keepResults(ctx context.Context, n int, body []byte) error {
	names, run := r.broker.Names(), messages.NamedRun("old")
	for n > 0 {
		ms := make([]messages.Message, min(n, slice))
		for i := range ms {
			ms[i] = names.EncodeResult(messages.Result{
				Call: messages.NewCallID(), Run: run, Tool: noop, Status: messages.Succeeded, Attempts: 1, Worker: "worker",
				Ended: time.Now(), Output: messages.Body{Inline: body},
			})
		}
		if err := errors.Join(r.broker.PublishAll(ctx, ms)...); err != nil {
			return err
		}
		n -= len(ms)
	}
	return nil
}

// again stops everything cleanly and starts it on the same folder; all is ready
// when a fresh call has its result.
func (r *rig) again(ctx context.Context) (broker, all time.Duration, err error) {
	if err := r.stopOurs(); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := r.startBrokers(ctx); err != nil {
		return 0, 0, err
	}
	broker = time.Since(begun)
	if err := r.startParts(ctx); err != nil {
		return 0, 0, err
	}
	err = r.caller(input(1024))(ctx)
	return broker, time.Since(begun), err
}
