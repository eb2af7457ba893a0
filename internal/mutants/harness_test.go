//go:build unix

package mutants

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/internal/chaos"
)

// TestFaultsFitTheCode: every edit finds its place, leaves Go behind, and has a
// trial that can be run.
func TestFaultsFitTheCode(t *testing.T) {
	var names []string
	for _, f := range Faults() {
		if slices.Contains(names, f.Name) || f.Gone == "" || len(f.Edits) == 0 {
			t.Errorf("fault %q: its name is not its own, or it does nothing", f.Name)
		}
		names = append(names, f.Name)
		if _, err := chaos.NewDirected(f.Trial); err != nil {
			t.Errorf("fault %s: %v", f.Name, err)
		}
		for _, e := range f.Edits {
			source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				t.Fatal(err)
			}
			mutated, err := e.Apply(string(source))
			if err != nil {
				t.Errorf("fault %s: %v", f.Name, err)
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), e.File, mutated, 0); err != nil {
				t.Errorf("fault %s: %v", f.Name, err)
			}
		}
	}
}

// pools is a module whose harness asks its services, a program of the same
// source, for a number, of which two files make the sum.
func pools(t *testing.T) Harness {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                           "module example\n\ngo 1.26\n",
		"p/p.go":                           "package p\n\nfunc One() int { return 1 }\n",
		"q/p.go":                           "package q\n\nfunc Two() int { return 2 }\n",
		"internal/chaos/cmd/directed/m.go": harnessSource,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h := Harness{Root: dir, Dir: t.TempDir(), Timeout: time.Minute}
	if err := h.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

const harnessSource = `package main

import (
	"fmt"
	"os"
	"os/exec"

	"example/p"
	"example/q"
)

func main() {
	if len(os.Args) == 1 {
		fmt.Print(p.One() + q.Two())
		return
	}
	out, err := exec.Command(os.Args[2]).Output() // -services PROGRAM TRIAL
	switch {
	case err != nil || os.Args[3] != "sums":
		fmt.Println("cannot run", os.Args[3])
		os.Exit(1)
	case string(out) != "3":
		fmt.Printf("sums: 1 violations\n  VIOLATION: the sum is %s\n", out)
		os.Exit(3)
	}
}
`

func TestHarnessTellsPoolsApart(t *testing.T) {
	h := pools(t)
	if err := h.Sound(t.Context(), "sums"); err != nil {
		t.Error(err)
	}
	if err := h.Sound(t.Context(), "what"); err == nil || !strings.Contains(err.Error(), "cannot run what") {
		t.Errorf("a trial that cannot be run is sound: %v", err)
	}
	for _, c := range []struct {
		trial string
		edits []Edit
		want  Trial
	}{
		{"sums", []Edit{{"p/p.go", "1", "3"}, {"q/p.go", "2", "7"}}, Trial{Verdict: Caught, By: []string{"the sum is 10"}}},
		{"sums", []Edit{{"p/p.go", "1", "2"}, {"q/p.go", "2", "1"}}, Trial{Verdict: Survived}},
		{"what", []Edit{{"p/p.go", "1", "3"}}, Trial{Verdict: Unclear}},
		{"sums", []Edit{{"p/p.go", "1", "x"}}, Trial{Verdict: DoesNotBuild}},
	} {
		got, err := h.Try(t.Context(), Fault{Name: "f", Trial: c.trial, Edits: c.edits})
		if err != nil || got.Verdict != c.want.Verdict || !slices.Equal(got.By, c.want.By) {
			t.Errorf("%v: %+v, %v", c.edits, got, err)
		}
	}
	if _, err := h.Try(t.Context(), Fault{Name: "f", Trial: "sums", Edits: []Edit{{"p/p.go", "absent", "x"}}}); err == nil {
		t.Error("an edit without a place is tried")
	}
}

// A harness that does not end is no witness.
func TestHarnessThatDoesNotEndSaysNothing(t *testing.T) {
	h := pools(t)
	h.Timeout = time.Nanosecond
	if err := h.Sound(t.Context(), "sums"); err == nil {
		t.Error("it is sound")
	}
}

type fakeJudge map[string]Trial

func (f fakeJudge) Sound(_ context.Context, trial string) error {
	if trial == "broken" {
		return errors.New("it is broken")
	}
	return nil
}

func (f fakeJudge) Try(_ context.Context, of Fault) (Trial, error) { return f[of.Name], nil }

func TestTryFaultsReports(t *testing.T) {
	j := fakeJudge{
		"good": {Verdict: Caught, By: []string{"one", "two", "three", "four"}}, "weak": {Verdict: Survived},
		"odd": {Verdict: Unclear, Output: "no broker"},
	}
	for _, c := range []struct {
		of   []string
		ok   bool
		says []string
		not  string
		last string
	}{
		{[]string{"good"}, true, []string{"sound: ", "caught   good: gone", "4 promises broken", "three"}, "four", "1 rules taken out of whole pools, 1 caught, 0 survived"},
		{[]string{"good", "weak"}, false, []string{"SURVIVED weak"}, "five", "2 rules taken out of whole pools, 1 caught, 1 survived"},
		{[]string{"odd"}, false, []string{"UNCLEAR", "no broker"}, "five", "1 rules taken out of whole pools, 0 caught, 0 survived, 1 without an answer"},
	} {
		var faults []Fault
		for _, name := range c.of {
			faults = append(faults, Fault{Name: name, Gone: "gone", Trial: "t"})
		}
		var out strings.Builder
		ok, err := TryFaults(t.Context(), &out, j, faults)
		if ok != c.ok || err != nil || !strings.HasSuffix(out.String(), "\nharness: "+c.last+"\n") || strings.Contains(out.String(), c.not) {
			t.Errorf("%v, %v, %s", ok, err, out.String())
		}
		for _, text := range c.says {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is not in\n%s", text, out.String())
			}
		}
	}
	if ok, err := TryFaults(t.Context(), &strings.Builder{}, j, []Fault{{Name: "good", Trial: "broken"}}); ok || err == nil {
		t.Errorf("a trial that is no judge: %v, %v", ok, err)
	}
}
