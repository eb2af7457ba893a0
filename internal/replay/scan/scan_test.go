package scan

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/replay"
	"mulligan/pkg/messages"
)

// pond is a pool with calls that ended, a minute apart.
type pond struct {
	t   *testing.T
	b   *memory.Broker
	ids []string
}

var (
	odd  = messages.NamedRun("odd/1")
	even = messages.NamedRun("even")
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (p *pond) put(m messages.Message) {
	p.t.Helper()
	if winner, err := p.b.PutOnce(context.Background(), m); err != nil || winner != nil {
		p.t.Fatalf("%s: %v, %v", m.Subject, winner, err)
	}
}

// call ends a call; those whose number is divisible by three succeed at once, the others fail
// in two attempts, of which the second had a corrected input and, by five, was ambiguous.
func (p *pond) call(i int) {
	<-time.After(time.Minute) // of the bubble
	run, names := even, p.b.Names()
	if i%2 == 1 {
		run = odd
	}
	id := messages.NewCallID()
	p.ids = append(p.ids, id)
	r := messages.Result{Call: id, Ref: fmt.Sprint(i), Run: run, Tool: fmt.Sprint("tool", i%4), Status: messages.Succeeded, Attempts: 1, Ended: time.Now(), Output: messages.Text("fine")}
	if i%3 > 0 {
		r.Status, r.Code, r.IsError, r.Attempts, r.Dispatch, r.Output = messages.Failed, messages.CodeRecoveryGaveUp, true, 2, 1, messages.Text(fmt.Sprintf("no seat %d", i))
		for n := range 2 {
			f := messages.Failure{
				Call:  messages.Call{ID: id, Ref: r.Ref, Run: run, Tool: r.Tool, Queue: fmt.Sprint("q", i%2), Lane: messages.LaneNormal, Effect: messages.Keyed, Dispatch: n, Attempt: n, Key: fmt.Sprint(id, "-", n)},
				Input: messages.Text(fmt.Sprintf(`{"i":%d,"n":%d}`, i, n)), Output: r.Output, Error: string(r.Output.Inline), Code: messages.CodeToolError, Executed: true, Ambiguous: n == 1 && i%5 == 0, At: time.Now(),
			}
			p.put(must(names.EncodeFailure(f)))
			p.put(must(names.EncodeDecision(messages.Decision{Call: id, Run: run, Dispatch: n, By: "rules", Rule: fmt.Sprint("rule", n), Action: messages.Fail("no"), At: time.Now()})))
		}
	}
	p.put(names.EncodeResult(r))
}

func bubble(t *testing.T, n int, f func(t *testing.T, p *pond)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pond{t: t, b: memory.New(memory.Config{})}
		for i := range n {
			p.call(i)
		}
		f(t, p)
	})
}

func refs(list []*replay.Original) string {
	var out []string
	for _, o := range list {
		out = append(out, o.Ref)
	}
	return strings.Join(out, " ")
}

func (p *pond) newest(sel replay.Selection, before uint64, limit int) []*replay.Original {
	p.t.Helper()
	var out []*replay.Original
	err := (&Scanner{Source: p.b, Selection: &sel}).Newest(p.t.Context(), before, limit, func(o *replay.Original) error { out = append(out, o); return nil })
	if err != nil {
		p.t.Error(err)
	}
	return out
}

func (p *pond) results(sel replay.Selection, r Range) []*replay.Original {
	p.t.Helper()
	var out []*replay.Original
	err := (&Scanner{Source: p.b, Selection: &sel}).Results(p.t.Context(), r, func(o *replay.Original) bool { out = append(out, o); return true })
	if err != nil {
		p.t.Error(err)
	}
	return out
}

func TestFailuresAreFoundFromTheNewestBack(t *testing.T) {
	bubble(t, 20, func(t *testing.T, p *pond) {
		if got := refs(p.newest(replay.Selection{}, 0, 0)); got != "19 17 16 14 13 11 10 8 7 5 4 2 1" {
			t.Error(got)
		}
		page := p.newest(replay.Selection{}, 0, 3)
		if got := refs(page); got != "19 17 16" {
			t.Error(got)
		}
		if got := refs(p.newest(replay.Selection{}, page[2].Position, 3)); got != "14 13 11" {
			t.Error(got)
		}
		if got := refs(p.newest(replay.Selection{Runs: []messages.Run{odd}}, 0, 2)); got != "19 17" {
			t.Error(got)
		}
		if got := refs(p.newest(replay.Selection{Since: time.Now().Add(-4*time.Minute + time.Second)}, 0, 0)); got != "19 17 16" {
			t.Error(got)
		}
		for sel, want := range map[*replay.Selection]string{
			{Queues: []string{"q0"}, Tools: []string{"tool0"}}: "16 8 4",
			{By: []string{"rules/rule1"}}:                      "19 17 16 14 13 11 10 8 7 5 4 2 1",
			{By: []string{"rules/rule0"}}:                      "",
		} {
			if got := refs(p.newest(*sel, 0, 0)); got != want {
				t.Errorf("%+v: %s", sel, got)
			}
		}
		var sel replay.Selection
		if err := sel.Where(`input.i > 16 || ambiguous && rule == "rule1"`); err != nil {
			t.Fatal(err)
		}
		if got := refs(p.newest(sel, 0, 3)); got != "19 17 10" {
			t.Error(got)
		}
		stop := errors.New("enough")
		if err := (&Scanner{Source: p.b, Selection: &replay.Selection{}}).Newest(t.Context(), 0, 0, func(*replay.Original) error { return stop }); !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

func TestResultsAreFoundInTheirOrder(t *testing.T) {
	bubble(t, 20, func(t *testing.T, p *pond) {
		for name, tc := range map[string]struct {
			sel  replay.Selection
			r    Range
			want string
		}{
			"all that failed":       {want: "1 2 4 5 7 8 10 11 13 14 16 17 19"},
			"a range of sequences":  {r: Range{5, 9}, want: "4 5 7 8"},
			"up to one":             {r: Range{To: 3}, want: "1 2"},
			"a range of time":       {sel: replay.Selection{Since: time.Now().Add(-10*time.Minute + time.Second), Until: time.Now().Add(-5*time.Minute + time.Second)}, want: "10 11 13 14"},
			"one run":               {sel: replay.Selection{Runs: []messages.Run{even}}, r: Range{From: 10}, want: "10 14 16"},
			"some calls":            {sel: replay.Selection{Calls: []string{p.ids[3], p.ids[4], messages.NewCallID()}}, want: "3 4"},
			"a text":                {sel: replay.Selection{Text: regexp.MustCompile("seat 1[67]")}, want: "16 17"},
			"every end, of a label": {sel: replay.Selection{Statuses: messages.Ends(), Labels: map[string]string{"x": "y"}}, want: ""},
		} {
			if got := refs(p.results(tc.sel, tc.r)); got != tc.want {
				t.Errorf("%s: %s, want %s", name, got, tc.want)
			}
		}
		s := &Scanner{Source: p.b, Selection: &replay.Selection{Runs: []messages.Run{odd}}}
		if !s.Narrow() || (&Scanner{Source: p.b, Selection: &replay.Selection{Tools: []string{"t"}}}).Narrow() {
			t.Error("a run is found by subject, and a tool is not")
		}
	})
}

// Few stories are read one by one and many as the stream has them: both tell the same.
func TestStoriesTellWhatHappenedAndWithWhich(t *testing.T) {
	bubble(t, 4*few, func(t *testing.T, p *pond) {
		late := p.ids[4]
		p.put(must(messages.EncodeStory(p.b.Names().LateSubject(even, late, 1, "x"), messages.Late{Why: "late", Output: new(messages.Text("done")), At: time.Now()})))
		all := p.results(replay.Selection{Statuses: messages.Ends()}, Range{})
		for name, list := range map[string][]*replay.Original{"few": all[:few], "many": p.results(replay.Selection{Statuses: messages.Ends()}, Range{})} {
			s := &Scanner{Source: p.b, Selection: &replay.Selection{}}
			st, err := s.Stories(t.Context(), list)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range list {
				if err := st.Fill(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if i%3 == 0 {
					if o.HasInput || len(o.Dispatches) > 0 || o.Queue != "" {
						t.Errorf("%s: call %d succeeded at once: %+v", name, i, o)
					}
					continue
				}
				ds := o.Dispatches
				if !o.HasInput || string(o.Input) != fmt.Sprintf(`{"i":%d,"n":0}`, i) || o.Call.Ref != o.Ref || o.Queue != fmt.Sprint("q", i%2) || o.By != "rules" || o.Rule != "rule1" ||
					o.Effect != messages.Keyed || len(ds) != 2 || ds[0].N != 0 || ds[1].N != 1 || ds[0].Ambiguous || ds[1].Ambiguous != (i%5 == 0) ||
					ds[1].Key != o.Result.Call+"-1" || ds[0].Digest == ds[1].Digest || o.LateSuccess != (o.Result.Call == late) {
					t.Errorf("%s: call %d: %+v", name, i, o)
				}
				f, input, err := st.Last(t.Context(), o)
				if err != nil || f.Call.Dispatch != 1 || string(input) != fmt.Sprintf(`{"i":%d,"n":1}`, i) {
					t.Errorf("%s: call %d: last %+v, %s, %v", name, i, f, input, err)
				}
			}
			st.Close()
		}
	})
}

// What the failure of the first dispatch does not tell, the record does: of a call
// that was refused at the gate. A large input is read from where it is kept.
func TestInputsAreFoundWhereTheyAreKept(t *testing.T) {
	bubble(t, 0, func(t *testing.T, p *pond) {
		names, run := p.b.Names(), even
		end := func(id string) *replay.Original {
			return replay.FromResult(messages.Result{Call: id, Run: run, Tool: "t", Status: messages.Failed, Ended: time.Now()}, 1)
		}
		turned, large, gone, other := messages.NewCallID(), messages.NewCallID(), messages.NewCallID(), messages.NewCallID()
		for id, n := range map[string]int{turned: 0, other: 1} {
			r := messages.Record{State: messages.Ended, N: n, LastExecuted: -1, Outcome: &messages.Outcome{Status: messages.Failed}, Input: messages.Text(`{"kept":true}`),
				Call: messages.Call{ID: id, Run: run, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: id, Dispatch: n}}
			must(p.b.Save(t.Context(), messages.BucketAttempts, messages.CallKey(run, id), must(messages.EncodeRecord(r)), 0, 0))
		}
		ref := must(p.b.PutPayload(t.Context(), []byte(`{"large":true}`)))
		for id, ref := range map[string]messages.PayloadRef{large: ref, gone: {Digest: strings.Repeat("a", 64), Size: 5, Chunks: 1}} {
			for n := range 2 {
				p.put(must(names.EncodeFailure(messages.Failure{
					Call:  messages.Call{ID: id, Run: run, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Keyed, Dispatch: n, Attempt: n, Key: id},
					Input: messages.Body{Ref: &ref}, Code: messages.CodeTimeout, Ambiguous: true, Executed: true, At: time.Now(),
				})))
			}
		}
		list := []*replay.Original{end(turned), end(large), end(gone), end(other)}
		st := must((&Scanner{Source: p.b, Selection: &replay.Selection{}}).Stories(t.Context(), list))
		defer st.Close()
		for _, o := range list {
			if err := st.Fill(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if o := list[0]; string(o.Input) != `{"kept":true}` || o.Queue != "q" || o.Effect != messages.Idempotent || o.Call.Key != turned {
			t.Errorf("refused at the gate: %+v", o)
		}
		pl := &replay.Planner{Run: "r", Lane: messages.LaneLow, Tools: map[string]messages.ToolSpec{"t": {Name: "t"}}}
		if it := pl.Plan(t.Context(), list[1], nil); it.Left != nil || it.Submission.Key != large || string(it.Submission.Input) != `{"large":true}` {
			t.Errorf("an input kept apart: %+v", it)
		}
		if list[2].HasInput || list[3].HasInput {
			t.Error("an input that is gone, or of a later dispatch, is taken for the first")
		}
	})
}

func TestRecoveryTellsOfCallsWhoseResultsAreGone(t *testing.T) {
	bubble(t, 12, func(t *testing.T, p *pond) {
		names := p.b.Names()
		running, forgotten := messages.NewCallID(), messages.NewCallID()
		for _, id := range []string{running, forgotten} {
			p.put(must(names.EncodeFailure(messages.Failure{Call: messages.Call{ID: id, Run: odd, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Keyed, Key: id},
				Input: messages.Text("{}"), Code: messages.CodeTimeout, At: time.Now()})))
		}
		r := messages.Record{State: messages.Ended, N: 0, Spent: 1, Outcome: &messages.Outcome{Status: messages.Exhausted, Code: messages.CodeExhausted}, Updated: time.Now(),
			Call: messages.Call{ID: forgotten, Ref: "old", Run: odd, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Key: forgotten}}
		must(p.b.Save(t.Context(), messages.BucketAttempts, messages.CallKey(odd, forgotten), must(messages.EncodeRecord(r)), 0, 0))
		recovery := func(sel replay.Selection, r Range) (string, int) {
			var out []*replay.Original
			open, err := (&Scanner{Source: p.b, Selection: &sel}).Recovery(t.Context(), r, func(o *replay.Original) bool { out = append(out, o); return true })
			if err != nil {
				t.Error(err)
			}
			return refs(out), open
		}
		if got, open := recovery(replay.Selection{}, Range{}); got != "1 2 4 5 7 8 10 11 old" || open != 1 {
			t.Error(got, open)
		}
		if got, open := recovery(replay.Selection{Statuses: []messages.Status{messages.Exhausted}}, Range{}); got != "old" || open != 1 {
			t.Error(got, open)
		}
		if got, _ := recovery(replay.Selection{Runs: []messages.Run{even}}, Range{From: 7}); got != "2 4 8 10" {
			t.Error(got) // the failures of call 2 are messages 5 and 7
		}
		if got, _ := recovery(replay.Selection{Runs: []messages.Run{even}}, Range{From: 8}); got != "4 8 10" {
			t.Error(got)
		}
		if got, _ := recovery(replay.Selection{}, Range{From: 1, To: 4}); got != "1" {
			t.Error(got)
		}
	})
}

func TestSequenceAtIsThatOfALinearSearch(t *testing.T) {
	bubble(t, 40, func(t *testing.T, p *pond) {
		var times []time.Time
		if err := p.b.ListFrom(t.Context(), messages.StreamResults, nil, 0, func(m messages.Stored) bool { times = append(times, m.Time); return true }); err != nil {
			t.Fatal(err)
		}
		for i := range 90 {
			at := times[0].Add(time.Duration(i-20) * 30 * time.Second)
			want := slices.IndexFunc(times, func(x time.Time) bool { return !x.Before(at) })
			if want < 0 {
				want = len(times)
			}
			if got, err := SequenceAt(t.Context(), p.b, messages.StreamResults, at); err != nil || got != uint64(want)+1 {
				t.Fatalf("%s: %d, %v, want %d", at, got, err, want+1)
			}
		}
		if got, err := SequenceAt(t.Context(), p.b, messages.StreamCalls, time.Now()); err != nil || got != 1 {
			t.Errorf("of an empty stream: %d, %v", got, err)
		}
	})
}

// A scan ends with its context, and says how far it is.
func TestAScanCanBeStopped(t *testing.T) {
	bubble(t, 10, func(t *testing.T, p *pond) {
		stop := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &Scanner{Source: p.b, Selection: &replay.Selection{}}
		err := s.Results(ctx, Range{}, func(*replay.Original) bool { cancel(stop); return true })
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}
