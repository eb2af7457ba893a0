// Command cmd takes rules out of the code and looks whether tests and harness
// notice. It ends with 1 unless every one is caught. It is run from the root of
// the module; `make mutants` does so.
//
// Arguments say what is tried: numbers of rows of section 7, names of faults,
// `unit` for all rows, `harness` for all faults; without any, everything.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mulligan/internal/mutants"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (bool, error) {
	rows, faults, err := choose(args)
	if err != nil {
		return false, err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return false, err
	}
	ok := true
	if len(rows) > 0 {
		rules, err := mutants.Rules(root)
		if err != nil {
			return false, err
		}
		if ok, err = mutants.TryAll(ctx, os.Stdout, mutants.Runner{Root: root, Timeout: time.Minute}, rules, rows); err != nil {
			return false, err
		}
	}
	if len(faults) == 0 {
		return ok, nil
	}
	caught, err := harness(ctx, root, faults)
	return ok && caught, err
}

func harness(ctx context.Context, root string, faults []mutants.Fault) (bool, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	h := mutants.Harness{Root: root, Dir: dir, Timeout: 5 * time.Minute}
	if err := h.Build(ctx); err != nil {
		return false, err
	}
	return mutants.TryFaults(ctx, os.Stdout, h, faults)
}

// choose understands the arguments.
func choose(args []string) (rows []mutants.Mutant, faults []mutants.Fault, err error) {
	if len(args) == 0 {
		args = []string{"unit", "harness"}
	}
	for _, a := range args {
		row, notANumber := strconv.Atoi(a)
		at := slices.IndexFunc(mutants.Faults(), func(f mutants.Fault) bool { return f.Name == a })
		switch of := mutants.Of(row); {
		case a == "unit":
			rows = append(rows, mutants.Table()...)
		case a == "harness":
			faults = append(faults, mutants.Faults()...)
		case notANumber == nil && len(of) > 0:
			rows = append(rows, of...)
		case at >= 0:
			faults = append(faults, mutants.Faults()[at])
		default:
			return nil, nil, fmt.Errorf("%q is nothing to try: give a row of section 7 that has mutants, a fault (%s), unit, harness, or nothing for all", a, strings.Join(names(), ", "))
		}
	}
	return rows, faults, nil
}

func names() []string {
	var out []string
	for _, f := range mutants.Faults() {
		out = append(out, f.Name)
	}
	return out
}
