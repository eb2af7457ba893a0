package dispatch

import (
	"fmt"
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// Step decides what a trigger does to a call: steps 2 to 6 of protocol section
// 2. r is the record as read, nil for none. Step changes nothing of what it is
// given and gives the same verdict for the same arguments.
func Step(r *messages.Record, e Event, f Facts, now time.Time) Verdict {
	if f.Result != nil {
		return closeWith(r, e, *f.Result, now)
	}
	if e.Kind == messages.TriggerSettled {
		return unsettled(f, now)
	}
	if r == nil && replayed(f, now) {
		return ack("a replay from before the retention of RESULTS: no record, no result")
	}
	if r != nil && r.Trigger == e.Trigger && (r.State == messages.Ended || !ends(e.Kind)) {
		return Verdict{Do: Repeat, Record: *r, Why: "this trigger wrote the record"}
	}
	cur, ok := current(r, e, f)
	if !ok {
		return unknown(f)
	}
	switch s := standing(cur, e.Trigger); {
	case s < 0:
		return readAgain(fmt.Sprintf("the record stands at %s, before this trigger", place(cur)))
	case s > 0:
		return ack(fmt.Sprintf("the record stands at %s, past this trigger", place(cur)))
	}
	next := clone(cur)
	next.Trigger, next.Updated = e.Trigger, now
	switch e.Kind {
	case messages.TriggerDecision:
		return onDecision(next, e, f, now)
	case messages.TriggerDue:
		return onDue(next, f, now)
	case messages.TriggerAnswerBy:
		return onAnswerBy(now)
	case messages.TriggerAnswer:
		return onAnswer(next, e, f, now)
	case messages.TriggerCancel, messages.TriggerDeadline:
		return onCancel(next, e, f)
	}
	return ack(fmt.Sprintf("unknown trigger %q", e.Kind))
}

// unsettled is for a settled call whose result is not there. Whoever wrote the
// trigger had written the result, or met it: where it has not expired, the read
// was that of a leader which was replaced and does not know it yet (P7.5).
func unsettled(f Facts, now time.Time) Verdict {
	if replayed(f, now) {
		return ack("settled, and its result has expired")
	}
	return readAgain("settled, and its result was not found")
}

// ends says that the trigger comes to an end of the call in more than one
// step, so that a record which it wrote is not yet its whole effect.
func ends(k messages.TriggerKind) bool {
	return k == messages.TriggerCancel || k == messages.TriggerDeadline
}

// replayed says that nothing of the call is left and that this is no wonder
// (protocol section 6): a re-created durable replays a month of triggers.
func replayed(f Facts, now time.Time) bool {
	at := f.At
	if f.Failure != nil && !f.Failure.At.IsZero() {
		at = f.Failure.At
	}
	return !at.IsZero() && now.Sub(at) > f.Limits.ResultsRetention
}

// current is the record that the trigger meets: r, or what no record means,
// dispatch 0 as it was submitted. Not ok: dispatch 0 is not known either.
func current(r *messages.Record, e Event, f Facts) (messages.Record, bool) {
	if r != nil {
		return *r, true
	}
	origin := f.Origin
	if origin == nil && f.Failure != nil && f.Failure.Call.Dispatch == 0 {
		c := f.Failure.Call
		c.Input = f.Failure.Input
		origin = &c
	}
	if origin == nil {
		// A trigger of a later dispatch needs no origin to see that it is early.
		return messages.Record{State: messages.Dispatched, LastExecuted: -1}, e.N > 0 && !ends(e.Kind)
	}
	return messages.Record{State: messages.Dispatched, Call: *origin, Input: origin.Input, LastExecuted: -1}, true
}

func unknown(f Facts) Verdict {
	if f.Gone {
		return ack("nothing is known of this call")
	}
	return readAgain("neither a record nor dispatch 0 was found")
}

// place prints where a record stands.
func place(r messages.Record) string {
	switch r.State {
	case messages.Ended:
		return "ended"
	case messages.Waiting:
		return fmt.Sprintf("(%d, waiting %d)", r.N, r.W)
	}
	return fmt.Sprintf("(%d, %s)", r.N, r.State)
}

// clone copies r so that appending to a copy never shows in the original.
func clone(r messages.Record) messages.Record {
	r.Tried, r.Causes = slices.Clone(r.Tried), slices.Clone(r.Causes)
	r.Ambiguous, r.Corrections = slices.Clone(r.Ambiguous), slices.Clone(r.Corrections)
	return r
}

// closeWith follows RESULTS: the record is ended with what stands there
// (step 2, P7.10, P7.23).
func closeWith(r *messages.Record, e Event, res messages.Result, now time.Time) Verdict {
	if r == nil && e.Kind == messages.TriggerDeadline {
		// The commonest of all: a call that succeeded in time. A record of each
		// would outlive it by a month and say nothing that RESULTS does not.
		return Verdict{Do: Closed, Why: "ended in time"}
	}
	if r != nil && r.State == messages.Ended && r.Outcome != nil && r.Outcome.Status == res.Status {
		return Verdict{Do: Closed, Record: *r, Why: "ended, and the record says so"}
	}
	var next messages.Record
	if r != nil {
		next = clone(*r)
	} else {
		next = messages.Record{N: res.Dispatch, Call: callOf(res), Spent: res.Attempts, LastExecuted: -1}
	}
	next.State, next.Trigger, next.Updated = messages.Ended, e.Trigger, now
	next.Outcome = &messages.Outcome{Status: res.Status, Code: res.Code, Reason: res.Reason, Guidance: res.Guidance, Verbatim: -1}
	if res.Status == messages.Succeeded {
		settleCorrection(&next, messages.AttemptSucceeded)
	}
	return Verdict{Do: Close, Record: next, Why: "RESULTS says " + string(res.Status)}
}

// callOf is what a result still tells of its call, for a record that nobody
// had to write before.
func callOf(res messages.Result) messages.Call {
	return messages.Call{ID: res.Call, Ref: res.Ref, Run: res.Run, Tool: res.Tool, OriginalTool: res.OriginalTool,
		Dispatch: res.Dispatch, Lane: messages.LaneNormal, Effect: messages.Unsafe, Labels: res.Labels}
}
