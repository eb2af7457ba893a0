package replay

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/tools"
	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// Verdict is what a run with faults has shown.
type Verdict struct {
	Calls     int
	Recovered int // succeeded in the end, after a failure
	Unknown   int
	// Violations are broken promises, one text each.
	Violations []string

	// Struck counts the executions that a fault struck, by its kind.
	Struck map[faults.Kind]int
	// Lost is how many unsafe calls took effect and had their answer lost.
	Lost int
	// GaveUp are the calls that ended softly with a fault, since they had all
	// the attempts that the policy allows.
	GaveUp  int
	Workers int // that ran something
}

// Check holds what happened against what Mulligan promises:
//
//   - every accepted call has exactly one result, in RESULTS as in what its
//     submitter was told, and no result was ever written a second time (S5.1);
//   - no call has more than six attempts (S4.1);
//   - a call of an unsafe tool took effect once if it succeeded, never if it
//     failed, and at most once if it ended unknown, by the shop's own log (S7.3);
//   - it ends unknown if, and only if, an answer of it was lost (S7.7);
//   - any other call ends with the shop's own answer, unless faults used up the
//     attempts that the policy allows.
//
// retries is how many the policy allows.
func Check(c Config, retries int, out Outcome) Verdict {
	k := &checker{
		plan: c.Plan, attempts: min(retries, messages.MaxRetries) + 1, out: out, unsafe: unsafeTools(),
		results: make(map[string][]messages.Result), failures: make(map[string][]messages.Failure), effects: out.Effects.PerCall(),
		verdict: Verdict{Calls: len(c.Calls), Recovered: out.Summary.Recovered, Unknown: out.Summary.Unknown, Struck: make(map[faults.Kind]int)},
	}
	for _, r := range out.Results {
		k.results[r.Call] = append(k.results[r.Call], r)
	}
	for _, f := range out.Failures {
		k.failures[f.Call.ID] = append(k.failures[f.Call.ID], f)
	}
	for i, s := range c.Calls {
		k.call(s, out.Lines[i])
	}
	k.whole(c.Calls)
	return k.verdict
}

func unsafeTools() map[string]bool {
	unsafe := make(map[string]bool)
	for _, s := range tools.Tools() {
		unsafe[s.Name] = s.Effect == tools.Unsafe
	}
	return unsafe
}

type checker struct {
	plan     faults.Plan
	attempts int // that the policy allows
	out      Outcome
	unsafe   map[string]bool
	results  map[string][]messages.Result  // by call id
	failures map[string][]messages.Failure // by call id
	effects  map[effectlog.CallID]int
	verdict  Verdict
}

func (k *checker) violation(format string, args ...any) {
	k.verdict.Violations = append(k.verdict.Violations, fmt.Sprintf(format, args...))
}

// call checks one call by itself.
func (k *checker) call(s messages.Submission, line calls.Result) {
	if line.Ref != s.Ref {
		k.violation("%s: the line in its place is that of %q", s.Ref, line.Ref)
		return
	}
	failures := k.failures[line.Call]
	k.strikes(s, line, failures)
	k.oneResult(s, line)
	k.bounded(s, line, failures)
	k.effect(s, line, failures)
	if line.Status != messages.Succeeded && (line.Status != messages.StatusUnknown || !k.unsafe[s.Tool]) {
		k.answered(s, line, failures)
	}
}

// executions of a call that reached the shop.
func executions(line calls.Result, failures []messages.Failure) int {
	n := 0
	for _, f := range failures {
		if f.Executed {
			n++
		}
	}
	if line.Status == messages.Succeeded {
		n++
	}
	return n
}

func (k *checker) strikes(s messages.Submission, line calls.Result, failures []messages.Failure) {
	for n := range executions(line, failures) {
		if kind := k.plan.Decide(s.Ref, n+1); kind != faults.None {
			k.verdict.Struck[kind]++
		}
	}
}

func (k *checker) oneResult(s messages.Submission, line calls.Result) {
	results := k.results[line.Call]
	switch {
	case line.Status == messages.Refused && len(results) > 0:
		k.violation("%s: was refused, and has a result all the same", s.Ref)
	case line.Status == messages.Refused:
	case len(results) != 1:
		k.violation("%s: has %d results", s.Ref, len(results))
	case results[0].Status != line.Status || results[0].Attempts != line.Attempts || results[0].Ref != s.Ref:
		k.violation("%s: its submitter was told %s after %d attempts, RESULTS holds %s after %d", s.Ref,
			line.Status, line.Attempts, results[0].Status, results[0].Attempts)
	}
}

// bounded counts attempts by the result and, independently, by the failures.
func (k *checker) bounded(s messages.Submission, line calls.Result, failures []messages.Failure) {
	attempts := make(map[int]bool)
	for _, f := range failures {
		attempts[f.Call.Attempt] = true
	}
	if line.Attempts > k.attempts || len(attempts) > k.attempts {
		k.violation("%s: %d attempts by its result, failures of %d attempts; %d are allowed", s.Ref, line.Attempts, len(attempts), k.attempts)
	}
}

// effect checks how a call ended against the shop's log.
func (k *checker) effect(s messages.Submission, line calls.Result, failures []messages.Failure) {
	effects := k.effects[effectlog.CallID{Run: s.Run, Call: s.Ref}]
	ambiguous := slices.ContainsFunc(failures, func(f messages.Failure) bool { return f.Ambiguous })
	if ambiguous && effects > 0 {
		k.verdict.Lost++
	}
	switch {
	case !k.unsafe[s.Tool] && effects > 0:
		k.violation("%s: %s changes nothing, and took effect %d times", s.Ref, s.Tool, effects)
	case !k.unsafe[s.Tool]:
	case effects > 1:
		k.violation("%s: %s took effect %d times", s.Ref, s.Tool, effects)
	case line.Status == messages.Succeeded && effects != 1:
		k.violation("%s: %s succeeded without an effect", s.Ref, s.Tool)
	case line.Status != messages.Succeeded && line.Status != messages.StatusUnknown && effects > 0:
		k.violation("%s: ended %s although %s took effect", s.Ref, line.Status, s.Tool)
	case ambiguous != (line.Status == messages.StatusUnknown):
		k.violation("%s: ended %s, an answer of it was lost: %t", s.Ref, line.Status, ambiguous)
	}
}

// answered checks a call that ended without an effect and without doubt: what a
// fault kept from being answered has to be tried again, as often as the policy
// allows.
func (k *checker) answered(s messages.Submission, line calls.Result, failures []messages.Failure) {
	n := executions(line, failures)
	struck := k.plan.Decide(s.Ref, n)
	switch {
	case line.Status == messages.Refused:
		k.violation("%s: was refused: %s", s.Ref, line.Reason)
	case line.Status != messages.Failed:
		k.violation("%s: %s ended %s: %s", s.Ref, s.Tool, line.Status, line.Reason)
	case struck == faults.None && !ownWords(line):
		k.violation("%s: %s ended failed (%s) although its last execution was not struck", s.Ref, s.Tool, line.Code)
	case struck == faults.None:
	case line.Attempts < k.attempts:
		k.violation("%s: %s was given up after a fault (%s) and %d attempts; the policy allows %d", s.Ref, s.Tool, struck, line.Attempts, k.attempts)
	default:
		k.verdict.GaveUp++
	}
}

// ownWords says whether a failing line shows what the shop answers to its input.
func ownWords(line calls.Result) bool {
	return line.IsError && line.Output != nil && (strings.HasPrefix(*line.Output, "Error: ") || strings.HasPrefix(*line.Output, "Unknown action "))
}

// whole checks what cannot be seen in a single call.
func (k *checker) whole(submitted []messages.Submission) {
	if n := len(k.out.Results); k.out.ResultsWritten != uint64(n) {
		k.violation("RESULTS holds %d results and was written %d times", n, k.out.ResultsWritten)
	}
	known := make(map[effectlog.CallID]bool, len(submitted))
	for _, s := range submitted {
		known[effectlog.CallID{Run: s.Run, Call: s.Ref}] = true
	}
	if len(known) != len(submitted) {
		k.violation("%d calls have %d different refs, so that their effects cannot be told apart", len(submitted), len(known))
	}
	for id, n := range k.effects {
		if !known[id] {
			k.violation("%d effects of a call that nobody submitted: %s", n, id.Call)
		}
	}
	told := make(map[string]bool, len(k.out.Lines))
	for _, line := range k.out.Lines {
		told[line.Call] = true
	}
	workers := make(map[string]bool)
	for _, r := range k.out.Results {
		if !told[r.Call] {
			k.violation("RESULTS holds a call that nobody submitted: %s", r.Call)
		}
		if r.Worker != "" {
			workers[r.Worker] = true
		}
	}
	k.verdict.Workers = len(workers)
}

// Print writes the report; its last line counts.
func (v Verdict) Print(w io.Writer) error {
	p := &printer{w: w}
	for _, text := range v.Violations {
		p.line("VIOLATION: %s", text)
	}
	before, after := 0, 0
	for kind, n := range v.Struck {
		if kind.IsAfter() {
			after += n
		} else {
			before += n
		}
	}
	p.line("struck: %d executions before the state was touched, %d after it was changed or read; %d workers ran something", before, after, v.Workers)
	p.line("calls of unsafe tools that took effect and whose answer was lost: %d", v.Lost)
	if v.GaveUp > 0 {
		p.line("ended softly with a fault, after all the attempts that the policy allows: %d calls", v.GaveUp)
	}
	p.line("faults: %d calls, %d recovered, %d unknown, %d violations", v.Calls, v.Recovered, v.Unknown, len(v.Violations))
	return p.err
}
