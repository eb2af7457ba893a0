// Package mutants takes the rules of docs/protocol.md, section 7, out of the
// code one by one and looks whether the tests of their row notice. A test that
// passes without its rule shows nothing. It takes the worst of them out of the
// services of whole pools too, and looks whether the chaos harness notices.
//
// `make mutants` tries all of them, which compiles much; the tests of this
// package only hold the tables to the code that they are about.
package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Mutant is one rule, taken out of one place.
type Mutant struct {
	Row     int    // of section 7
	Package string // whose tests of the row have to notice, from the root of the module
	File    string // where the rule stands, from the root of the module
	Gone    string // what the code does without the rule
	Old     string // occurs exactly once in File
	New     string // takes its place; it compiles, and need not be formatted
}

// Edit is what a mutant does to a file.
func (m Mutant) Edit() Edit { return Edit{m.File, m.Old, m.New} }

// Edit puts one text in the place of another.
type Edit struct {
	File string // from the root of the module
	Old  string // occurs exactly once in File
	New  string // compiles, and need not be formatted
}

// Apply returns source with the edit made.
func (e Edit) Apply(source string) (string, error) {
	if n := strings.Count(source, e.Old); n != 1 {
		return "", fmt.Errorf("%s: the table of mutants looks for a text that stands there %d times, and it has to be once; let the table follow the code: %q", e.File, n, e.Old)
	}
	return strings.Replace(source, e.Old, e.New, 1), nil
}

// pattern selects the tests of rows.
func pattern(rows ...int) string {
	var two []string
	for _, r := range rows {
		two = append(two, fmt.Sprintf("%02d", r))
	}
	return "^TestP7_(" + strings.Join(two, "|") + ")_"
}

// Verdict is what came of trying a mutant.
type Verdict string

// The verdicts. Only Caught is good. Unclear are a time-out, which may be the
// machine's, and a failure outside of every test.
const (
	Caught       Verdict = "caught"
	Survived     Verdict = "SURVIVED"
	DoesNotBuild Verdict = "DOES NOT BUILD"
	Unclear      Verdict = "UNCLEAR"
)

// Trial is the verdict on one mutant.
type Trial struct {
	Verdict Verdict
	By      []string // the tests that failed
	Output  string   // of the build or the package, where no test can be blamed
}

// Runner runs the tests of one module.
type Runner struct {
	Root    string        // of the module, absolute
	Timeout time.Duration // of the tests of one run; compiling is not counted
}

// Try runs the tests of the mutant's row with the mutant in the place of its
// file. The file itself is not touched.
func (r Runner) Try(ctx context.Context, m Mutant) (Trial, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return Trial{}, err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlayIn(dir, r.Root, m.Edit())
	if err != nil {
		return Trial{}, fmt.Errorf("row %d: %w", m.Row, err)
	}
	run, err := r.test(ctx, m.Package, pattern(m.Row), "-overlay", overlay)
	if err != nil {
		return Trial{}, err
	}
	return run.trial(), nil
}

// overlayIn writes into dir what the option -overlay of go reads: files below
// root, each with one edit made.
func overlayIn(dir, root string, edits ...Edit) (string, error) {
	replace := make(map[string]string)
	for i, e := range edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		source, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		mutated, err := e.Apply(string(source))
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(mutated), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// Sound says what is wrong with the tests of a package while every rule is in
// place: each row needs one, and all have to pass.
func (r Runner) Sound(ctx context.Context, pkg string, rows []int) error {
	run, err := r.test(ctx, pkg, pattern(rows...))
	switch {
	case err != nil:
		return err
	case !run.built:
		return fmt.Errorf("%s does not build:\n%s", pkg, run.output)
	case !run.passed:
		return fmt.Errorf("%s fails with every rule in place, in %s", pkg, strings.Join(run.failed(), ", "))
	}
	for _, row := range rows {
		if re := regexp.MustCompile(pattern(row)); !slices.ContainsFunc(run.began, re.MatchString) {
			return fmt.Errorf("%s has no test of row %d", pkg, row)
		}
	}
	return nil
}

// run is what `go test -json` told.
type run struct {
	built, passed, timedOut bool

	began []string        // top-level tests
	ok    map[string]bool // those that passed or were skipped
	// output is what stands outside of tests: of the build, or of a panic.
	output string
}

func (r Runner) test(ctx context.Context, pkg, pattern string, args ...string) (run, error) {
	args = append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout", r.Timeout.String(), "-run", pattern}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = r.Root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	events, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return run{}, fmt.Errorf("go test ./%s: %w", pkg, errors.Join(err, ctx.Err()))
	}
	got, parseErr := read(events)
	if parseErr != nil || err != nil && got.passed {
		return run{}, fmt.Errorf("go test ./%s: %w\n%s", pkg, errors.Join(err, parseErr), stderr.String())
	}
	return got, nil
}

// read understands the events of one package.
func read(events []byte) (run, error) {
	r := run{built: true, ok: map[string]bool{}}
	ended := false
	for dec := json.NewDecoder(bytes.NewReader(events)); dec.More(); {
		var e struct {
			Action      string `json:"Action"`
			Test        string `json:"Test"`
			Output      string `json:"Output"`
			FailedBuild string `json:"FailedBuild"`
		}
		if err := dec.Decode(&e); err != nil {
			return r, fmt.Errorf("its output: %w", err)
		}
		if strings.Contains(e.Output, "panic: test timed out after ") {
			r.timedOut = true
		}
		r.built = r.built && e.Action != "build-fail" && e.FailedBuild == ""
		switch top := e.Test != "" && !strings.Contains(e.Test, "/"); {
		case top && e.Action == "run":
			r.began = append(r.began, e.Test)
		case top && (e.Action == "pass" || e.Action == "skip"):
			r.ok[e.Test] = true
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
			ended, r.passed = true, e.Action == "pass"
		case e.Test == "":
			r.output += e.Output
		}
	}
	if !ended {
		return r, errors.New("its output has no end")
	}
	return r, nil
}

// failed are the tests that did not pass, also those that a panic kept from
// saying so.
func (r run) failed() []string {
	return slices.DeleteFunc(slices.Clone(r.began), func(test string) bool { return r.ok[test] })
}

// trial judges.
func (r run) trial() Trial {
	switch by := r.failed(); {
	case !r.built:
		return Trial{Verdict: DoesNotBuild, Output: r.output}
	case r.passed:
		return Trial{Verdict: Survived}
	case r.timedOut || len(by) == 0:
		return Trial{Verdict: Unclear, By: by, Output: r.output}
	default:
		return Trial{Verdict: Caught, By: by}
	}
}
