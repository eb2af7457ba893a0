//go:build unix

// Command directed runs the directed trials that its arguments name, all of
// them without any, and says whether a promise was broken: it ends with 0 if
// none was, 3 if one was, 1 if that cannot be said.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"mulligan/internal/chaos"
)

func main() {
	if chaos.Role() {
		return
	}
	os.Exit(run())
}

func run() int {
	services := flag.String("services", "", "the program that plays the parts of the services, built like this one; empty for this one")
	keep := flag.String("keep", "", "empty folder in which logs and stores stay")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	violations, err := chaos.Directed{Services: *services, Keep: *keep, Out: os.Stdout}.Run(ctx, flag.Args()...)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "directed:", err)
		return 1
	case violations > 0:
		return 3
	}
	return 0
}
