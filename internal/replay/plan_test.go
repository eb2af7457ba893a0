package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/internal/story"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

const id = "01890000-0000-7000-8000-000000000001"

var epoch = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func original(change ...func(*Original)) *Original {
	o := &Original{
		Result: messages.Result{Call: id, Ref: "r7", Run: messages.NamedRun("demo"), Tool: "book", Status: messages.Failed, Code: messages.CodeToolError, Ended: epoch, Attempts: 1},
		Effect: messages.Unsafe, HasInput: true, Input: []byte(`{"to":"ZRH","limit":"5"}`),
		Call: messages.Call{ID: id, Key: id, Lane: messages.LaneHigh, Timeout: messages.Millis(time.Second), Task: "go", Labels: messages.Labels{"team": "a"},
			Policy: json.RawMessage(`{"max_retries":1}`), Deadline: epoch},
	}
	o.Dispatches = []Dispatch{{Digest: recovery.Digest("book", o.Input), Key: id, Effect: messages.Unsafe}}
	for _, f := range change {
		f(o)
	}
	return o
}

func planner(change ...func(*Planner)) *Planner {
	pl := &Planner{Run: "again", Lane: messages.LaneLow, Tools: map[string]messages.ToolSpec{
		"book":  {Name: "book", Effect: messages.Unsafe, Schema: json.RawMessage(`{"type":"object","properties":{"limit":{"type":"integer"}},"required":["to"]}`)},
		"other": {Name: "other", Effect: messages.ReadOnly, Schema: json.RawMessage(`{"type":"object","required":["from"]}`)},
	}}
	for _, f := range change {
		f(pl)
	}
	return pl
}

func patch(t *testing.T, text string) func(*Planner) {
	return func(pl *Planner) {
		t.Helper()
		if err := pl.Change.Patch([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// A replay is the call as it was submitted, in another run and lane, and says
// what it replays. Nothing of the original changes.
func TestS11_1_AReplayIsANewCallWithALink(t *testing.T) {
	o := original()
	s := planner().Plan(t.Context(), o, nil).Submission
	if s.Call != "" || s.Run != "again" || s.Lane != messages.LaneLow || s.Ref != "r7" || s.Tool != "book" || string(s.Input) != string(o.Input) || !s.Deadline.IsZero() ||
		s.Timeout != o.Call.Timeout || s.Task != "go" || s.Key != "" || string(s.Policy) != `{"max_retries":1}` {
		t.Errorf("%+v", s)
	}
	if s.Labels["team"] != "a" || s.Labels.ReplayOf() != id || len(o.Call.Labels) != 1 {
		t.Errorf("labels %v, of the original %v", s.Labels, o.Call.Labels)
	}
	if s := planner(func(pl *Planner) { pl.Policy = json.RawMessage(`{"max_retries":0}`) }).Plan(t.Context(), o, nil).Submission; string(s.Policy) != `{"max_retries":0}` {
		t.Errorf("policy %s", s.Policy)
	}
}

// What was changed has to fit the schema of the tool that would run; what was
// not is the pool's to judge, as it was.
func TestS11_2_AChangedInputHasToFit(t *testing.T) {
	it := planner(patch(t, `[{"op":"replace","path":"/limit","value":5}]`)).Plan(t.Context(), original(), nil)
	if it.Left != nil || string(it.Submission.Input) != `{"to":"ZRH","limit":5}` || len(it.Changes) != 1 || it.Changes[0] != (story.Change{Path: "input.limit", From: `"5"`, To: "5"}) {
		t.Errorf("%+v", it)
	}
	for name, tc := range map[string]struct {
		pl     *Planner
		p      *Proposal
		o      *Original
		reason Reason
		text   string
	}{
		"it breaks the schema":         {pl: planner(patch(t, `[{"op":"replace","path":"/limit","value":"many"}]`)), reason: LeftMisfit, text: "limit"},
		"it takes what is required":    {pl: planner(patch(t, `[{"op":"remove","path":"/to"}]`)), reason: LeftMisfit, text: "to"},
		"another tool wants another":   {pl: planner(func(pl *Planner) { pl.Change.Tool = "other" }), reason: LeftMisfit, text: "from"},
		"the tool is not there":        {pl: planner(func(pl *Planner) { pl.Change.Tool = "gone" }), reason: LeftNoTool, text: `"gone"`},
		"the patch fails":              {pl: planner(patch(t, `[{"op":"test","path":"/to","value":"BSL"}]`)), reason: LeftUnchanged, text: "the patch"},
		"a proposal breaks the schema": {pl: planner(), p: &Proposal{Retry: true, Input: []byte(`{"limit":5}`)}, reason: LeftMisfit, text: "to"},
		"the reflector gives up":       {pl: planner(), p: &Proposal{Why: "the order does not exist"}, reason: LeftNoProposal, text: "does not exist"},
		"the input is gone":            {pl: planner(), o: original(func(o *Original) { o.Forget() }), reason: LeftNoInput, text: "not kept"},
		"no room for the label": {pl: planner(), o: original(func(o *Original) { o.Call.Labels = messages.Labels{"x": strings.Repeat("x", messages.MaxLabels-10)} }),
			reason: LeftTooLarge, text: "labels take"},
	} {
		if tc.o == nil {
			tc.o = original()
		}
		it := tc.pl.Plan(t.Context(), tc.o, tc.p)
		if it.Left == nil || it.Left.Reason != tc.reason || !strings.Contains(it.Left.Text, tc.text) {
			t.Errorf("%s: %+v", name, it.Left)
		}
	}
	it = planner().Plan(t.Context(), original(func(o *Original) { o.Input = []byte(`{"limit":"many"}`) }), nil)
	if it.Left != nil || len(it.Changes) > 0 {
		t.Errorf("an input that is as it was: %+v", it)
	}
	fixed := planner().Plan(t.Context(), original(), &Proposal{Retry: true, Tool: "book", Input: []byte(`{"to":"ZRH","limit":5}`), By: "rules/json-type"})
	if fixed.Left != nil || fixed.By != "rules/json-type" || len(fixed.Changes) != 1 || string(fixed.Submission.Input) != `{"to":"ZRH","limit":5}` {
		t.Errorf("a proposal that fits: %+v", fixed)
	}
}

// An ambiguous attempt lends its key, to the same tool and input only.
func TestS11_3_TheSameEffectHasTheSameKey(t *testing.T) {
	doubtful := func(o *Original) {
		o.Effect, o.Dispatches[0].Effect, o.Dispatches[0].Ambiguous, o.Dispatches[0].Key = messages.Keyed, messages.Keyed, true, "k1"
	}
	same := original(doubtful, func(o *Original) { o.Input = []byte(`{"limit": "5", "to": "ZRH"}`) }) // in another form
	if it := planner().Plan(t.Context(), same, nil); it.Left != nil || it.Submission.Key != "k1" {
		t.Errorf("%+v", it)
	}
	change := patch(t, `[{"op":"replace","path":"/limit","value":5}]`)
	if it := planner(change).Plan(t.Context(), original(doubtful), nil); it.Left == nil || it.Left.Reason != LeftEffect {
		t.Errorf("another effect: %+v", it)
	}
	if it := planner(change, func(pl *Planner) { pl.Effects = true }).Plan(t.Context(), original(doubtful), nil); it.Left != nil || it.Submission.Key != "" {
		t.Errorf("another effect, wanted: %+v", it)
	}
}

// A call that may have had its effect runs again only where it was named, or
// where all such calls are meant.
func TestS11_4_WhatMayHaveHadItsEffectIsLeftOut(t *testing.T) {
	o := func() *Original {
		return original(func(o *Original) { o.Status, o.Dispatches[0].Ambiguous = messages.StatusUnknown, true })
	}
	if it := planner().Plan(t.Context(), o(), nil); it.Left == nil || it.Left.Reason != LeftEffect || !strings.Contains(it.Left.Text, "may have had its effect") {
		t.Errorf("%+v", it.Left)
	}
	for name, change := range map[string]func(*Planner){
		"named": func(pl *Planner) { pl.Named = map[string]bool{id: true} }, "all": func(pl *Planner) { pl.Effects = true },
	} {
		if it := planner(change).Plan(t.Context(), o(), nil); it.Left != nil || it.Submission.Key != id {
			t.Errorf("%s: %+v, key %q", name, it.Left, it.Submission.Key)
		}
	}
	// One that never failed has the effect of its tool as it is now.
	bare := func(tool string) *Original {
		return original(func(o *Original) { o.Status, o.Effect, o.Dispatches, o.Tool = messages.Succeeded, "", nil, tool })
	}
	if it := planner().Plan(t.Context(), bare("book"), nil); it.Left == nil || it.Left.Reason != LeftEffect {
		t.Errorf("a success of an unsafe tool: %+v", it.Left)
	}
	if it := planner().Plan(t.Context(), bare("other"), nil); it.Left != nil {
		t.Errorf("a success of a tool that reads: %+v", it.Left)
	}
}

func TestS11_5_WhatWasReplayedIsLeftOut(t *testing.T) {
	before := func(pl *Planner) { pl.Replayed = map[string]bool{id: true} }
	if it := planner(before).Plan(t.Context(), original(), nil); it.Left == nil || it.Left.Reason != LeftReplayed {
		t.Errorf("%+v", it.Left)
	}
}

// simulate submits as a pace says, to a pool that ends each call half a second
// after its submission, and gives what was submitted by the second.
func simulate(t *testing.T, p *Pace, status func(i int) bool) (perSecond []int, err error) {
	t.Helper()
	type call struct {
		ends time.Time
		ok   bool
	}
	var open []call
	submitted, ended, succeeded := 0, 0, 0
	for now := epoch; submitted < p.Total || len(open) > 0; {
		for len(open) > 0 && !open[0].ends.After(now) {
			if ended++; open[0].ok {
				succeeded++
			}
			open = open[1:]
		}
		n, wait, err := p.Next(now, submitted, ended, succeeded)
		if err != nil {
			return perSecond, err
		}
		for range min(n, p.Total-submitted) {
			second := int(now.Sub(epoch) / time.Second)
			for len(perSecond) <= second {
				perSecond = append(perSecond, 0)
			}
			perSecond[second]++
			open = append(open, call{now.Add(500 * time.Millisecond), status(submitted)})
			submitted++
		}
		switch {
		case n > 0 && submitted < p.Total:
		case wait > 0:
			now = now.Add(wait)
		case len(open) > 0:
			now = open[0].ends
		case submitted < p.Total:
			t.Fatalf("nothing to wait for at %d submitted, %d ended", submitted, ended)
		}
		if now.Sub(epoch) > time.Hour {
			t.Fatal("it does not end")
		}
	}
	return perSecond, nil
}

func TestPaceKeepsItsRate(t *testing.T) {
	all := func(int) bool { return true }
	got, err := simulate(t, &Pace{Rate: 200, Total: 1000}, all)
	if err != nil || len(got) < 5 {
		t.Fatalf("%v, %v", got, err)
	}
	for second, n := range got {
		if n > 220 || n < 150 && second < 4 {
			t.Errorf("%d in second %d of %v", n, second, got)
		}
	}
	if got, _ := simulate(t, &Pace{Rate: 0.5, Total: 3}, all); fmt.Sprint(got) != "[1 0 1 0 1]" {
		t.Errorf("one in two seconds: %v", got)
	}
	if got, _ := simulate(t, &Pace{Total: 1000}, all); got[0] != 1000 {
		t.Errorf("without a rate: %v", got)
	}
}

// A pause, such as that of a pool without a coordinator, is not made up for.
func TestPaceMakesUpForNothing(t *testing.T) {
	p := &Pace{Rate: 100, Total: 1000}
	p.Next(epoch, 0, 0, 0)
	if n, _, _ := p.Next(epoch.Add(time.Minute), 5, 5, 5); n > 10 {
		t.Errorf("%d at once after a minute", n)
	}
}

func TestCanary(t *testing.T) {
	good := func(share int) func(int) bool { return func(i int) bool { return i%10 < share } }
	for name, tc := range map[string]struct {
		p     Pace
		good  int // of ten
		calls int // submitted in all
		err   string
	}{
		"enough succeed":     {Pace{Canary: 20, Ratio: 0.9, Total: 100}, 9, 100, ""},
		"too few do":         {Pace{Canary: 20, Ratio: 0.9, Total: 100, Rate: 50}, 8, 20, "16 of the first 20 calls succeeded, and a share of 0.9"},
		"none has to":        {Pace{Canary: 20, Ratio: 0, Total: 100}, 0, 100, ""},
		"it is all of them":  {Pace{Canary: 100, Ratio: 1, Total: 100}, 5, 100, ""},
		"there is no canary": {Pace{Ratio: 1, Total: 100}, 5, 100, ""},
	} {
		got, err := simulate(t, &tc.p, good(tc.good))
		sum := 0
		for _, n := range got {
			sum += n
		}
		if sum != tc.calls || (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %d calls, %v", name, sum, err)
		}
	}
	// Later failures do not undo a canary that went well, also after a pause.
	if _, _, err := (&Pace{Canary: 20, Ratio: 0.9, Total: 100}).Next(epoch, 50, 50, 20); err != nil {
		t.Error(err)
	}
}
