package mutants

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Of are the mutants of rows, or of every row when none is given.
func Of(rows ...int) []Mutant {
	return slices.DeleteFunc(Table(), func(m Mutant) bool { return len(rows) > 0 && !slices.Contains(rows, m.Row) })
}

var rowOfTable = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|`)

// Rules reads the rules of section 7, by row, from docs/protocol.md below root.
func Rules(root string) (map[int]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		return nil, err
	}
	rules := map[int]string{}
	for _, m := range rowOfTable.FindAllStringSubmatch(string(text), -1) {
		row, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		rules[row] = m[2]
	}
	return rules, nil
}

// trier is what TryAll needs of a [Runner].
type trier interface {
	Sound(ctx context.Context, pkg string, rows []int) error
	Try(ctx context.Context, m Mutant) (Trial, error)
}

// TryAll makes sure that the tests pass while every rule is in place, then
// tries one mutant after the other and prints what came of it. It says whether
// all were caught; an error means that no more could be tried.
func TryAll(ctx context.Context, w io.Writer, r trier, rules map[int]string, all []Mutant) (bool, error) {
	rows := map[string][]int{}
	for _, m := range all {
		if !slices.Contains(rows[m.Package], m.Row) {
			rows[m.Package] = append(rows[m.Package], m.Row)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(rows)) {
		if err := r.Sound(ctx, pkg, rows[pkg]); err != nil {
			return false, err
		}
		fmt.Fprintf(w, "sound: %s, %d rows\n", pkg, len(rows[pkg]))
	}
	count, last := map[Verdict]int{}, 0
	for _, m := range all {
		if m.Row != last {
			fmt.Fprintf(w, "\nP7.%d %s\n", m.Row, rules[m.Row])
			last = m.Row
		}
		t, err := r.Try(ctx, m)
		if err != nil {
			return false, err
		}
		count[t.Verdict]++
		fmt.Fprintf(w, "  %-8s %s: %s\n", t.Verdict, m.File, m.Gone)
		fmt.Fprintf(w, "  %-8s tests of %s%s\n", "", m.Package, told(t))
	}
	fmt.Fprintf(w, "\nmutants: %d rules taken out, %d caught, %d survived", len(all), count[Caught], count[Survived])
	tellRest(w, count)
	return count[Caught] == len(all), nil
}

func tellRest(w io.Writer, count map[Verdict]int) {
	if rest := count[DoesNotBuild] + count[Unclear]; rest > 0 {
		fmt.Fprintf(w, ", %d without an answer", rest)
	}
	fmt.Fprintln(w)
}

func told(t Trial) string {
	var b strings.Builder
	if len(t.By) > 0 {
		b.WriteString(": " + strings.Join(t.By, ", "))
	}
	if t.Output != "" {
		b.WriteString("\n" + t.Output)
	}
	return b.String()
}
