//go:build linux

package soak

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// page serves a text, and gives its address.
func page(t *testing.T, texts map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestASampleReadsProcessesAndBroker(t *testing.T) {
	store := t.TempDir()
	for name, size := range map[string]int{"1.blk": 1000, "2.blk": 234} {
		if err := os.WriteFile(filepath.Join(store, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service := page(t, map[string]string{"/metrics": "# HELP go_goroutines x\ngo_goroutines 17\ngo_goroutines_created 5\ngo_gc_heap_live_bytes 1.5e+06\n"})
	monitor := page(t, map[string]string{"/jsz?streams=1": `{"account_details":[{"stream_detail":[{"name":"MULLIGAN_RESULTS","state":{"messages":7,"bytes":900,"consumer_count":2}}]}]}`})
	profile := page(t, map[string]string{
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total 85\n1 @ 0x1\n",
		"/debug/pprof/heap?debug=1&gc=1": "heap profile: 1: 2 [3: 4] @ heap/1\n# Alloc = 1\n# HeapAlloc = 4096\n",
	})
	s := newSampler(map[string]string{"worker-0": service}, monitor, profile, store)
	self := os.Getpid()
	if err := s.sample(t.Context(), time.Now().Add(-time.Minute), map[string]int{"worker-0": self, broker: self, "witness": self}); err != nil {
		t.Fatal(err)
	}
	for m, want := range map[measure]float64{
		{"worker-0", goroutines}: 17, {"worker-0", heap}: 1.5e6, {broker, goroutines}: 85, {broker, heap}: 4096,
		{"MULLIGAN_RESULTS", messages}: 7, {"MULLIGAN_RESULTS", size}: 900, {"MULLIGAN_RESULTS", consumers}: 2, {"store", disk}: 1234,
	} {
		if p := s.series[m]; len(p) != 1 || p[0].Value != want || p[0].At < time.Minute {
			t.Errorf("%v: %v, want %v", m, p, want)
		}
	}
	for _, name := range []string{"worker-0", broker, "witness"} {
		if p := s.series[measure{name, rss}]; len(p) != 1 || p[0].Value < 1<<20 {
			t.Errorf("%s: resident memory %v", name, p)
		}
		if p := s.series[measure{name, files}]; len(p) != 1 || p[0].Value < 3 {
			t.Errorf("%s: descriptors %v", name, p)
		}
	}
	if n := len(s.series); n != 2*4+2+3+1 {
		t.Errorf("%d series: %v", n, s.series)
	}
}

// What does not answer is left out, and said; the rest is measured.
func TestASampleGoesOnWithoutTheDead(t *testing.T) {
	gone := page(t, nil)
	s := newSampler(map[string]string{"worker-0": gone, "reflector-0": page(t, map[string]string{"/metrics": "go_goroutines 17\n"}), "worker-1": page(t, map[string]string{"/metrics": "go_goroutines 17\ngo_gc_heap_live_bytes 5\n"})}, gone, gone, t.TempDir())
	err := s.sample(t.Context(), time.Now(), map[string]int{"worker-0": os.Getpid(), "worker-1": os.Getpid(), "reflector-0": os.Getpid(), "worker-2": 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "says 1 of 2 things") || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "worker-2") {
		t.Errorf("%v", err)
	}
	if len(s.series[measure{"worker-1", heap}]) != 1 || len(s.series[measure{"worker-0", heap}]) != 0 || len(s.series[measure{"worker-0", rss}]) != 1 {
		t.Errorf("%v", s.series)
	}
}

func TestASoakHasToBeLongEnough(t *testing.T) {
	for _, c := range []Config{{Over: time.Minute, Rate: 50}, {Over: 20 * time.Minute}, {Over: 20 * time.Minute, Rate: 1001}} {
		if c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	c := Config{Over: 20 * time.Minute, Rate: 50}
	if err := c.Validate(); err != nil || c.kept() != 2*time.Minute || c.settled() > c.Over/2 {
		t.Errorf("%v, kept %s, settled after %s", err, c.kept(), c.settled())
	}
	if c = (Config{Over: shortest, Rate: 1}); c.settled()+time.Minute > c.Over {
		t.Errorf("the shortest soak is settled after %s", c.settled())
	}
}
