package runstate

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTheStateOfARun(t *testing.T) {
	ended, over, closed, spec := &messages.Cancel{}, &messages.RunOver{}, &messages.RunClosed{}, &messages.RunSpec{}
	for _, c := range []struct {
		what string
		e    messages.RunEntry
		want State
	}{
		{"nobody declared it", messages.RunEntry{}, Open},
		{"declared", messages.RunEntry{Spec: spec}, Open},
		{"closed", messages.RunEntry{Spec: spec, Closed: closed}, Closed},
		{"closed, and all have ended", messages.RunEntry{Spec: spec, Closed: closed, Over: over}, Over},
		{"ended hard", messages.RunEntry{Ended: ended}, Ended},
		{"ended hard after it was closed", messages.RunEntry{Closed: closed, Ended: ended}, Ended},
		{"ended hard, and all have ended", messages.RunEntry{Closed: closed, Ended: ended, Over: over}, Ended},
	} {
		if got := Of(c.e); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if got := fmt.Sprint(States()); got != "[open closed over ended]" {
		t.Errorf("states %s", got)
	}
}

func TestTheTotalOfARun(t *testing.T) {
	seen := Progress{Ended: 1, Queued: 2, Waiting: 4, Parked: 8}
	expects := func(n int64) *messages.RunSpec { return &messages.RunSpec{Expected: n} }
	closed := func(n int64) *messages.RunClosed { return &messages.RunClosed{Calls: &n} }
	for _, c := range []struct {
		what  string
		e     messages.RunEntry
		total int64
		sure  bool
		left  int64
	}{
		{"what is known", messages.RunEntry{}, 15, false, 14},
		{"more are expected", messages.RunEntry{Spec: expects(20)}, 20, false, 19},
		{"more are known than were expected", messages.RunEntry{Spec: expects(10)}, 15, false, 14},
		{"closed without a number", messages.RunEntry{Closed: &messages.RunClosed{}, Spec: expects(20)}, 20, false, 19},
		{"closed with a number", messages.RunEntry{Closed: closed(16), Spec: expects(20)}, 16, true, 15},
		{"closed with none", messages.RunEntry{Closed: closed(0)}, 0, true, 0},
		{"over", messages.RunEntry{Closed: closed(16), Over: &messages.RunOver{RunCounts: messages.RunCounts{Calls: 3}}}, 3, true, 2},
	} {
		was := seen
		was.Total, was.Sure = 99, true // of an earlier look
		got := was.WithTotal(c.e)
		if got.Total != c.total || got.Sure != c.sure || got.Left() != c.left {
			t.Errorf("%s: %d sure=%v left %d, want %d sure=%v left %d", c.what, got.Total, got.Sure, got.Left(), c.total, c.sure, c.left)
		}
		if got.Known() != 15 {
			t.Errorf("%s: %d are known, want 15", c.what, got.Known())
		}
	}
}

func TestEstimates(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		what        string
		left, ended int64
		took, want  time.Duration
		ok          bool
	}{
		{"a third is done", 20, 10, time.Minute, 2 * time.Minute, true},
		{"a part of the pace", 1, 4, time.Minute, 15 * time.Second, true},
		{"nothing is left", 0, 10, time.Minute, 0, true},
		{"nothing is left and nothing ended", 0, 0, 0, 0, true},
		{"more ended than there were", -1, 10, time.Minute, 0, true},
		{"nothing has ended", 10, 0, time.Minute, 0, false},
		{"fewer ended than before", 10, -1, time.Minute, 0, false},
		{"no time has passed", 10, 10, 0, 0, false},
		{"the clock went back", 10, 10, -time.Minute, 0, false},
		{"a year", 365, 1, 24 * time.Hour, year, true},
		{"more than a year", 366, 1, 24 * time.Hour, 0, false},
		{"more than can be said", math.MaxInt64, 1, year, 0, false},
	} {
		if got, ok := Estimate(c.left, c.ended, c.took); got != c.want || ok != c.ok {
			t.Errorf("%s: %s %v, want %s %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

// An estimate follows the pace of the last minute, and not that before it.
func TestThePace(t *testing.T) {
	type count struct {
		after time.Duration
		ended int64
	}
	for _, c := range []struct {
		what   string
		counts []count
		left   int64
		want   time.Duration
		ok     bool
	}{
		{"nothing was counted", nil, 10, 0, false},
		{"nothing was counted and nothing is left", nil, 0, 0, true},
		{"one count has no pace", []count{{0, 10}}, 10, 0, false},
		{"two counts", []count{{0, 10}, {10 * time.Second, 20}}, 30, 30 * time.Second, true},
		{"nothing moves", []count{{0, 10}, {10 * time.Second, 10}}, 30, 0, false},
		{"what is older than a minute is forgotten", []count{{0, 0}, {10 * time.Second, 1000}, {40 * time.Second, 1030}, {80 * time.Second, 1060}}, 40, 40 * time.Second * 40 / 30, true},
		{"a minute still counts", []count{{0, 0}, {30 * time.Second, 0}, {60 * time.Second, 60}}, 10, 10 * time.Second, true},
		{"two counts stay, however old", []count{{0, 0}, {time.Hour, 60}}, 1, time.Minute, true},
	} {
		var p Pace
		for _, n := range c.counts {
			p.Note(noon.Add(n.after), n.ended)
		}
		if got, ok := p.Rest(c.left); got != c.want || ok != c.ok {
			t.Errorf("%s: %s %v, want %s %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

// However often is looked, a pace holds a minute of seconds.
func TestAPaceIsBounded(t *testing.T) {
	var p Pace
	for i := range 100_000 {
		p.Note(noon.Add(time.Duration(i)*10*time.Millisecond), int64(i))
	}
	if n := len(p.seen); n < 30 || n > 63 {
		t.Errorf("%d counts are held, want about one for each second of a minute", n)
	}
	if got, ok := p.Rest(100); !ok || got.Round(time.Millisecond) != time.Second {
		t.Errorf("the rest takes %s %v, want 1s", got, ok)
	}
}

func TestResultsAreCounted(t *testing.T) {
	var c messages.RunCounts
	for i, r := range []messages.Result{
		{Tool: "a", Status: messages.Succeeded, Attempts: 1, Ended: noon.Add(2 * time.Second)},
		{Tool: "a", Status: messages.Succeeded, Attempts: 2, Ended: noon},
		{Tool: "b", OriginalTool: "a", Status: messages.Succeeded, Attempts: 1, RecoveredBy: "tool_fix", Ended: noon.Add(3 * time.Second)},
		{Tool: "b", Status: messages.Failed, Attempts: 3, RecoveredBy: "input_fix", Ended: noon.Add(time.Second)},
	} {
		if Add(&c, r); c.Calls != int64(i+1) {
			t.Fatalf("%d calls after %d", c.Calls, i+1)
		}
	}
	if c.Outcomes[messages.Succeeded] != 3 || c.Outcomes[messages.Failed] != 1 || len(c.Outcomes) != 2 {
		t.Errorf("outcomes %v", c.Outcomes)
	}
	if c.Recovered != 2 {
		t.Errorf("%d recovered, want the one that was tried again and the one that was corrected", c.Recovered)
	}
	if Failed(c) != 1 {
		t.Errorf("%d failed, want 1", Failed(c))
	}
	for tool, want := range map[string]map[messages.Status]int64{"a": {messages.Succeeded: 3}, "b": {messages.Failed: 1}} {
		if !maps.Equal(c.Tools[tool], want) {
			t.Errorf("tool %s: %v, want %v", tool, c.Tools[tool], want)
		}
	}
	if !c.First.Equal(noon) || !c.Last.Equal(noon.Add(3*time.Second)) {
		t.Errorf("from %s to %s", c.First, c.Last)
	}
	if Failed(messages.RunCounts{}) != 0 {
		t.Error("a run without calls has failed ones")
	}
}

// Tools above the limit stand together, those that are known stay apart.
func TestToolsOfARunAreBounded(t *testing.T) {
	var c messages.RunCounts
	add := func(tool string) { Add(&c, messages.Result{Tool: tool, Status: messages.Succeeded}) }
	for i := range MostTools {
		add(fmt.Sprint("tool", i))
	}
	if c.MoreTools || len(c.Tools) != MostTools {
		t.Fatalf("%d tools, more=%v", len(c.Tools), c.MoreTools)
	}
	add("tool0")
	if c.MoreTools || c.Tools["tool0"][messages.Succeeded] != 2 {
		t.Errorf("a tool that is known: %v, more=%v", c.Tools["tool0"], c.MoreTools)
	}
	add("another")
	add("yet another")
	if !c.MoreTools || len(c.Tools) != MostTools+1 || c.Tools[""][messages.Succeeded] != 2 {
		t.Errorf("%d tools, the others %v, more=%v", len(c.Tools), c.Tools[""], c.MoreTools)
	}
	if c.Calls != MostTools+3 {
		t.Errorf("%d calls", c.Calls)
	}
}

func TestIDs(t *testing.T) {
	const id = "0198c0de-0000-7000-8000-00000000002a"
	if got := IDOf(id); got.String() != id || got == IDOf("0198c0de-0000-7000-8000-00000000002b") {
		t.Errorf("%s became %s", id, got)
	}
	if IDOf("none") != (ID{}) {
		t.Error("what is no id has one")
	}
}

func TestARunIsShown(t *testing.T) {
	batch := messages.UnnamedRun("0198c0de-0000-7000-8000-00000000002a")
	for run, want := range map[messages.Run]string{messages.NamedRun("a b"): "a b", batch: string(batch)} {
		if v := ViewOf(messages.RunEntry{Run: run, Closed: &messages.RunClosed{}}); v.Name != want || v.State != Closed || v.Progress != nil {
			t.Errorf("%s: %+v, want the name %s", run, v, want)
		}
	}
	p := Progress{Ended: 10, Total: 30}
	now := noon.Add(time.Minute)
	declared := messages.RunEntry{Created: noon}
	over := messages.RunEntry{Created: noon, Over: &messages.RunOver{}}
	later := &messages.RunCounts{First: noon.Add(30 * time.Second)}
	for _, c := range []struct {
		what   string
		e      messages.RunEntry
		p      Progress
		counts *messages.RunCounts
		want   time.Duration // below 0: nothing is said
	}{
		{"since it was declared", declared, p, nil, 2 * time.Minute},
		{"since its first end", declared, p, later, time.Minute},
		{"nothing has been counted", declared, p, &messages.RunCounts{}, 2 * time.Minute},
		{"nothing has ended", declared, Progress{Total: 30}, nil, -1},
		{"it is over", over, p, nil, -1},
	} {
		v := ViewOf(c.e).With(c.p, c.counts, now)
		got := time.Duration(-1)
		if v.Left != nil {
			got = v.Left.Duration()
		}
		if got != c.want || *v.Progress != c.p || v.Counts != c.counts {
			t.Errorf("%s: %s, want %s (%+v)", c.what, got, c.want, v)
		}
	}
}
