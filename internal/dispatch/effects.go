package dispatch

import (
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// Effect is one act outside the record. Each is idempotent, so that whoever
// repeats a trigger repeats all of them.
type Effect struct {
	Kind EffectKind
	Call messages.Call // Publish: complete, with its input; PurgeQueued: which
	Due  messages.Due  // Schedule and PurgeSchedule
}

// EffectKind names an act.
type EffectKind int

// The acts. The order in which [Effects] and [AfterEnd] give them is part of
// the protocol.
const (
	// CheckRun reads RUNS, after the record was written and before anything
	// that keeps the call going: a run that ended meanwhile has listed its
	// records and may have missed this one, so the coordinator cancels the call
	// itself and leaves out the rest (P7.26).
	CheckRun EffectKind = iota + 1
	// Publish puts the dispatch into CALLS, after the record says dispatched
	// (P7.12). Refused as already there is fine. A full stream is not: write
	// [PutOff], then do its effects (P7.6).
	Publish
	// Schedule puts the due message into SCHEDULE. Its subject holds n and w,
	// so that it replaces no other (P7.3).
	Schedule
	// PutResult puts the result once (see [ResultOf]). Refused: what is there
	// is the winner, and only the winner counts from here on (P7.23). Then
	// [AfterEnd].
	PutResult
	// EndRun marks the run ended in RUNS and CONTROL and then cancels its
	// calls, in this order (S5.5). Only after RESULTS says exhausted.
	EndRun
	// PurgeQueued takes the dispatch out of CALLS, after its result is there
	// (P7.7).
	PurgeQueued
	// PurgeSchedule takes a schedule back. Of a call that ends it is the last:
	// one that fires meanwhile finds the call ended.
	PurgeSchedule
)

var effectNames = [...]string{"", "check run", "publish", "schedule", "put result", "end run", "purge queued", "purge schedule"}

func (k EffectKind) String() string {
	if k < CheckRun || int(k) >= len(effectNames) {
		return "no effect"
	}
	return effectNames[k]
}

// Effects gives what a record demands of the world, in order. It looks at
// nothing else: jitter, registry and breaker may have moved since the record
// was written, and a repeated effect must be the same (P7.1). For an ended
// record [AfterEnd] follows once RESULTS has a winner.
func Effects(r messages.Record) []Effect {
	switch r.State {
	case messages.Dispatched:
		if ends(r.Trigger.Kind) {
			return nil // cancelling: nothing goes out any more
		}
		return append(question(r), Effect{Kind: CheckRun}, Effect{Kind: Publish, Call: dispatchOf(r)})
	case messages.Waiting:
		return append(question(r), Effect{Kind: CheckRun}, Effect{Kind: Schedule, Due: dueOf(r, messages.DueRetry, r.N, r.W, r.DueAt)})
	case messages.Parked:
		return []Effect{{Kind: CheckRun}, {Kind: Schedule, Due: dueOf(r, messages.DueAnswerBy, r.N, 0, r.AnswerBy)}}
	case messages.Ended:
		return []Effect{{Kind: PutResult}}
	}
	return nil
}

// question takes back the schedule of a question that this write has answered,
// since the record forgets when it was to be answered by. It comes first: the
// answer stands, whatever becomes of the call from here on.
func question(r messages.Record) []Effect {
	if r.Trigger.Kind != messages.TriggerAnswer {
		return nil
	}
	return []Effect{{Kind: PurgeSchedule, Due: dueOf(r, messages.DueAnswerBy, r.Trigger.N, 0, r.Updated)}}
}

// AfterEnd gives what follows from the result that stands in RESULTS, whoever
// put it there. r is the record, nil where none was needed.
func AfterEnd(r *messages.Record, winner messages.Result) []Effect {
	var out []Effect
	if winner.Status == messages.Exhausted && winner.Run.Named() {
		out = append(out, Effect{Kind: EndRun})
	}
	if r == nil {
		return out
	}
	if ends(r.Trigger.Kind) && r.Call.Queue != "" {
		out = append(out, Effect{Kind: PurgeQueued, Call: dispatchOf(*r)})
	}
	return append(out, purges(*r)...)
}

// purges names the schedules that may be left, one by one: a purge of a whole
// subject costs little, one by wildcard costs in the size of the stream.
func purges(r messages.Record) []Effect {
	var out []Effect
	add := func(kind messages.DueKind, n, w int, at time.Time) {
		if !at.IsZero() {
			out = append(out, Effect{Kind: PurgeSchedule, Due: dueOf(r, kind, n, w, at)})
		}
	}
	if r.Trigger.Kind != messages.TriggerDeadline {
		add(messages.DueDeadline, 0, 0, r.Call.Deadline)
	}
	add(messages.DueRetry, r.N, r.W, r.DueAt)
	add(messages.DueAnswerBy, r.N, 0, r.AnswerBy)
	if r.AnswerBy.IsZero() { // an answer that a gate refused
		out = append(out, question(r)...)
	}
	return out
}

func dispatchOf(r messages.Record) messages.Call {
	c := r.Call
	c.Input, c.Dispatch, c.Ambiguous = r.Input, r.N, slices.Clone(r.Ambiguous)
	return c
}

func dueOf(r messages.Record, kind messages.DueKind, n, w int, at time.Time) messages.Due {
	return messages.Due{Kind: kind, Run: r.Call.Run, Call: r.Call.ID, N: n, W: w, At: at}
}
