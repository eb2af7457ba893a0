//go:build unix

package chaos

import (
	"fmt"
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// Report is what a seed has shown.
type Report struct {
	Seed   uint64       `json:"seed"`
	Nodes  int          `json:"nodes"`
	Calls  int          `json:"calls"`
	Faults map[Kind]int `json:"faults"`
	Struck int          `json:"struck"` // faults in all

	Ends       map[messages.Status]int `json:"ends"`
	Codes      map[messages.Code]int   `json:"codes"` // of all ends but successes
	Refused    int                     `json:"refused,omitempty"`
	Uncertain  int                     `json:"uncertain,omitempty"`
	Recovered  int                     `json:"recovered"`    // succeeded after a failure
	Deliveries int                     `json:"deliveries"`   // by the broker to services, of calls and of all that recovery is made of
	Again      int                     `json:"redeliveries"` // those of them that were not the first of their message
	Repeated   int                     `json:"repeated"`     // executions of an idempotent call within one dispatch, beyond the first
	Idempotent int                     `json:"idempotent"`   // executions of calls whose tool is not unsafe, the repeated ones among them
	Executions int                     `json:"executions"`   // that reached the witness
	Late       int                     `json:"late"`         // outcomes that came after the end, and were kept
	Marks      int                     `json:"marks"`        // start marks: dispatches that might have been repetitions
	Longest    time.Duration           `json:"longest_ns"`   // from the submission of a call to its end
	HealedIn   time.Duration           `json:"healed_ns"`    // from the last healing to the last end
	Cas        int                     `json:"cas"`          // compare-and-set operations of the register
	Took       time.Duration           `json:"took_ns"`

	// Of trials that kill brokers and leave the services alone, see [Killing].
	Queued   int           `json:"queued,omitempty"`
	Delayed  int           `json:"delayed,omitempty"`
	Recovery time.Duration `json:"recovery_ns,omitempty"` // from a kill to the next result, at the longest

	Violations []string `json:"violations"`
}

// Check holds what happened against what Mulligan promises. It knows the wire,
// and none of the code that it judges.
func Check(h History) Report {
	k := &checker{h: h, results: make(map[string]messages.Result), effects: make(map[string][]Effect), failures: make(map[string][]messages.Failure), answered: make(map[string]bool)}
	k.report = Report{Seed: h.Plan.Seed, Nodes: h.Plan.Nodes, Calls: len(h.Plan.Wishes), Faults: h.Struck, Ends: make(map[messages.Status]int), Codes: make(map[messages.Code]int),
		Deliveries: h.Handed, Again: h.Again, Executions: len(h.Effects), HealedIn: h.Finished.Sub(h.Healthy), Cas: len(h.Cas), Took: h.Took, Violations: []string{}}
	for _, n := range h.Struck {
		k.report.Struck += n
	}
	k.read()
	for i, told := range h.Told {
		k.call(h.Plan.Wishes[i], told)
	}
	k.whole()
	return k.report
}

type checker struct {
	h        History
	results  map[string]messages.Result
	effects  map[string][]Effect
	failures map[string][]messages.Failure
	answered map[string]bool // by a human
	report   Report
}

func (k *checker) violation(format string, args ...any) {
	k.report.Violations = append(k.report.Violations, fmt.Sprintf(format, args...))
}

// read sorts the evidence by call, and looks at what is wrong in itself.
func (k *checker) read() {
	for _, r := range k.h.Results {
		if _, twice := k.results[r.Call]; twice {
			k.violation("call %s has two results", r.Call)
		}
		k.results[r.Call] = r
	}
	if n := len(k.h.Results); k.h.Written != uint64(n) {
		k.violation("RESULTS holds %d results and was written %d times", n, k.h.Written)
	}
	for _, e := range k.h.Effects {
		k.effects[e.Call] = append(k.effects[e.Call], e)
	}
	last := make(map[string]int) // of the decisions of a call
	for _, m := range k.h.Story {
		a, err := k.h.Names.Parse(m.Subject)
		if err != nil {
			k.violation("RECOVERY holds %s, which is nothing", m.Subject)
			continue
		}
		switch a.Kind {
		case messages.KindFailure:
			f, err := messages.DecodeFailure(m.Body)
			if err != nil {
				k.violation("%s cannot be read: %v", m.Subject, err)
			}
			k.failures[a.Call] = append(k.failures[a.Call], f)
		case messages.KindAnswer:
			k.answered[a.Call] = true
		case messages.KindLate:
			k.report.Late++
		case messages.KindStart:
			k.report.Marks++
		case messages.KindDecision:
			if n, ok := last[a.Call]; ok && a.N <= n {
				k.violation("call %s: decision %d comes after decision %d", a.Call, a.N, n)
			}
			last[a.Call] = a.N
		}
	}
}

// call checks one call by itself.
func (k *checker) call(w Wish, told Told) {
	r, ended := k.results[told.Call]
	switch {
	case told.Refused != "":
		k.report.Refused++
		if ended || len(k.effects[told.Call]) > 0 {
			k.violation("call %s was refused (%s), and ran", told.Call, told.Refused)
		}
		return
	case told.Uncertain:
		k.report.Uncertain++
		if !ended {
			return
		}
	case !ended:
		k.violation("call %s (%s %s) was accepted and has no result", told.Call, w.Call.Tool, w.Call.Input)
		return
	}
	k.report.Ends[r.Status]++
	if r.Status != messages.Succeeded {
		k.report.Codes[r.Code]++
	}
	k.report.Longest = max(k.report.Longest, r.Ended.Sub(told.Submitted))
	if r.Status == messages.Succeeded && r.Dispatch > 0 {
		k.report.Recovered++
	}
	k.bounded(told, r)
	k.effect(w, told, r)
	k.certain(w, told)
	k.place(w, told)
}

// bounded: never more than six attempts, by whatever is counted (S4.1).
func (k *checker) bounded(told Told, r messages.Result) {
	attempts := make(map[int]bool)
	for _, f := range k.failures[told.Call] {
		attempts[f.Call.Attempt] = true
	}
	for _, e := range k.effects[told.Call] {
		attempts[e.Attempt] = true
	}
	if r.Attempts > messages.MaxAttempts || len(attempts) > messages.MaxAttempts {
		k.violation("call %s: %d attempts by its result, %d by its failures and effects", told.Call, r.Attempts, len(attempts))
	}
}

// effect holds the end of a call against what the witness saw of it.
func (k *checker) effect(w Wish, told Told, r messages.Result) {
	effects := k.effects[told.Call]
	if w.Call.Tool == "unsafe" {
		k.unsafeEffect(told, r, effects)
		return
	}
	if r.Status == messages.Succeeded && !slices.ContainsFunc(effects, func(e Effect) bool { return e.Dispatch == r.Dispatch }) {
		k.violation("call %s succeeded in dispatch %d, and the witness knows nothing of it", told.Call, r.Dispatch)
	}
	k.report.Idempotent += len(effects)
	perDispatch := make(map[int]int)
	for _, e := range effects {
		perDispatch[e.Dispatch]++
	}
	for n, times := range perDispatch {
		k.report.Repeated += times - 1
		if times > messages.MaxMarks+1 {
			k.violation("call %s: dispatch %d was executed %d times", told.Call, n, times)
		}
	}
}

// unsafeEffect: at most once an attempt, once if it succeeded, never if it
// ended in any other way than unknown. A human may have said to try again, or
// to give up, after an effect that nobody knew of; then only attempts count.
func (k *checker) unsafeEffect(told Told, r messages.Result, effects []Effect) {
	perAttempt := make(map[int]int)
	for _, e := range effects {
		if perAttempt[e.Attempt]++; perAttempt[e.Attempt] > 1 {
			k.violation("call %s: attempt %d of an unsafe tool took effect %d times", told.Call, e.Attempt, perAttempt[e.Attempt])
		}
		if e.Dispatch > r.Dispatch && !k.answered[told.Call] {
			k.violation("call %s took effect in dispatch %d and ended in dispatch %d", told.Call, e.Dispatch, r.Dispatch)
		}
	}
	switch {
	case r.Status == messages.Succeeded && len(effects) == 0, r.Status == messages.Succeeded && len(effects) > 1 && !k.answered[told.Call]:
		k.violation("call %s succeeded, and took effect %d times", told.Call, len(effects))
	case r.Status != messages.Succeeded && r.Status != messages.StatusUnknown && len(effects) > 0 && !k.answered[told.Call]:
		k.violation("call %s ended %s, and took effect", told.Call, r.Status)
	}
}

// whole checks what cannot be seen in a single call.
func (k *checker) whole() {
	known := make(map[string]bool)
	for _, t := range k.h.Told {
		known[t.Call] = true
	}
	for call := range k.effects {
		if !known[call] {
			k.violation("an effect of call %s, which nobody submitted", call)
		}
	}
	for call := range k.results {
		if !known[call] {
			k.violation("a result of call %s, which nobody submitted", call)
		}
	}
	for _, s := range k.h.Left {
		k.violation("%s is left without a reason", s)
	}
	for _, r := range k.h.Records {
		if r.State != messages.Ended {
			k.violation("the record of call %s is left %s at dispatch %d", r.Call.ID, r.State, r.N)
		}
	}
	k.versions()
	k.killing()
	if err := linearizable(k.h.Cas); err != nil {
		k.violation("%v", err)
	}
}

// killing: whoever is not hurt itself outlasts a broker that is, and its client
// loses no submission.
func (k *checker) killing() {
	killing := k.h.Killing
	if len(killing.At) == 0 {
		return
	}
	k.report.Queued, k.report.Delayed = killing.Queued, killing.Delayed
	for i, at := range killing.At {
		next := slices.IndexFunc(k.h.Stored, at.Before)
		if next < 0 {
			k.violation("no result came after kill %d", i+1)
			continue
		}
		k.report.Recovery = max(k.report.Recovery, k.h.Stored[next].Sub(at))
	}
	for _, name := range killing.Fallen {
		k.violation("%s ended, though nobody hurt it", name)
	}
	if k.report.Refused+k.report.Uncertain > 0 {
		k.violation("%d calls were refused and %d submissions failed, though there was room and the broker came back", k.report.Refused, k.report.Uncertain)
	}
}

// versions: the records of a call only ever go forward.
func (k *checker) versions() {
	for key, versions := range k.h.Versions {
		for i := 1; i < len(versions); i++ {
			a, b := versions[i-1], versions[i]
			if b.N < a.N || b.N == a.N && b.W < a.W && b.State == messages.Waiting || a.State == messages.Ended && b.State != messages.Ended {
				k.violation("record %s goes back from (%d, %s %d) to (%d, %s %d)", key, a.N, a.State, a.W, b.N, b.State, b.W)
			}
		}
	}
}
