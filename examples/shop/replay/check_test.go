package replay_test

import (
	"strings"
	"testing"

	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/replay"
	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// world is a run with one call, as all parties tell it.
type world struct {
	config  replay.Config
	outcome replay.Outcome
}

const (
	reader = "retail/get_order_details"
	writer = "retail/cancel_pending_order"
	retry  = 2 // the policy of these runs
)

// ended makes a world in which a call of a tool ended in a way, after failures.
func ended(tool string, status messages.Status, output string, effects int, failures ...messages.Failure) world {
	id := "01a22ced-3e72-7ecf-a797-2b64ac2f9074"
	w := world{config: replay.Config{Calls: []messages.Submission{{Ref: "r#1", Run: "r", Tool: tool}}}}
	attempts := len(failures)
	if status == messages.Succeeded {
		attempts++
	}
	line := answer(status, output)
	line.Call, line.Ref, line.Attempts = id, "r#1", attempts
	w.outcome.Lines = []calls.Result{line}
	w.outcome.Summary.Count(line)
	w.outcome.Results = []messages.Result{{Call: id, Ref: "r#1", Status: status, Attempts: attempts, Worker: "w1"}}
	w.outcome.ResultsWritten = 1
	for i, f := range failures {
		f.Call.ID, f.Call.Attempt, f.Executed = id, i, true
		w.outcome.Failures = append(w.outcome.Failures, f)
	}
	for n := range effects {
		w.outcome.Effects.Effects = append(w.outcome.Effects.Effects, effectlog.Effect{Seq: int64(n + 1), Run: "r", Call: "r#1"})
	}
	return w
}

// where gives the world faults that strike execution n of its call exactly
// where struck says so.
func (w world) where(t *testing.T, struck ...bool) world {
	t.Helper()
	for seed := range uint64(10_000) {
		w.config.Plan = faults.Plan{Before: 0.5, Seed: seed}
		fits := true
		for i, s := range struck {
			fits = fits && (w.config.Plan.Decide("r#1", i+1) != faults.None) == s
		}
		if fits {
			return w
		}
	}
	t.Fatal("no seed strikes so")
	return w
}

func (w world) with(change func(*world)) world {
	change(&w)
	return w
}

var (
	definite  = messages.Failure{Code: messages.CodeUnavailable}
	ambiguous = messages.Failure{Code: messages.CodeTimeout, Ambiguous: true}
)

func TestCheckAcceptsWhatWasPromised(t *testing.T) {
	for name, w := range map[string]world{
		"a reader at once":                 ended(reader, messages.Succeeded, "{}", 0),
		"a writer at once":                 ended(writer, messages.Succeeded, "{}", 1),
		"a writer after a refusal":         ended(writer, messages.Succeeded, "{}", 1, definite).where(t, true, false),
		"a reader refused by the shop":     ended(reader, messages.Failed, "Error: order not found", 0, definite).where(t, false),
		"a made-up tool":                   ended("retail/search", messages.Failed, "Unknown action search", 0, definite),
		"a writer whose answer was lost":   ended(writer, messages.StatusUnknown, "no answer", 1, ambiguous).where(t, true),
		"a writer that was not reached":    ended(writer, messages.StatusUnknown, "no answer", 0, ambiguous).where(t, true),
		"a reader struck three times":      ended(reader, messages.Failed, "no answer", 0, definite, definite, definite).where(t, true, true, true),
		"struck, then refused by the shop": ended(reader, messages.Failed, "Error: order not found", 0, definite, definite).where(t, true, false),
	} {
		if v := replay.Check(w.config, retry, w.outcome); len(v.Violations) > 0 {
			t.Errorf("%s: %q", name, v.Violations)
		}
	}
}

func TestCheckFindsWhatWasBroken(t *testing.T) {
	for name, c := range map[string]struct {
		world world
		want  string
	}{
		"two effects":            {ended(writer, messages.Succeeded, "{}", 2), "took effect 2 times"},
		"two effects, unknown":   {ended(writer, messages.StatusUnknown, "", 2, ambiguous), "took effect 2 times"},
		"no effect":              {ended(writer, messages.Succeeded, "{}", 0), "succeeded without an effect"},
		"a hidden effect":        {ended(writer, messages.Failed, "Error: no", 1, definite), "ended failed although"},
		"a reader with effects":  {ended(reader, messages.Succeeded, "{}", 1), "changes nothing, and took effect"},
		"ambiguity hidden":       {ended(writer, messages.Failed, "Error: no", 0, ambiguous), "an answer of it was lost: true"},
		"ambiguity made up":      {ended(writer, messages.StatusUnknown, "", 0, definite), "an answer of it was lost: false"},
		"success after doubt":    {ended(writer, messages.Succeeded, "", 1, ambiguous), "an answer of it was lost: true"},
		"a reader in doubt":      {ended(reader, messages.StatusUnknown, "", 0, ambiguous), "ended unknown"},
		"given up too early":     {ended(reader, messages.Failed, "busy", 0, definite, definite).where(t, true, true), "after a fault"},
		"failed without a fault": {ended(reader, messages.Failed, "busy", 0, definite).where(t, false), "was not struck"},
		"a hard end":             {ended(reader, messages.Exhausted, "busy", 0, definite, definite, definite), "ended exhausted"},
		"too many attempts":      {ended(reader, messages.Succeeded, "{}", 0, definite, definite, definite), "4 attempts by its result"},
		"refused":                {ended(reader, messages.Refused, "", 0).with(func(w *world) { w.outcome.Results, w.outcome.ResultsWritten = nil, 0 }), "was refused"},
		"refused and run":        {ended(reader, messages.Refused, "", 0), "has a result all the same"},
		"no result": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) { w.outcome.Results, w.outcome.ResultsWritten = nil, 0 }), "has 0 results",
		},
		"two results": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) {
				w.outcome.Results, w.outcome.ResultsWritten = append(w.outcome.Results, w.outcome.Results[0]), 2
			}), "has 2 results",
		},
		"a result written again": {ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) { w.outcome.ResultsWritten = 2 }), "was written 2 times"},
		"told otherwise": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) { w.outcome.Results[0].Status = messages.Failed }), "was told succeeded",
		},
		"a foreign result": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) {
				w.outcome.Results, w.outcome.ResultsWritten = append(w.outcome.Results, messages.Result{Call: "else"}), 2
			}), "that nobody submitted: else",
		},
		"a foreign effect": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) {
				w.outcome.Effects.Effects = []effectlog.Effect{{Seq: 1, Run: "r", Call: "r#2"}}
			}), "nobody submitted: r#2",
		},
		"lines out of order": {ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) { w.outcome.Lines[0].Ref = "r#2" }), `that of "r#2"`},
		"refs that are not unique": {
			ended(reader, messages.Succeeded, "{}", 0).with(func(w *world) {
				w.config.Calls = append(w.config.Calls, w.config.Calls[0])
				w.outcome.Lines = append(w.outcome.Lines, w.outcome.Lines[0])
			}), "1 different refs",
		},
	} {
		v := replay.Check(c.world.config, retry, c.world.outcome)
		if !strings.Contains(strings.Join(v.Violations, "\n"), c.want) {
			t.Errorf("%s: found %q, not %q", name, v.Violations, c.want)
		}
	}
}

func TestVerdictPrinted(t *testing.T) {
	w := ended(writer, messages.StatusUnknown, "no answer", 1, ambiguous).where(t, true)
	v := replay.Check(w.config, retry, w.outcome)
	v.GaveUp, v.Violations = 3, []string{"r#1: is wrong"}
	var text strings.Builder
	if err := v.Print(&text); err != nil {
		t.Fatal(err)
	}
	want := `VIOLATION: r#1: is wrong
struck: 1 executions before the state was touched, 0 after it was changed or read; 1 workers ran something
calls of unsafe tools that took effect and whose answer was lost: 1
ended softly with a fault, after all the attempts that the policy allows: 3 calls
faults: 1 calls, 0 recovered, 1 unknown, 1 violations
`
	if text.String() != want {
		t.Errorf("printed is\n%s", text.String())
	}
}

// The sample has refs that tell its calls apart, and both kinds of tools.
func TestSample(t *testing.T) {
	refs := make(map[string]bool)
	for _, s := range replay.Sample(5) {
		refs[s.Ref] = true
		if !strings.HasPrefix(s.Ref, s.Run+"#") {
			t.Errorf("ref %s is not of run %s", s.Ref, s.Run)
		}
	}
	if len(refs) != len(replay.Sample(5)) || len(refs) < 5 {
		t.Errorf("%d refs for %d calls", len(refs), len(replay.Sample(5)))
	}
}
