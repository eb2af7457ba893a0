//go:build linux

package soak

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"mulligan/internal/chaos"
)

// Report is a line of the evidence.
type Report struct {
	Began   time.Time     `json:"began"`
	Minutes float64       `json:"minutes"`
	Rate    int           `json:"rate"`      // calls submitted in a second
	Kept    time.Duration `json:"kept_ns"`   // how long results and stories were kept
	Judged  time.Duration `json:"judged_ns"` // the time at the end from which the verdicts are

	chaos.Report

	Trends []Trend            `json:"trends"` // what is judged
	Peaks  map[string]float64 `json:"peaks"`  // the most that was measured of processes that were killed, which are not
}

// allowances of each measure: large enough for noise, and small against a leak
// that would matter within days. What is stored follows the mix of calls and
// faults of its last minutes; what would never expire doubles it in a soak.
var allowances = map[string]Allowance{
	rss:        {Share: 0.15, Absolute: 16 << 20},
	heap:       {Share: 0.1, Absolute: 1 << 20},
	goroutines: {Share: 0.1, Absolute: 10},
	files:      {Share: 0.1, Absolute: 5},
	messages:   {Share: 0.2, Absolute: 200},
	size:       {Share: 0.2, Absolute: 1 << 20},
	consumers:  {Share: 0.1, Absolute: 5},
	disk:       {Share: 0.2, Absolute: 8 << 20},
}

// verdicts judges the series from a time on: those of streams and of processes
// that lived through it. Of the others it gives the peaks.
func verdicts(series map[measure][]Point, from time.Duration) (trends []Trend, peaks map[string]float64) {
	peaks = make(map[string]float64)
	for m, points := range series {
		if isProcess(m.of) && !spared(m.of) {
			for _, p := range points {
				peaks[m.of+" "+m.what] = max(peaks[m.of+" "+m.what], p.Value)
			}
			continue
		}
		t := judge(slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.At < from }), allowances[m.what])
		t.Of, t.What = m.of, m.what
		t.First, t.Last, t.Rise = math.Round(t.First), math.Round(t.Last), math.Round(t.Rise)
		trends = append(trends, t)
	}
	slices.SortFunc(trends, func(a, b Trend) int { return cmp.Or(strings.Compare(a.Of, b.Of), strings.Compare(a.What, b.What)) })
	return trends, peaks
}

func isProcess(of string) bool { return of == "witness" || strings.Contains(of, "-") }

// growing are the measures that grew.
func (r Report) growing() []string {
	var out []string
	for _, t := range r.Trends {
		if t.Growing {
			out = append(out, t.Of+" "+t.What)
		}
	}
	return out
}

// Flat says whether nothing grew and nothing was violated.
func (r Report) Flat() bool { return len(r.growing()) == 0 && len(r.Violations) == 0 }

// print writes the report for people; its last line counts.
func (r Report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "judged: the last %s of %.0f minutes\n", r.Judged.Round(time.Second), r.Minutes)
	fmt.Fprintln(w, "\tof\tmeasure\tfirst quarter\tlast quarter\trise\tverdict\t")
	for _, t := range r.Trends {
		verdict := "flat"
		if t.Growing {
			verdict = "GROWING"
		}
		fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\t%s\t%s\t\n", t.Of, t.What, figure(t.What, t.First), figure(t.What, t.Last), figure(t.What, t.Rise), verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "not judged, since they were killed; the most that was measured:")
	for _, key := range slices.Sorted(maps.Keys(r.Peaks)) {
		name, what, _ := strings.Cut(key, " ")
		fmt.Fprintf(out, "  %s %s %s\n", name, what, figure(what, r.Peaks[key]))
	}
	fmt.Fprintf(out, "faults %v, ends %v, %d refused, %d uncertain, %d recovered, %d repeated, longest call %s\n",
		r.Faults, r.Ends, r.Refused, r.Uncertain, r.Recovered, r.Repeated, r.Longest.Round(100*time.Millisecond))
	for _, v := range r.Violations {
		fmt.Fprintln(out, "  VIOLATION:", v)
	}
	_, err := fmt.Fprintf(out, "soak: %.0f minutes, %d calls, %d faults, %d violations, %d of %d measures growing %s\n",
		r.Minutes, r.Calls, r.Struck, len(r.Violations), len(r.growing()), len(r.Trends), strings.Join(r.growing(), ", "))
	return err
}

func figure(what string, v float64) string {
	switch what {
	case rss, heap, size, disk:
		if v < 0 {
			return "-" + humanize.IBytes(uint64(-v))
		}
		return humanize.IBytes(uint64(v))
	}
	return fmt.Sprintf("%.0f", v)
}

// note adds the report to the evidence.
func (r Report) note(file string) (err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(b, '\n'))
	return err
}
