package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/replay"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// faultsCommand replays calls while the shop fails, with recovery as shipped,
// and checks what Mulligan promises about effects.
func faultsCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	t := newTrial("faults")
	var f faultsFlags
	f.add(t.set)
	if err := parse(t.set, args, stderr); err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		fmt.Fprintf(stderr, "shop faults: %v\n", err)
		return errUsage
	}
	config, err := f.config(t)
	if err != nil {
		return err
	}
	dir, done, err := t.folder(stderr)
	if err != nil {
		return err
	}
	config.Dir = dir
	found := false
	defer func() { err = errors.Join(err, done(found || err != nil && ctx.Err() == nil)) }()
	outcome, err := replay.Run(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d calls in %.1fs with %d coordinators and %d workers: %d succeeded, %d failed, %d unknown, %d refused\n",
		len(config.Calls), outcome.Took.Seconds(), f.coordinators, f.workers,
		outcome.Summary.Succeeded, outcome.Summary.Failed, outcome.Summary.Unknown, outcome.Summary.Refused)
	verdict := replay.Check(config, f.retries, outcome)
	found = len(verdict.Violations) > 0
	if err := verdict.Print(stdout); err != nil {
		return err
	}
	if found {
		return errFound
	}
	return nil
}

type faultsFlags struct {
	plan                  faults.Plan
	timeout               time.Duration
	coordinators, workers int
	retries, sample       int
}

func (f *faultsFlags) add(set *flag.FlagSet) {
	set.Float64Var(&f.plan.Before, "before", 0.2, "`share` of executions that fail before the state is touched")
	set.Float64Var(&f.plan.After, "after", 0.1, "`share` of executions whose answer is lost after the change")
	set.Uint64Var(&f.plan.Seed, "seed", 1, "`number` that selects where faults strike")
	set.DurationVar(&f.timeout, "timeout", time.Second, "time-out of an execution; a shop that gives no answer holds it for as long")
	set.IntVar(&f.coordinators, "coordinators", 2, "`number` of coordinators")
	set.IntVar(&f.workers, "workers", 2, "`number` of workers, of which all but one are processes of their own")
	set.IntVar(&f.retries, "retries", messages.MaxRetries, "`number` of retries that a call may have; the services allow 3 unless told otherwise, and 5 is the most that there is")
	set.IntVar(&f.sample, "sample", 40, "`number` of runs on the shop's small tables, where --corpus is not given")
}

func (f *faultsFlags) validate() error {
	for name, n := range map[string]int{"coordinators": f.coordinators, "workers": f.workers, "sample": f.sample} {
		if n < 1 {
			return fmt.Errorf("--%s: %d; it must be positive", name, n)
		}
	}
	if f.retries < 0 {
		return fmt.Errorf("--retries: %d; give 0 for none, or up to %d", f.retries, messages.MaxRetries)
	}
	if f.timeout < 100*time.Millisecond {
		return fmt.Errorf("--timeout: %v; give 100ms or more, since a time-out that strikes without a fault proves nothing", f.timeout)
	}
	return f.plan.Validate()
}

// config takes the calls from the corpus, or makes them.
func (f *faultsFlags) config(t *trialFlags) (replay.Config, error) {
	program, err := shopProgram()
	if err != nil {
		return replay.Config{}, err
	}
	c := replay.Config{
		Program: program, Policies: recovery.Document{Pool: recovery.Policy{MaxRetries: &f.retries}.Values()}, Plan: f.plan, Silence: 5 * f.timeout, // so that it is the worker's time-out that ends the wait
		Coordinators: f.coordinators, Workers: f.workers, Calls: replay.Sample(f.sample),
	}
	if t.corpus != "" {
		runs, err := t.runs()
		if err != nil {
			return c, err
		}
		recorded := corpus.Calls(runs)
		c.Calls, c.Also, c.Data = replay.Submissions(recorded), replay.UnknownTools(recorded), filepath.Join(t.corpus, corpus.Data)
	}
	for i := range c.Calls {
		c.Calls[i].Timeout = messages.Millis(f.timeout)
	}
	return c, nil
}
