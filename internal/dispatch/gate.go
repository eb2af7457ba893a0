package dispatch

import (
	"cmp"
	"time"

	"mulligan/pkg/messages"
)

// goOut lets the dispatch of next go out now, unless a gate puts it off or
// refuses it (S6, S8.3). A call that is put off waits without spending an attempt.
func goOut(next messages.Record, f Facts, why string) Verdict {
	next.State = messages.Dispatched
	next.DueAt, next.DueReason = time.Time{}, ""
	if f.Gated == nil || !f.Gated(next.Call.Tool) {
		return Verdict{Do: Write, Record: next, Why: why}
	}
	switch p := f.Passage; {
	case p == nil:
		return Verdict{Do: AskGate, Record: next, Why: "a gate stands before the dispatch"}
	case p.Refusal != nil:
		return end(next, refusedWith(*p.Refusal))
	case p.Wait != nil:
		next.State, next.DueAt, next.DueReason = messages.Waiting, p.Wait.Until, p.Wait.Reason
		return Verdict{Do: Write, Record: next, Why: p.Wait.Reason}
	default:
		next.Call.Probe = p.Probe
		return Verdict{Do: Write, Record: next, Why: why}
	}
}

// waits is the wait that stands before the dispatch, nil for none.
func waits(f Facts) *Wait {
	if f.Passage == nil || f.Passage.Refusal != nil {
		return nil
	}
	return f.Passage.Wait
}

func refusedWith(r Refusal) messages.Outcome {
	return messages.Outcome{Status: messages.Failed, Code: r.Code, Reason: cmp.Or(r.Reason, r.Text), Text: r.Text}
}

// PutOffFirst is the record of a call whose first dispatch is put off, before it
// was ever published. It carries the mark of a repetition: its submitter may
// send it again meanwhile, and that copy would not meet this one (P7.11).
func PutOffFirst(call messages.Call, w Wait, now time.Time) messages.Record {
	r := messages.Record{State: messages.Dispatched, Call: call, Input: call.Input, LastExecuted: -1, Updated: now}
	r.Call.Input, r.Call.Repeat = messages.Body{}, true
	return PutOff(r, w.Until, w.Reason)
}

// TurnedAway is the result of a call that a gate refused before its first
// dispatch, and the record that keeps its input for a replay.
func TurnedAway(call messages.Call, r Refusal, now time.Time) (messages.Record, messages.Result) {
	v := end(messages.Record{State: messages.Dispatched, Call: call, Input: call.Input, LastExecuted: -1, Updated: now}, refusedWith(r))
	v.Record.Call.Input = messages.Body{}
	return v.Record, ResultOf(v.Record, nil, now)
}
