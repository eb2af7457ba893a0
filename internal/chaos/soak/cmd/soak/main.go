//go:build linux

// Command soak runs a pool under steady load and faults, and says whether
// anything grows; see docs/evidence.
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
	"mulligan/internal/chaos/soak"
)

func main() {
	if chaos.Role() {
		return
	}
	os.Exit(run())
}

func run() int {
	c := soak.Config{Out: os.Stdout}
	flag.DurationVar(&c.Over, "over", 20*time.Minute, "how long")
	flag.IntVar(&c.Rate, "rate", 50, "calls in a second")
	flag.Uint64Var(&c.Seed, "seed", 1, "of the calls and the faults")
	flag.StringVar(&c.Keep, "keep", "", "folder, not there yet, for the logs and the store of a soak that is not flat")
	flag.StringVar(&c.Evidence, "evidence", "", "file to which the report is added, one a line")
	flag.Parse()
	if err := c.Validate(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := soak.Run(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	if !r.Flat() {
		return 3
	}
	return 0
}
