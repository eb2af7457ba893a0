package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/replay"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// trialFlags are those of the commands that send calls through a pool.
type trialFlags struct {
	corpus string
	keep   string
	set    *flag.FlagSet
}

func newTrial(name string) *trialFlags {
	t := &trialFlags{set: flag.NewFlagSet(name, flag.ContinueOnError)}
	t.set.StringVar(&t.corpus, "corpus", "", "`folder` of recorded calls: "+corpus.File+", and the tables in "+corpus.Data+"/")
	t.set.StringVar(&t.keep, "keep", "", "empty `folder` for what the run leaves: calls, results, the log of effects, the pool's state (default: a temporary one, kept only when something was found or went wrong)")
	return t
}

// folder makes the folder of a run; done is told whether what is in it matters.
func (t *trialFlags) folder(stderr io.Writer) (dir string, done func(matters bool) error, err error) {
	if t.keep == "" {
		dir, err = os.MkdirTemp("", "shop-replay-")
	} else {
		dir, err = filepath.Abs(t.keep)
		err = errors.Join(err, emptyFolder(dir))
	}
	if err != nil {
		return "", nil, err
	}
	return dir, func(matters bool) error {
		if t.keep == "" && !matters {
			return os.RemoveAll(dir)
		}
		fmt.Fprintf(stderr, "what the run left is in %s\n", dir)
		return nil
	}, nil
}

func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("--keep: %s is not empty; what an earlier run left there would be taken for this one's", dir)
	}
	return nil
}

// runsOf reads the runs of the corpus that hold a failing call which fails in
// the same way again.
func (t *trialFlags) runs() ([]corpus.Run, error) {
	all, err := corpus.Open(t.corpus)
	if err != nil {
		return nil, err
	}
	runs := corpus.Select(all, corpus.Call.Replays)
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no run of the shop holds a failing call with \"replay\": \"same\", so that there is nothing to compare", filepath.Join(t.corpus, corpus.File))
	}
	return runs, nil
}

// shopProgram is this command, to be started as processes of its own.
func shopProgram() (replay.Program, error) {
	path, err := os.Executable()
	return replay.Program{Path: path}, err
}

// errFound ends the process with 1, when all has been told.
const errFound = exitCode(exitFailed)

// recordedCommand replays recorded calls without faults and without recovery.
func recordedCommand(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	t := newTrial("recorded")
	schemas := t.set.Bool("schemas", false, "offer the tools with their schemas; calls that do not fit fail in Mulligan's words then")
	all := t.set.Bool("all", false, "list the other calls whose answers differ too")
	if err := parse(t.set, args, stderr); err != nil {
		return err
	}
	if t.corpus == "" {
		fmt.Fprintln(stderr, "shop recorded: --corpus is missing; give the folder of the recorded calls")
		return errUsage
	}
	runs, err := t.runs()
	if err != nil {
		return err
	}
	program, err := shopProgram()
	if err != nil {
		return err
	}
	dir, done, err := t.folder(stderr)
	if err != nil {
		return err
	}
	found := false
	defer func() { err = errors.Join(err, done(found || err != nil && ctx.Err() == nil)) }()
	calls := corpus.Calls(runs)
	config := replay.Config{
		Program: program, Dir: dir, Data: filepath.Join(t.corpus, corpus.Data), Calls: replay.Submissions(calls),
		NoSchemas: !*schemas, Also: replay.UnknownTools(calls), Reflector: recovery.NoOp{},
		// Without an analysis nobody tells a shop that says no from one that is ill
		// (ADR 0012), and what is recorded is mostly the former.
		Policies: recovery.Document{Pool: recovery.Policy{Breaker: messages.BreakerOff}.Values()},
	}
	outcome, err := replay.Run(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d runs, replayed side by side in %.1fs; %d of their tools the shop does not have\n", len(runs), outcome.Took.Seconds(), len(config.Also))
	comparison := replay.Compare(calls, outcome.Lines)
	found = len(comparison.Differences) > 0
	if err := comparison.Print(stdout, *all); err != nil {
		return err
	}
	if found {
		return errFound
	}
	return nil
}
