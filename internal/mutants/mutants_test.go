package mutants

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/internal/statements"
)

const root = "../.."

// TestTableFitsTheCode: every rule stands where the table looks for it, once.
func TestTableFitsTheCode(t *testing.T) {
	for _, m := range Table() {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
		if err != nil {
			t.Fatal(err)
		}
		mutated, err := m.Edit().Apply(string(source))
		if err != nil {
			t.Error(err)
		} else if mutated == string(source) {
			t.Errorf("row %d, %s: nothing is taken out", m.Row, m.File)
		}
	}
}

// TestTableHoldsEveryRow: no row of section 7 is left out, and every mutant
// has tests that could notice.
func TestTableHoldsEveryRow(t *testing.T) {
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := statements.Protocol(string(text))
	if err != nil || len(rows) != len(rules) {
		t.Fatalf("%d rules in %d rows, %v", len(rules), len(rows), err)
	}
	tests, err := statements.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	all := Table()
	for i := range rows {
		of := Of(i + 1)
		if len(of) == 0 || rules[i+1] == "" {
			t.Errorf("row %d: %d mutants, rule %q", i+1, len(of), rules[i+1])
		}
		for _, m := range of {
			shown := rows[i].Of(tests)
			if !slices.ContainsFunc(shown, func(test statements.Test) bool { return test.Package == m.Package }) {
				t.Errorf("row %d has no test in %s", m.Row, m.Package)
			}
		}
	}
	if n := len(Of()); n != len(all) {
		t.Errorf("%d of %d mutants are of all rows", n, len(all))
	}
}

func TestApplyInsistsOnOnePlace(t *testing.T) {
	e := Edit{File: "f.go", Old: "a b", New: "c"}
	if got, err := e.Apply("x a b y"); got != "x c y" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, source := range []string{"x", "a b a b"} {
		if _, err := e.Apply(source); err == nil || !strings.Contains(err.Error(), "f.go") {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// module is one with two tests of row 1 and one of row 12.
func module(t *testing.T) Runner {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"p/p.go": "package p\n\nfunc Rule() int { return 1 }\n",
		"p/p_test.go": `package p

import "testing"

func TestP7_01_A(t *testing.T) { t.Run("sub", func(t *testing.T) { if Rule() == 2 { t.Error("2") } }) }
func TestP7_01_B(t *testing.T) { if Rule() == 3 { panic("3") } }
func TestP7_12_C(t *testing.T) { for Rule() == 4 { <-make(chan int) } }
func TestOther(t *testing.T) { if Rule() != 1 { t.Error("not of the row") } }
`,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return Runner{Root: dir, Timeout: time.Minute}
}

func TestRunnerTellsFailuresApart(t *testing.T) {
	r := module(t)
	for _, c := range []struct {
		row     int
		with    string
		timeout time.Duration
		want    Verdict
		by      []string
	}{
		{1, "return 2", time.Minute, Caught, []string{"TestP7_01_A"}},
		{1, "return 3", time.Minute, Caught, []string{"TestP7_01_B"}},
		{12, "return 2", time.Minute, Survived, nil},
		{12, "return 4", time.Second, Unclear, []string{"TestP7_12_C"}},
		{1, "return x", time.Minute, DoesNotBuild, nil},
	} {
		r.Timeout = c.timeout
		m := Mutant{Row: c.row, Package: "p", File: "p/p.go", Old: "return 1", New: c.with}
		got, err := r.Try(t.Context(), m)
		if err != nil || got.Verdict != c.want || !slices.Equal(got.By, c.by) {
			t.Errorf("%s: %+v, %v", c.with, got, err)
		}
		if c.want == DoesNotBuild && !strings.Contains(got.Output, "undefined: x") {
			t.Errorf("output %q", got.Output)
		}
	}
	if b, err := os.ReadFile(filepath.Join(r.Root, "p", "p.go")); err != nil || !strings.Contains(string(b), "return 1") {
		t.Errorf("the tree was touched: %q, %v", b, err)
	}
}

func TestRunnerWantsSoundTests(t *testing.T) {
	r := module(t)
	if err := r.Sound(t.Context(), "p", []int{1, 12}); err != nil {
		t.Error(err)
	}
	if err := r.Sound(t.Context(), "p", []int{1, 2}); err == nil || !strings.Contains(err.Error(), "no test of row 2") {
		t.Error(err)
	}
	if err := r.Sound(t.Context(), "q", []int{1}); err == nil {
		t.Error("a package that is not there is sound")
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(r.Root, "p", "p.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("package p\n\nfunc Rule() int { return 2 }\n")
	if err := r.Sound(t.Context(), "p", []int{1, 12}); err == nil || !strings.Contains(err.Error(), "TestP7_01_A") {
		t.Error(err)
	}
	write("package p\n")
	if err := r.Sound(t.Context(), "p", []int{1}); err == nil || !strings.Contains(err.Error(), "does not build") {
		t.Error(err)
	}
}

// fakeTrier answers by what is gone.
type fakeTrier map[string]Trial

func (f fakeTrier) Sound(_ context.Context, pkg string, _ []int) error {
	if pkg == "broken" {
		return errors.New("it is broken")
	}
	return nil
}

func (f fakeTrier) Try(_ context.Context, m Mutant) (Trial, error) {
	if t, ok := f[m.Gone]; ok {
		return t, nil
	}
	return Trial{}, errors.New("not in the tree")
}

func TestTryAllReports(t *testing.T) {
	trials := fakeTrier{
		"good": {Verdict: Caught, By: []string{"TestA", "TestB"}}, "weak": {Verdict: Survived},
		"odd": {Verdict: DoesNotBuild, Output: "undefined: x\n"}, "slow": {Verdict: Unclear, By: []string{"TestC"}},
	}
	mutants := func(gone ...string) []Mutant {
		var all []Mutant
		for i, g := range gone {
			all = append(all, Mutant{Row: 1 + i, Package: "p", File: "f.go", Gone: g})
		}
		return all
	}
	for _, c := range []struct {
		of   []Mutant
		ok   bool
		says []string
		last string
	}{
		{mutants("good"), true, []string{"P7.1 The rule.", "caught   f.go: good", "p: TestA, TestB"}, "1 rules taken out, 1 caught, 0 survived"},
		{mutants("good", "weak"), false, []string{"SURVIVED f.go: weak"}, "2 rules taken out, 1 caught, 1 survived"},
		{mutants("good", "odd", "slow"), false, []string{"undefined: x", "UNCLEAR", "TestC"}, "3 rules taken out, 1 caught, 0 survived, 2 without an answer"},
	} {
		var out strings.Builder
		ok, err := TryAll(t.Context(), &out, trials, map[int]string{1: "The rule."}, c.of)
		if ok != c.ok || err != nil || !strings.HasSuffix(out.String(), "\nmutants: "+c.last+"\n") {
			t.Errorf("%v, %v, %s", ok, err, out.String())
		}
		for _, text := range c.says {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is not in\n%s", text, out.String())
			}
		}
	}
	for _, of := range [][]Mutant{mutants("unknown"), {{Row: 1, Package: "broken", Gone: "good"}}} {
		if ok, err := TryAll(t.Context(), &strings.Builder{}, trials, nil, of); ok || err == nil {
			t.Errorf("%+v: %v, %v", of, ok, err)
		}
	}
}

func TestReadNeedsAnEnd(t *testing.T) {
	for name, events := range map[string]string{
		"nothing": "", "cut off": `{"Action":"run","Test":"TestP7_01_A"}`, "no events": "flag provided but not defined",
	} {
		if r, err := read([]byte(events)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r, err := read([]byte(`{"Action":"run","Test":"TestA"}{"Action":"skip","Test":"TestA"}{"Action":"pass"}`))
	if err != nil || !r.passed || len(r.failed()) != 0 || !maps.Equal(r.ok, map[string]bool{"TestA": true}) {
		t.Errorf("%+v, %v", r, err)
	}
}
