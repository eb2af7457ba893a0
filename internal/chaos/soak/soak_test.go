//go:build linux

package soak

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mulligan/internal/chaos"
)

func TestMain(m *testing.M) {
	if chaos.Role() {
		return
	}
	os.Exit(m.Run())
}

// A soak of seconds shows nothing of growth, and that everything is measured,
// checked and counted. `make soak` runs a real one.
func TestAPoolIsMeasuredWhileItIsHurt(t *testing.T) {
	var out bytes.Buffer
	r, err := Run(t.Context(), Config{Over: 20 * time.Second, Rate: 10, Seed: 1, Out: &out})
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	if r.Calls != 200 || r.Struck != 1 || len(r.Violations) > 0 {
		t.Errorf("%d calls, %d faults, violations %q", r.Calls, r.Struck, r.Violations)
	}
	ended := r.Refused
	for _, n := range r.Ends {
		ended += n
	}
	if ended > r.Calls || ended < r.Calls-r.Uncertain {
		t.Errorf("%d of %d calls ended or were refused, %d are uncertain", ended, r.Calls, r.Uncertain)
	}
	for of, measures := range map[string][]string{
		"worker-0": {rss, heap, goroutines, files}, "coordinator-0": {rss, heap, goroutines, files}, "reflector-0": {rss, heap, goroutines, files},
		broker: {rss, heap, goroutines, files}, "witness": {rss, files}, "store": {disk}, "KV_MULLIGAN_RUNS": {messages, size, consumers},
		"MULLIGAN_RESULTS": {messages, size, consumers},
	} {
		for _, what := range measures {
			if !slices.ContainsFunc(r.Trends, func(t Trend) bool { return t.Of == of && t.What == what }) {
				t.Errorf("%s of %s was not measured", what, of)
			}
		}
	}
	if _, ok := r.Peaks["worker-3 "+heap]; !ok || r.Peaks["coordinator-1 "+rss] == 0 { // nothing need have been collected yet
		t.Errorf("of those that may be killed: %v", r.Peaks)
	}
	if r.Flat() {
		t.Error("nothing was measured for long enough, and it is called flat")
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !strings.HasPrefix(lines[len(lines)-1], "soak: 0 minutes, 200 calls, 1 faults, 0 violations, ") {
		t.Errorf("%q", lines[len(lines)-1])
	}
}
