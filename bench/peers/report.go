package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// machine is what the figures depend on.
type machine struct {
	Cores      int     `json:"cores"`
	LoadBefore float64 `json:"load_before"` // of the minute before
	SyncMS     float64 `json:"sync_ms"`     // of 4 KiB on the disk that is used
}

// report is what a run came to.
type report struct {
	Measured    time.Time         `json:"measured"`
	Machine     machine           `json:"machine"`
	Versions    map[string]string `json:"versions"`
	Concurrency int               `json:"concurrency"`
	JobBytes    int               `json:"job_bytes"`
	Repetitions int               `json:"repetitions"`
	Systems     []figures         `json:"systems"`
	Comparisons []comparison      `json:"comparisons"`
	Guarantees  []guarantee       `json:"guarantees"`
}

// figures of one system: medians over the repetitions, and how far these lie
// apart as a share of the median.
type figures struct {
	Name       string  `json:"name"`
	Group      group   `json:"durability"`
	Results    bool    `json:"results"`
	Settings   string  `json:"settings"`
	Ended      string  `json:"end_is_known_by"`
	Jobs       int     `json:"jobs"` // of a repetition
	PerSecond  float64 `json:"jobs_per_s"`
	RateSpread float64 `json:"jobs_per_s_spread"`
	CPU        float64 `json:"cpu_us_per_job"`
	Singles    int     `json:"singles"` // of all repetitions
	P50        float64 `json:"p50_ms"`
	P50Spread  float64 `json:"p50_ms_spread"`
	P99        float64 `json:"p99_ms"`
}

// comparison is Mulligan beside another system of the same durability, or as
// that one ships: medians of what the repetitions came to, one by one.
type comparison struct {
	Mulligan   string  `json:"mulligan"`
	Other      string  `json:"other"`
	Throughput float64 `json:"throughput_ratio"` // above 1: Mulligan does more
	P50        float64 `json:"p50_ratio"`        // below 1: Mulligan is quicker
}

func newReport(m machine, o options, all []measured) *report {
	r := &report{
		Measured: time.Now().UTC().Truncate(time.Second), Machine: m, Versions: versions(), Concurrency: concurrency, JobBytes: jobBytes,
		Repetitions: o.repetitions, Guarantees: guarantees(), Comparisons: compare(all),
	}
	for _, p := range []program{redisServer, postgresServer} {
		if v := serverVersion(p); v != "" {
			r.Versions[p.name] = v
		}
	}
	for _, m := range all {
		r.Systems = append(r.Systems, m.figures())
	}
	return r
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// serverVersion is what a program says of itself, empty if it is not there.
func serverVersion(p program) string {
	path, err := p.path()
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(context.Background(), path, "--version").Output()
	if err != nil {
		return ""
	}
	return versionNumber.FindString(string(out))
}

func (m measured) each(figure func(lap) float64) []float64 {
	out := make([]float64, len(m.laps))
	for i, l := range m.laps {
		out[i] = figure(l)
	}
	return out
}

func rate(l lap) float64 { return l.perSecond }
func cpu(l lap) float64  { return l.cpu }
func p50(l lap) float64  { return quantile(l.singles, 0.5) }
func p99(l lap) float64  { return quantile(l.singles, 0.99) }

func (m measured) figures() figures {
	f := figures{
		Name: m.Name, Group: m.Group, Results: m.Results, Settings: m.Settings, Ended: m.Ended, Jobs: m.jobs,
		PerSecond: round(median(m.each(rate))), RateSpread: round(spread(m.each(rate))), CPU: round(median(m.each(cpu))),
		P50: round(median(m.each(p50))), P50Spread: round(spread(m.each(p50))), P99: round(median(m.each(p99))),
	}
	for _, l := range m.laps {
		f.Singles += len(l.singles)
	}
	return f
}

// compare puts each Mulligan beside the others of its durability; beside those
// that survive less, and those as they ship, the one that NATS' default makes.
func compare(all []measured) []comparison {
	var out []comparison
	for _, ours := range all {
		if !ours.mulligan() {
			continue
		}
		for _, other := range all {
			same := other.Group == ours.Group || ours.Group == written && (other.Group == inMemory || other.Group == shipped)
			if same && !other.mulligan() {
				out = append(out, comparison{
					Mulligan: ours.Name, Other: other.Name,
					Throughput: ratio(ours.each(rate), other.each(rate)), P50: ratio(ours.each(p50), other.each(p50)),
				})
			}
		}
	}
	return out
}

func (s system) mulligan() bool { return strings.HasPrefix(s.Name, "Mulligan") }

func ratio(a, b []float64) float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return round(median(out))
}

// round keeps three digits, and all of them before the point.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, max(0, 2-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d jobs at a time of %d bytes that do nothing; medians of %d repetitions in turns; %d cores, load %.1f before, a synced write of 4 KiB takes %.2g ms\n\n",
		r.Concurrency, r.JobBytes, r.Repetitions, r.Machine.Cores, r.Machine.LoadBefore, r.Machine.SyncMS)
	rows := [][]string{{"SYSTEM", "DURABILITY", "RESULTS", "JOBS/S", "SPREAD", "CPU µS/JOB", "P50 MS", "P99 MS", "LONE JOBS"}}
	for _, s := range r.Systems {
		rows = append(rows, []string{
			s.Name, string(s.Group), map[bool]string{true: "read", false: "none"}[s.Results], number(s.PerSecond), fmt.Sprintf("%.0f %%", 100*s.RateSpread), number(s.CPU), number(s.P50), number(s.P99), fmt.Sprint(s.Singles),
		})
	}
	table(&b, rows)
	rows = [][]string{{"MULLIGAN BESIDE", "THROUGHPUT", "P50", ""}}
	for _, c := range r.Comparisons {
		rows = append(rows, []string{c.Other, number(c.Throughput) + " times", number(c.P50) + " times", c.verdict()})
	}
	table(&b, rows)
	rows = [][]string{{"PROMISED", "JETSTREAM ALONE", "MULLIGAN", "ASYNQ", "RIVER"}}
	for _, g := range r.Guarantees {
		rows = append(rows, []string{g.What, g.JetStream, g.Mulligan, g.Asynq, g.River})
	}
	table(&b, rows)
	for _, s := range r.Systems {
		fmt.Fprintf(&b, "%s: %s. The end is known by: %s.\n", s.Name, s.Settings, s.Ended)
	}
	return b.String()
}

// keep writes the report where the flags say.
func (r *report) keep(o options) error {
	if o.json != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	page, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	now, err := r.into(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	return os.WriteFile(o.page, []byte(now), 0o644)
}

// The marks in a page between which the report stands.
const (
	markBegin = "<!-- measured: written by make peers -->\n"
	markEnd   = "<!-- end of measured -->"
)

// into puts the report between the marks of a page.
func (r *report) into(page string) (string, error) {
	before, rest, begins := strings.Cut(page, markBegin)
	_, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return "", fmt.Errorf("the page has not both %q and %q", strings.TrimSpace(markBegin), markEnd)
	}
	return fmt.Sprintf("%s%s```text\n%s, %s\n%s```\n%s%s", before, markBegin, r.Measured.Format(time.DateOnly), r.with(), r.text(), markEnd, after), nil
}

// with is what was measured: versions in a line.
func (r *report) with() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		parts = append(parts, name+" "+r.Versions[name])
	}
	return strings.Join(parts, ", ")
}

func (c comparison) verdict() string {
	word := map[bool]string{true: "ahead", false: "behind"}
	return fmt.Sprintf("%s in throughput, %s in p50", word[c.Throughput > 1], word[c.P50 < 1])
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func table(b *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t")) // a Builder takes all
	}
	_ = w.Flush()
	b.WriteByte('\n')
}
