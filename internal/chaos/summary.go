//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

// The files of reports, beside the page that tells of them.
const (
	chaosEvidence = "chaos.jsonl"
	killsEvidence = "kills.jsonl"
)

// The part of the page that [Sum] writes.
const (
	sumBegins = "<!-- what the reports come to; make evidence writes it -->\n"
	sumEnds   = "<!-- end -->\n"
)

// Sum writes into a page what the reports beside it come to, and gives that.
func Sum(page string) (string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	before, rest, begins := strings.Cut(string(text), sumBegins)
	_, after, ends := strings.Cut(rest, sumEnds)
	if !begins || !ends {
		return "", fmt.Errorf("%s has no place for a sum: a line %q and a line %q", page, strings.TrimSpace(sumBegins), strings.TrimSpace(sumEnds))
	}
	sum, err := sumOf(filepath.Dir(page))
	if err != nil {
		return "", err
	}
	return sum, os.WriteFile(page, []byte(before+sumBegins+sum+sumEnds+after), 0o600)
}

func sumOf(dir string) (string, error) {
	chaos, err := ReadEvidence(filepath.Join(dir, chaosEvidence))
	if err != nil {
		return "", err
	}
	kills, err := ReadEvidence(filepath.Join(dir, killsEvidence))
	if err != nil {
		return "", err
	}
	return table(
		column{"one broker", with(1, chaos)}, column{"three brokers", with(3, chaos)},
		column{"one broker, killed under load", with(1, kills)}, column{"three, leaders killed under load", with(3, kills)},
	), nil
}

func with(nodes int, reports []Report) []Report {
	return slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Nodes != nodes })
}

type column struct {
	name    string
	reports []Report
}

// table says what each column's reports come to.
func table(columns ...column) string {
	var text strings.Builder
	head, line := "|", "|---|"
	for _, c := range columns {
		head, line = head+" | "+c.name, line+"--:|"
	}
	fmt.Fprintf(&text, "%s |\n%s\n", head, line)
	for _, row := range rows() {
		fmt.Fprintf(&text, "| %s", row.name)
		for _, c := range columns {
			value := "–"
			if len(c.reports) > 0 {
				value = row.value(c.reports)
			}
			fmt.Fprintf(&text, " | %s", value)
		}
		text.WriteString(" |\n")
	}
	return text.String()
}

type row struct {
	name  string
	value func([]Report) string
}

func rows() []row {
	out := []row{
		{"trials", func(rs []Report) string { return fmt.Sprint(len(rs)) }},
		sum("calls", func(r Report) int { return r.Calls }),
		least("queued at the first kill", func(r Report) int { return r.Queued }),
		least("delayed at the first kill", func(r Report) int { return r.Delayed }),
		sum("faults", func(r Report) int { return r.Struck }),
	}
	for _, k := range []Kind{Kill, Freeze, Restart, Cut, Stall, Slow, Partition, Sever} {
		out = append(out, sum("– "+string(k), func(r Report) int { return r.Faults[k] }))
	}
	for _, s := range []messages.Status{messages.Succeeded, messages.Failed, messages.Exhausted, messages.StatusUnknown, messages.Cancelled, messages.Expired} {
		out = append(out, sum("ended "+string(s), func(r Report) int { return r.Ends[s] }))
	}
	return append(out,
		sum("refused", func(r Report) int { return r.Refused }),
		sum("submissions without an answer", func(r Report) int { return r.Uncertain }),
		sum("succeeded after a failure", func(r Report) int { return r.Recovered }),
		sum("deliveries", func(r Report) int { return r.Deliveries }),
		share("redeliveries", func(r Report) (int, int) { return r.Again, r.Deliveries }),
		sum("executions", func(r Report) int { return r.Executions }),
		share("repeated executions of idempotent calls", func(r Report) (int, int) { return r.Repeated, r.Idempotent }),
		longest("longest recovery, to the last end", func(r Report) time.Duration { return r.HealedIn }),
		longest("longest recovery, to the next result", func(r Report) time.Duration { return r.Recovery }),
		longest("longest call", func(r Report) time.Duration { return r.Longest }),
		sum("compare-and-set operations", func(r Report) int { return r.Cas }),
		sum("violations", func(r Report) int { return len(r.Violations) }),
	)
}

func sum(name string, of func(Report) int) row {
	return row{name, func(rs []Report) string { return grouped(total(rs, of)) }}
}

func total(rs []Report, of func(Report) int) int {
	n := 0
	for _, r := range rs {
		n += of(r)
	}
	return n
}

// share is a number and its part of another.
func share(name string, of func(Report) (n, all int)) row {
	return row{name, func(rs []Report) string {
		n := total(rs, func(r Report) int { n, _ := of(r); return n })
		all := total(rs, func(r Report) int { _, all := of(r); return all })
		return fmt.Sprintf("%s (%.2f %%)", grouped(n), 100*float64(n)/float64(max(all, 1)))
	}}
}

// least is what every trial had, at the least; none where it tells of nothing.
func least(name string, of func(Report) int) row {
	return row{name, func(rs []Report) string {
		n := of(slices.MinFunc(rs, func(a, b Report) int { return cmp.Compare(of(a), of(b)) }))
		return orNone(n != 0, grouped(n))
	}}
}

func longest(name string, of func(Report) time.Duration) row {
	return row{name, func(rs []Report) string {
		d := of(slices.MaxFunc(rs, func(a, b Report) int { return cmp.Compare(of(a), of(b)) }))
		return orNone(d != 0, fmt.Sprintf("%.1f s", d.Seconds()))
	}}
}

func orNone(any bool, text string) string {
	if !any {
		return "–"
	}
	return text
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
