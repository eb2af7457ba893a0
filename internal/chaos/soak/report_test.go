//go:build linux

package soak

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// seriesOf measures every five seconds of ten minutes.
func seriesOf(value func(at time.Duration) float64) []Point {
	var out []Point
	for at := time.Duration(0); at < 10*time.Minute; at += 5 * time.Second {
		out = append(out, Point{At: at, Value: value(at)})
	}
	return out
}

func flat(time.Duration) float64 { return 10 << 20 }

// filling rises until the first of what is stored expires.
func filling(at time.Duration) float64 {
	return float64(min(at, 3*time.Minute)/time.Second) * (1 << 20)
}

func leaking(at time.Duration) float64 { return 10<<20 + float64(at/time.Second)*(1<<16) }

func TestOnlyWhatLivedAndIsSettledIsJudged(t *testing.T) {
	trends, peaks := verdicts(map[measure][]Point{
		{"worker-0", heap}:              seriesOf(leaking),
		{"worker-1", heap}:              seriesOf(leaking),
		{"broker-0", heap}:              seriesOf(flat),
		{"MULLIGAN_RESULTS", size}:      seriesOf(filling),
		{"KV_MULLIGAN_RUNS", messages}:  seriesOf(leaking),
		{"MULLIGAN_RESULTS", consumers}: seriesOf(func(time.Duration) float64 { return 3 }),
	}, 4*time.Minute)
	r := Report{Trends: trends, Peaks: peaks}
	want := []string{"KV_MULLIGAN_RUNS messages", "worker-0 heap"}
	if got := r.growing(); !slices.Equal(got, want) || len(trends) != 5 || r.Flat() {
		t.Errorf("growing: %q of %d, want %q", got, len(trends), want)
	}
	if len(peaks) != 1 || peaks["worker-1 heap"] != leaking(595*time.Second) {
		t.Errorf("peaks: %v", peaks)
	}
	early, _ := verdicts(map[measure][]Point{{"MULLIGAN_RESULTS", size}: seriesOf(filling)}, 0)
	if !early[0].Growing {
		t.Errorf("a store that fills is called flat from its beginning: %+v", early[0])
	}
}

func TestAReportIsFlatOrSaysWhatIsNot(t *testing.T) {
	trends, _ := verdicts(map[measure][]Point{{"broker-0", heap}: seriesOf(flat)}, 0)
	r := Report{Minutes: 20, Trends: trends}
	if !r.Flat() {
		t.Errorf("%+v", r)
	}
	r.Calls, r.Struck, r.Violations = 60000, 119, []string{"call c was accepted and has no result"}
	if r.Flat() {
		t.Error("a broken promise is called flat")
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != "soak: 20 minutes, 60000 calls, 119 faults, 1 violations, 0 of 1 measures growing" {
		t.Errorf("%q", last)
	}
	if !strings.Contains(out.String(), "VIOLATION: call c was accepted") || !strings.Contains(out.String(), "10 MiB") {
		t.Error(out.String())
	}
}

func TestTheEvidenceGetsALineARun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.jsonl")
	for _, minutes := range []float64{3, 20} {
		if err := (Report{Minutes: minutes, Peaks: map[string]float64{"worker-1 rss": 1}}).note(file); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var last Report
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &last) != nil || last.Minutes != 20 || last.Peaks["worker-1 rss"] != 1 {
		t.Errorf("%q", lines)
	}
}
