package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/google/uuid"

	"mulligan/jetstream/raw"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The scenarios that measure single calls.

// caller makes one call and waits for its result.
type caller func(ctx context.Context) error

func (r *rig) caller(body []byte) caller { return r.callerOf(noop, body) }

func (r *rig) callerOf(tool string, body []byte) caller {
	return func(ctx context.Context) error {
		res, err := r.client.Call(ctx, messages.Submission{Tool: tool, Input: body, IsJSON: true})
		if err == nil && res.Status != messages.Succeeded {
			err = fmt.Errorf("call %s ended %s: %s", res.Call, res.Status, res.Reason)
		}
		return err
	}
}

// rawCaller makes one raw job; the reader is to be closed.
func (r *rig) rawCaller(ctx context.Context, body []byte) (caller, *raw.Caller, error) {
	run := messages.UnnamedRun(uuid.NewString())
	c, err := r.raw.Caller(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	spec := r.cfg.tools[0].Spec()
	return func(ctx context.Context) error {
		id := messages.NewCallID()
		return c.Call(ctx, r.broker.Names().EncodeCall(messages.Call{
			ID: id, Run: run, Tool: spec.Name, Queue: spec.Queue, Lane: messages.LaneNormal, Effect: messages.ReadOnly,
			Key: id, Input: messages.Body{Inline: body},
		}))
	}, c, nil
}

// inTurn makes n calls, each when the one before is done.
func inTurn(n int, call caller, l *lap) task {
	return func(ctx context.Context) error {
		for range n {
			begun := time.Now()
			if err := call(ctx); err != nil {
				return err
			}
			l.latencies = append(l.latencies, time.Since(begun))
		}
		return nil
	}
}

// atRate makes n calls that come at a rate a second, however long the earlier
// ones take; each is timed from the moment at which it was due.
func atRate(n, rate int, call caller, l *lap) task {
	return func(ctx context.Context) error {
		took := make([]time.Duration, n)
		g, ctx := errgroup.WithContext(ctx)
		begun := time.Now()
		for i := range n {
			due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
			if d := time.Until(due); d > 0 {
				if err := wait(ctx, d); err != nil {
					break // g has the cause
				}
			}
			g.Go(func() error {
				err := call(ctx)
				took[i] = time.Since(due)
				return err
			})
		}
		l.latencies = took
		return g.Wait()
	}
}

// times measures both ways with single calls.
func (e *env) times(ctx context.Context, r *Report, calls int, each_ func(call caller, l *lap) task) error {
	call, reader, err := e.rig.rawCaller(ctx, e.body())
	if err != nil {
		return err
	}
	defer reader.Close()
	o, w, err := e.turns(ctx, calls,
		func(l *lap) (task, error) { return each_(e.rig.caller(e.body()), l), nil },
		func(l *lap) (task, error) { return each_(call, l), nil })
	r.add("calls", float64(calls))
	r.add("calls_per_s", each(o, func(l lap) float64 { return l.rate() })...)
	r.add("raw_per_s", each(w, func(l lap) float64 { return l.rate() })...)
	r.latency("", o)
	r.latency("raw_", w)
	r.latencyRatios()
	r.costs(o, w)
	return err
}

func latency(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	calls := e.calls(2000, 50)
	err := e.on(ctx, rigConfig{}, func() error {
		err := e.times(ctx, r, calls, func(call caller, l *lap) task { return inTurn(calls, call, l) })
		r.most("p50_ratio", 1.8)
		r.most("p99_ratio", 2)
		r.most("allocs_per_call", 275)
		return err
	})
	return []*Report{r}, err
}

func offered(ctx context.Context, e *env) ([]*Report, error) {
	return nil, e.on(ctx, rigConfig{}, func() error {
		for _, rate := range []int{50, 1000, 5000} {
			calls := e.calls(4*rate, min(rate, 100))
			r := e.report(fmt.Sprintf("%d a second", rate))
			if err := e.times(ctx, r, calls, func(call caller, l *lap) task { return atRate(calls, rate, call, l) }); err != nil {
				return err
			}
			if rate == 1000 {
				r.most("p99_ratio", 3)
			}
			if err := e.done(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// laterBy is how long the calls of retry-later wait.
const laterBy = 2 * time.Second

// lateness notes when calls failed, and how late after their wait they ran again.
type lateness struct {
	mu     sync.Mutex
	failed map[string]time.Time
	late   []time.Duration
}

func (n *lateness) run(_ context.Context, c tool.Call) (tool.Output, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if c.Dispatch == 0 {
		n.failed[c.ID] = now
		return tool.Output{}, tool.RateLimited(fmt.Errorf("too many requests"), laterBy)
	}
	n.late = append(n.late, now.Sub(n.failed[c.ID])-laterBy)
	return tool.Output{Body: c.Input}, nil
}

// laterRate is at which rate failures come that nothing else is done beside.
const laterRate = 200

func retryLater(ctx context.Context, e *env) ([]*Report, error) {
	var notes lateness
	later := tool.Raw("later", noopSchema, notes.run, tool.Effect(messages.ReadOnly), tool.Queue("default"))
	// The hint is a floor; without jitter it is the delay.
	policy := `{"pool":{"initial_backoff_ms":1,"max_backoff_ms":1,"jitter":0,"breaker":"off"}}`
	cfg := rigConfig{tools: []*tool.Tool{later}, policies: policy, noRaw: true}
	return nil, e.on(ctx, cfg, func() error {
		calls := e.calls(1000, 50)
		err := e.lateness(ctx, fmt.Sprintf("%d a second", laterRate), calls, &notes, func(l *lap) (task, error) {
			return atRate(calls, laterRate, e.rig.callerOf("later", e.body()), l), nil
		})
		if err != nil {
			return err
		}
		calls = e.calls(2000, 50)
		return e.lateness(ctx, fmt.Sprintf("%d at once", calls), calls, &notes, func(*lap) (task, error) {
			j, err := e.rig.job(calls, e.body(), always("later"))
			return func(ctx context.Context) error { return e.rig.run(ctx, j, nil) }, err
		})
	})
}

// lateness reports how late the second attempts of calls begin.
func (e *env) lateness(ctx context.Context, name string, calls int, notes *lateness, way func(*lap) (task, error)) error {
	laps, err := e.alone(ctx, calls, func(l *lap) (task, error) {
		notes.failed, notes.late = make(map[string]time.Time), nil
		do, err := way(l)
		return func(ctx context.Context) error {
			err := do(ctx)
			l.latencies = notes.late
			return err
		}, err
	})
	if err != nil {
		return err
	}
	early := 0
	for _, l := range laps {
		for _, d := range l.latencies {
			if d < 0 {
				early++
			}
		}
	}
	r := e.report(name)
	r.add("calls", float64(calls))
	r.add("calls_per_s", each(laps, func(l lap) float64 { return l.rate() })...)
	r.latency("late_", laps)
	r.add("early", float64(early))
	r.costs(laps, nil)
	r.most("late_p99_ms", 300)
	r.most("early", 0)
	return e.done(r)
}
