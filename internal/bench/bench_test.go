package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Every scenario runs, and reports all that it says it does. Its figures mean
// nothing at this size.
func TestEveryScenarioRuns(t *testing.T) {
	t.Setenv(asServer, "1")
	o := Options{Server: []string{os.Args[0]}, Short: true, Slots: []int{1, 8}, Profile: t.TempDir(), Say: t.Logf}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			cases := make(map[string]bool)
			err := s.Run(t.Context(), o, func(r *Report) error {
				cases[r.Case] = true
				checkReport(t, s, r)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(cases) == 0 {
				t.Error("it reported nothing")
			}
		})
	}
	for _, file := range []string{"client.cpu", "client.allocs-before", "client.allocs", "server.cpu", "server.allocs-before", "server.allocs"} {
		at := filepath.Join(o.Profile, "throughput-1."+file+".pprof") // of its second case
		if b, err := os.ReadFile(at); err != nil || len(b) == 0 {
			t.Errorf("no profile was made: %s has %d bytes, %v", at, len(b), err)
		}
	}
}

// zero are the figures that may be 0.
var zero = map[string]bool{"early": true, "late_p50_ms": true, "late_p99_ms": true, "client_heap_per_delayed_call": true, "server_heap_per_delayed_call": true, "server_heap_per_queued_call": true}

func checkReport(t *testing.T, s Scenario, r *Report) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if got["scenario"] != s.Name {
		t.Errorf("it is of scenario %v", got["scenario"])
	}
	for _, f := range s.Figures {
		v, ok := got[f].(float64)
		if !ok || v < 0 && !zero[f] || v == 0 && !zero[f] {
			t.Errorf("%s: %s is %v", r.Title(), f, got[f])
		}
	}
	if len(r.Limits) > 0 {
		t.Errorf("%s: a short measurement is judged: %v", r.Title(), r.Limits)
	}
}
