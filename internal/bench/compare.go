package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// The scenarios that compare rates with the raw pipeline.

func noops() []*tool.Tool { return []*tool.Tool{echo(noop, "default")} }

// pipelines measures both ways from the first publish to the last result.
func (e *env) pipelines(ctx context.Context, r *Report, calls int, tool string) error {
	ours := func(*lap) (task, error) {
		j, err := e.rig.job(calls, e.body(), always(tool))
		return func(ctx context.Context) error { return e.rig.run(ctx, j, nil) }, err
	}
	raw := func(*lap) (task, error) { return e.rig.rawBatch(calls, e.body()).Run, nil }
	o, w, err := e.turns(ctx, calls, ours, raw)
	r.compared(o, w)
	return err
}

func throughput(ctx context.Context, e *env) ([]*Report, error) {
	slots := e.o.Slots
	if len(slots) == 0 {
		slots = []int{64}
	}
	for _, n := range slots {
		r := e.report(plural(n, "slot"))
		err := e.on(ctx, rigConfig{slots: n}, func() error {
			return e.pipelines(ctx, r, e.calls(min(20_000, 4000+1000*n), 200), noop)
		})
		if err != nil {
			return nil, err
		}
		if n == 1 || n == 64 {
			r.ratioIsLeast(0.8)
		}
		if n == 64 {
			r.most("cpu_ratio", 1.4)
			r.most("allocs_per_call", 135)
		}
		if err := e.done(r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// submit is measured without workers; what was queued is forgotten between the laps.
func submit(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	calls := e.calls(20_000, 300)
	err := e.on(ctx, rigConfig{}, func() error {
		if err := e.rig.stopWorkers(); err != nil {
			return err
		}
		ours := func(*lap) (task, error) {
			if err := e.rig.raw.Clear(ctx); err != nil {
				return nil, err
			}
			j, err := e.rig.job(calls, e.body(), always(noop))
			return j.submit, err
		}
		raw := func(*lap) (task, error) {
			return e.rig.rawBatch(calls, e.body()).Publish, e.rig.raw.Clear(ctx)
		}
		o, w, err := e.turns(ctx, calls, ours, raw)
		r.compared(o, w)
		r.ratioIsLeast(0.45)
		return err
	})
	return []*Report{r}, err
}

// recoverAtOnce lets calls that failed come back after a millisecond.
const recoverAtOnce = `{"pool":{"initial_backoff_ms":1,"max_backoff_ms":1,"jitter":0,"breaker":"off"}}`

// failsOnce is a tool whose first execution of a call says that it cannot be
// used for now, which the rules answer by trying again.
func failsOnce(name string) *tool.Tool {
	return tool.Raw(name, noopSchema, func(_ context.Context, c tool.Call) (tool.Output, error) {
		if c.Dispatch == 0 {
			return tool.Output{}, fmt.Errorf("upstream answered 503: temporarily unavailable")
		}
		return tool.Output{Body: c.Input}, nil
	}, tool.Effect(messages.ReadOnly), tool.Queue("default"))
}

func retryNow(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	err := e.on(ctx, rigConfig{tools: []*tool.Tool{failsOnce("flaky")}, policies: recoverAtOnce}, func() error {
		err := e.pipelines(ctx, r, e.calls(5000, 100), "flaky")
		r.ratioIsLeast(0.2)
		return err
	})
	return []*Report{r}, err
}

// large is a tool whose output is as long as its input and not the same.
func large() *tool.Tool {
	return tool.Raw("large", noopSchema, func(_ context.Context, c tool.Call) (tool.Output, error) {
		return tool.Output{Body: append([]byte("answer "), c.Input...)}, nil
	}, tool.Effect(messages.ReadOnly), tool.Queue("default"))
}

func payload(ctx context.Context, e *env) ([]*Report, error) {
	for _, size := range []struct {
		name               string
		bytes, full, short int
	}{{"16 KiB", 16 << 10, 5000, 50}, {"256 KiB", 256 << 10, 400, 4}, {"4 MiB", 4 << 20, 25, 2}} {
		r := e.report(size.name)
		err := e.on(ctx, rigConfig{tools: []*tool.Tool{large()}}, func() error {
			return e.bodies(ctx, r, e.calls(size.full, size.short), size.bytes)
		})
		if err != nil {
			return nil, err
		}
		if err := e.done(r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// bodies measures calls each of which has an input of its own, and whose output
// is fetched.
func (e *env) bodies(ctx context.Context, r *Report, calls, size int) error {
	ours := func(*lap) (task, error) {
		j, err := e.rig.job(calls, nil, always("large"))
		for i := range j.calls {
			own := bytes.Clone(input(size))
			copy(own[len(`{"p":"`):], j.calls[i].Call)
			j.calls[i].Input = own
		}
		return func(ctx context.Context) error {
			return e.rig.run(ctx, j, func(res messages.Result) error {
				_, err := e.rig.client.Output(ctx, res)
				return err
			})
		}, err
	}
	raw := func(*lap) (task, error) { return e.rig.rawBatch(calls, input(size)).Run, nil }
	o, w, err := e.turns(ctx, calls, ours, raw)
	r.compared(o, w)
	return err
}

func cluster(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("3 brokers")
	err := e.on(ctx, rigConfig{brokers: 3}, func() error { return e.pipelines(ctx, r, e.calls(5000, 100), noop) })
	return []*Report{r}, err
}

func durable(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	err := e.on(ctx, rigConfig{always: true}, func() error { return e.pipelines(ctx, r, e.calls(3000, 100), noop) })
	return []*Report{r}, err
}

// manyTools compares two pools of ours, each with a broker of its own.
func manyTools(ctx context.Context, e *env) ([]*Report, error) {
	r := e.report("")
	calls := e.calls(20_000, 300)
	var tools []*tool.Tool
	for i := range 100 {
		tools = append(tools, echo(fmt.Sprintf("tool-%d", i), fmt.Sprintf("queue-%d", i%20)))
	}
	err := e.on(ctx, rigConfig{noRaw: true}, func() error {
		one := e.rig
		return e.on(ctx, rigConfig{tools: tools, noRaw: true}, func() error {
			many := e.rig
			measure := func(on *rig, tool func(int) string) func(*lap) (task, error) {
				return func(*lap) (task, error) {
					e.rig = on // whose broker is asked for its usage
					j, err := on.job(calls, e.body(), tool)
					return func(ctx context.Context) error { return on.run(ctx, j, nil) }, err
				}
			}
			o, w, err := e.turns(ctx, calls, measure(many, func(i int) string { return tools[i%len(tools)].Name() }), measure(one, always(noop)))
			rate := func(l lap) float64 { return l.rate() }
			r.add("calls_per_s", each(o, rate)...)
			r.add("one_tool_per_s", each(w, rate)...)
			r.add("ratio", over(each(o, rate), each(w, rate))...)
			r.costs(o, w)
			r.ratioIsLeast(0.8)
			return err
		})
	})
	return []*Report{r}, err
}

// wait is a pause that ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
