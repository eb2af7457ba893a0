// Package replay sends calls to a shop through a whole pool of Mulligan:
// broker, coordinators, a reflector and workers, with the shop, and workers
// beyond the first, in processes of their own. It brings back what each party
// says about what happened: the submitter's lines, the streams, and the shop's
// log of effects.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	"mulligan/examples/shop/binding"
	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/serve"
	"mulligan/examples/shop/shopclient"
	"mulligan/internal/calls"
	"mulligan/internal/pool"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Config says what is sent where.
type Config struct {
	// Program is the shop command.
	Program Program
	// Dir is an empty folder for the state and logs of all processes.
	Dir string
	// Data is the folder of the shop's tables; empty means its own small ones.
	Data string
	// Calls go in, each with a ref that is unique in its run. Calls of one run
	// go one after another, runs side by side.
	Calls []messages.Submission
	// NoSchemas and Also are those of [binding.Config].
	NoSchemas bool
	Also      []string
	// Plan says where the shop fails.
	Plan faults.Plan
	// Silence is how long the shop keeps a connection that it gives no answer;
	// 0 means its default.
	Silence time.Duration
	// Reflector and Policies are those of the pool; none means as shipped.
	Reflector recovery.Reflector
	Policies  recovery.Document
	// Coordinators and Workers are how many of each; 0 means one. The first
	// worker is in this process, the others are processes of their own.
	Coordinators, Workers int
	// Log receives what the pool says. Nil discards it.
	Log *slog.Logger
}

// slots is how many tools a worker runs at a time: they wait for the shop only.
const slots = 16

// Outcome is what happened, as each party tells it.
type Outcome struct {
	// Lines are what the submitter was given, one for each call, in their order.
	Lines   []calls.Result
	Summary calls.Summary
	// Results is all that RESULTS holds, and ResultsWritten how many writes it
	// has taken.
	Results        []messages.Result
	ResultsWritten uint64
	// Failures are those in RECOVERY.
	Failures []messages.Failure
	// Effects is what the shop's log holds, after the shop has ended.
	Effects effectlog.Record
	Took    time.Duration // from the first submission to the last line
}

// Run sends the calls and returns when every call has ended and everything
// that it started has stopped.
func Run(ctx context.Context, c Config) (out Outcome, err error) {
	effects := filepath.Join(c.Dir, "effects.jsonl")
	shop, at, err := c.Program.startShop(ctx, c.Dir, c.shopArgs(effects))
	if err != nil {
		return out, err
	}
	out, err = c.through(ctx, at)
	if err = errors.Join(err, shop.stop()); err != nil {
		return out, err
	}
	out.Effects, err = effectlog.ReadFile(effects)
	return out, err
}

func (c Config) shopArgs(effects string) []string {
	args := []string{
		"--effects", effects, "--fault-before", share(c.Plan.Before), "--fault-after", share(c.Plan.After),
		"--fault-seed", strconv.FormatUint(c.Plan.Seed, 10),
	}
	if c.Data != "" {
		args = append(args, "--data", c.Data)
	}
	if c.Silence > 0 {
		args = append(args, "--fault-timeout", c.Silence.String())
	}
	return args
}

func share(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// policies are those of the pool, but for the loop detector: agents that went in
// circles when they were recorded do so again, to the end.
func (c Config) policies() recovery.Document {
	p := recovery.Values{}
	maps.Copy(p, c.Policies.Pool)
	maps.Copy(p, recovery.Policy{LoopWarn: new(0), LoopStop: new(0)}.Values())
	d := c.Policies
	d.Pool = p
	return d
}

// through runs the calls through a pool that serves the shop.
func (c Config) through(ctx context.Context, shop serve.Address) (out Outcome, err error) {
	client := shopclient.New(shop.URL)
	defer client.Close()
	tools, err := binding.Tools(binding.Config{Shop: client, NoSchemas: c.NoSchemas, Also: c.Also})
	if err != nil {
		return out, err
	}
	p, err := pool.Start(ctx, pool.Config{
		Dir: filepath.Join(c.Dir, "pool"), Tools: tools, Slots: slots, Coordinators: c.Coordinators,
		Reflector: c.Reflector, Policies: c.policies(), Log: c.Log,
	})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.Stop(context.WithoutCancel(ctx))) }()
	workers, err := c.startWorkers(ctx, p, shop)
	defer func() { err = errors.Join(err, stopAll(workers)) }() // before the pool, so that they are heard
	if err != nil {
		return out, err
	}
	return c.submit(ctx, p)
}

func (c Config) startWorkers(ctx context.Context, p *pool.Pool, shop serve.Address) ([]*process, error) {
	args := []string{"--server", p.URL(), "--pool", messages.DefaultPrefix, "--shop", shop.URL, "--slots", strconv.Itoa(slots), "--schemas=" + strconv.FormatBool(!c.NoSchemas)}
	for _, name := range c.Also {
		args = append(args, "--also", name)
	}
	var workers []*process
	for n := 2; n <= c.Workers; n++ {
		w, err := c.Program.startWorker(ctx, c.Dir, fmt.Sprintf("worker-%d", n), p.Token(), args)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	return workers, c.awaitOffers(ctx, p)
}

func stopAll(workers []*process) error {
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.stop())
	}
	return errors.Join(errs...)
}

// startTime is how long workers may take until they offer their tools.
const startTime = 30 * time.Second

// awaitOffers waits until every worker offers its tools.
func (c Config) awaitOffers(ctx context.Context, p *pool.Pool) error {
	broker, err := p.Connect(ctx, "shop replay: workers")
	if err != nil {
		return err
	}
	defer broker.Close()
	wctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	offers := make(map[string]bool)
	_ = broker.Watch(wctx, messages.BucketTools, "offer.>", func() {}, func(e messages.Entry) { // ends with its context
		offers[e.Key] = !e.Deleted
		if len(offers) >= c.Workers {
			cancel()
		}
	})
	if len(offers) < c.Workers && ctx.Err() == nil {
		return fmt.Errorf("%d of %d workers were ready after %s; the logs of the others are in %s", len(offers), c.Workers, startTime, c.Dir)
	}
	return ctx.Err()
}
