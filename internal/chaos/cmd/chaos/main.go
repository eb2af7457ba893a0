//go:build unix

// Command chaos runs whole pools, hurts them, and says whether a promise was
// broken; see docs/evidence.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mulligan/internal/chaos"
)

func main() {
	if chaos.Role() {
		return
	}
	os.Exit(run())
}

func run() int {
	seeds := flag.String("seeds", "1-3", "which seeds: a number, a range such as 1-60, or a list of both")
	nodes := flag.Int("nodes", 1, "servers of the broker: 1 or 3")
	calls := flag.Int("calls", 520, "calls of a seed")
	faults := flag.Int("faults", 12, "faults of a seed, at least")
	over := flag.Duration("over", 20*time.Second, "the time in which calls and faults happen")
	keep := flag.String("keep", "", "folder for logs and stores of seeds with a violation")
	evidence := flag.String("evidence", "", "file to which each seed adds its report")
	kills := flag.Int("kills", 0, "only kill brokers, so often, the leader of a cluster, while calls wait")
	queued := flag.Int("queued", 10_000, "with -kills: calls in the queue at the first kill")
	delayed := flag.Int("delayed", 500, "with -kills: calls that wait for a retry at the first kill")
	summary := flag.String("summary", "", "run nothing; print what the evidence beside this page comes to, and write it into the page")
	flag.Parse()
	if *summary != "" {
		return sumUp(*summary)
	}
	list, err := chaos.ParseSeeds(*seeds)
	if err == nil && *nodes != 1 && *nodes != 3 {
		err = fmt.Errorf("-nodes %d is neither 1 nor 3", *nodes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	trials := chaos.Trials{Seeds: list, Base: chaos.Config{Nodes: *nodes, Calls: *calls, Faults: *faults, Over: *over}, Keep: *keep, Evidence: *evidence, Out: os.Stdout}
	if *kills > 0 {
		trials.Kill = &chaos.KillConfig{Kills: *kills, Queued: *queued, Delayed: *delayed, Work: 400 * time.Millisecond, Delay: time.Minute}
	}
	violations, err := trials.Run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	if violations > 0 {
		return 3
	}
	return 0
}

func sumUp(page string) int {
	text, err := chaos.Sum(page)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	fmt.Print(text)
	return 0
}
