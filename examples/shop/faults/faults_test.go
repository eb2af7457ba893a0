package faults_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"mulligan/examples/shop/faults"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		plan faults.Plan
		want string
	}{
		{faults.Plan{}, ""},
		{faults.Plan{Before: 0.2, After: 0.1}, ""},
		{faults.Plan{Before: 0.5, After: 0.5}, ""},
		{faults.Plan{Before: -0.1}, "before"},
		{faults.Plan{After: 1.1}, "after"},
		{faults.Plan{Before: 0.6, After: 0.5}, "more than 1 together"},
		{faults.Plan{Before: math.NaN()}, "before"},
	} {
		err := c.plan.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
	if _, err := faults.NewInjector(faults.Plan{Before: 2}); err == nil {
		t.Error("an injector took a bad plan")
	}
}

func TestShares(t *testing.T) {
	plan := faults.Plan{Before: 0.2, After: 0.1, Seed: 7}
	const n = 40_000
	counts := make(map[faults.Kind]int)
	for i := range n {
		counts[plan.Decide(fmt.Sprint("call ", i), 1)]++
	}
	for kind, share := range map[faults.Kind]float64{
		faults.None: 0.7, faults.TimeOut: 0.05, faults.RateLimited: 0.05, faults.Unavailable: 0.05, faults.StoreRace: 0.05,
		faults.Dropped: 0.05, faults.Silent: 0.05,
	} {
		if got := float64(counts[kind]) / n; math.Abs(got-share) > 0.006 {
			t.Errorf("%q has a share of %.3f, not %.2f", kind, got, share)
		}
	}
	for kind := range counts {
		if after := kind == faults.Dropped || kind == faults.Silent; kind.IsAfter() != after {
			t.Errorf("%q: after is %t", kind, kind.IsAfter())
		}
	}
}

func TestAllAndNone(t *testing.T) {
	for i := range 1000 {
		call := fmt.Sprint(i)
		if k := (faults.Plan{}).Decide(call, 1); k != faults.None {
			t.Fatalf("without faults: %s", k)
		}
		if k := (faults.Plan{Before: 1}).Decide(call, 1); k == faults.None || k.IsAfter() {
			t.Fatalf("with all before: %q", k)
		}
		if k := (faults.Plan{After: 1}).Decide(call, 1); !k.IsAfter() {
			t.Fatalf("with all after: %q", k)
		}
	}
}

// The course is fixed by seed, call and execution; each of them matters.
func TestDecisionsAreFixed(t *testing.T) {
	course := func(seed uint64, call string) (kinds []faults.Kind) {
		plan := faults.Plan{Before: 0.3, After: 0.3, Seed: seed}
		for n := range 40 {
			kinds = append(kinds, plan.Decide(call, n+1))
		}
		return kinds
	}
	if !slices.Equal(course(1, "a"), course(1, "a")) {
		t.Error("the same course came out different")
	}
	if slices.Equal(course(1, "a"), course(2, "a")) || slices.Equal(course(1, "a"), course(1, "b")) {
		t.Error("another seed or call has the same course")
	}
	if first := course(1, "a"); len(slices.Compact(first)) < 3 {
		t.Error("the executions of a call all fare the same")
	}
	// Guards the function itself, on which recorded experiments depend.
	want := []faults.Kind{faults.RateLimited, faults.None, faults.Silent}
	if got := course(1, "a")[:3]; !slices.Equal(got, want) {
		t.Errorf("the course of seed 1, call a starts with %q", got)
	}
}

func TestInjectorCountsExecutions(t *testing.T) {
	plan := faults.Plan{Before: 0.3, After: 0.3, Seed: 3}
	injector, err := faults.NewInjector(plan)
	if err != nil {
		t.Fatal(err)
	}
	const calls, each = 20, 10
	got := make([][]faults.Kind, calls)
	var wg sync.WaitGroup
	for c := range calls {
		wg.Go(func() {
			for range each {
				kind, err := injector.Next(fmt.Sprint(c))
				if err != nil {
					t.Error(err)
				}
				got[c] = append(got[c], kind)
			}
		})
	}
	wg.Wait()
	for c := range calls {
		for n := range each {
			if want := plan.Decide(fmt.Sprint(c), n+1); got[c][n] != want {
				t.Fatalf("execution %d of call %d is %q, not %q", n+1, c, got[c][n], want)
			}
		}
	}
}
