package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == brokerCommand { // the broker of a measurement, see startBroker
		exit(serveBroker(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// The systems that need no other program are measured as a whole, and so is what
// comes out of it.
func TestMeasure(t *testing.T) {
	these := slices.DeleteFunc(systems(), func(s system) bool { return len(s.needs) > 0 })
	if len(these) != 4 {
		t.Fatalf("%d systems need no program", len(these))
	}
	at, err := newSite(t.Context(), these)
	if err != nil {
		t.Fatal(err)
	}
	r, err := measure(t.Context(), at, options{repetitions: 2, over: time.Millisecond, jobs: 30, singles: 2, only: regexp.MustCompile("")}, these)
	if err := errors.Join(err, at.remove()); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Systems {
		if s.Jobs != 30 || s.Singles != 4 || s.PerSecond <= 0 || s.P50 <= 0 || s.P99 < s.P50 || !strings.Contains(r.text(), s.Name+" ") {
			t.Errorf("%+v", s)
		}
	}
	if len(r.Comparisons) != 2 { // with the raw queue, each at its durability
		t.Errorf("%+v", r.Comparisons)
	}
	if _, err := os.Stat(at.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left behind: %v", err)
	}
	o := options{json: filepath.Join(t.TempDir(), "json"), page: filepath.Join(t.TempDir(), "page")}
	page := "before\n" + markBegin + "old\n" + markEnd + "\nafter\n"
	if err := errors.Join(os.WriteFile(o.page, []byte(page), 0o600), r.keep(o), r.keep(o)); err != nil { // twice is once
		t.Fatal(err)
	}
	now, perr := os.ReadFile(o.page)
	b, jerr := os.ReadFile(o.json)
	if err := errors.Join(perr, jerr); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(page, "old\n", "```text\n"+r.Measured.Format(time.DateOnly)+", "+r.with()+"\n"+r.text()+"```\n", 1); string(now) != want {
		t.Errorf("%s", now)
	}
	var kept report
	if err := json.Unmarshal(b, &kept); err != nil || kept.Systems[0].PerSecond != r.Systems[0].PerSecond {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := r.into("no marks"); err == nil {
		t.Error("a page without marks is taken")
	}
}

// stand is a session without a server.
type stand struct {
	refuse error
	closed bool
}

func (s *stand) many(int) (func(context.Context) error, error) {
	return func(context.Context) error { return s.refuse }, nil
}
func (s *stand) one(context.Context) error { return nil }
func (s *stand) pid() int                  { return os.Getpid() }
func (s *stand) close() error              { s.closed = true; return nil }

// A job that fails fails the run, names the system, and its server is stopped.
func TestAFaultEndsTheRun(t *testing.T) {
	s := &stand{refuse: errors.New("no room")}
	one := system{Name: "stand-in", open: func(context.Context, *site) (session, error) { return s, nil }}
	_, err := measure(t.Context(), &site{dir: t.TempDir()}, options{repetitions: 1, over: time.Second, jobs: 1, singles: 1}, []system{one})
	if err == nil || err.Error() != "stand-in: no room" || !s.closed {
		t.Errorf("%v, stopped %v", err, s.closed)
	}
}

// Every system gets the same number of bytes.
func TestJobsAreOfOneSize(t *testing.T) {
	ofRiver, err := json.Marshal(args(false))
	if err != nil {
		t.Fatal(err)
	}
	if string(ofRiver) != string(input()) || len(ofRiver) != jobBytes {
		t.Errorf("%d and %d bytes", len(ofRiver), len(input()))
	}
}

func TestFigures(t *testing.T) {
	ms := func(d ...int) (out []time.Duration) {
		for _, n := range d {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	ours := measured{system: system{Name: "Mulligan", Group: written}, laps: []lap{{300, 7, ms(1, 2, 9)}, {100, 8, ms(2)}, {200, 9, ms(4, 4)}}}
	same := measured{system: system{Name: "same", Group: written}, laps: []lap{{100, 1, ms(2)}, {100, 1, ms(2)}, {50, 1, ms(1)}}}
	other := measured{system: system{Name: "other", Group: synced}, laps: same.laps}
	f := ours.figures()
	if f.PerSecond != 200 || f.RateSpread != 1 || f.CPU != 8 || f.P50 != 2 || f.P99 != 4 || f.Singles != 6 {
		t.Errorf("%+v", f)
	}
	// Lap by lap: 3, 1, 4 times the throughput and 1, 1, 4 times the latency.
	want := comparison{Mulligan: "Mulligan", Other: "same", Throughput: 3, P50: 1}
	if got := compare([]measured{ours, same, other}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
	if v := want.verdict(); v != "ahead in throughput, behind in p50" {
		t.Error(v)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range []string{"-repetitions 0", "-over 0s", "-jobs 0", "-singles 0", "-only (", "more"} {
		if _, err := parse(strings.Fields(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	o, err := parse([]string{"-only", "asynq"})
	if err != nil || o.repetitions != 5 || !o.only.MatchString("asynq, tuned") {
		t.Errorf("%+v, %v", o, err)
	}
}

// What is missing is named with the packages that bring it.
func TestMissing(t *testing.T) {
	lacking := []system{{needs: []program{{"no-such-program", "its-package"}, {"go", "golang"}}}, {needs: []program{{"no-such-program", "its-package"}}}}
	names, packages := missing(lacking)
	if text := howToInstall(names, packages); !strings.HasPrefix(text, "missing: no-such-program; install Debian's packages with `apt-get install its-package`") {
		t.Error(text)
	}
}

// Of the server its children count, those that have ended too; of this process
// only itself.
func TestTicks(t *testing.T) {
	line := func(parent string) string {
		return "7 (a (b) c) S " + parent + " 7 7 0 -1 4194304 1 2 3 4 100 20 3000 40000 20 0"
	}
	for _, tc := range []struct {
		parent      string
		pid, server int
		want        int
	}{{"1", 7, 7, 43120}, {"5", 7, 5, 120}, {"1", os.Getpid(), 5, 120}, {"1", 7, 5, 0}} {
		if got := ticksOf(line(tc.parent), tc.pid, tc.server); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}
