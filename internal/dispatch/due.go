package dispatch

import (
	"time"

	"mulligan/pkg/messages"
)

// onDue takes a wait that is over: the dispatch goes out, is put off again, or
// is not wanted any more. The record says dispatched before the dispatch can
// exist (P7.12).
func onDue(next messages.Record, f Facts, now time.Time) Verdict {
	if passed(next.Call.Deadline, now) {
		return end(next, expired(next))
	}
	v := goOut(next, f, "due")
	if w := waits(f); v.Do == Write && w != nil {
		v.Record = PutOff(next, w.Until, w.Reason)
	}
	return v
}

// PutOff makes a record wait once more before its dispatch goes out: under an
// open breaker, or when CALLS took no more (P7.6). The dispatch keeps its
// number and the record its trigger, so that whoever repeats the trigger
// repeats the schedule.
func PutOff(r messages.Record, until time.Time, reason string) messages.Record {
	r = clone(r)
	r.State, r.W = messages.Waiting, r.W+1
	r.DueAt, r.DueReason = until, reason
	return r
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

func onAnswerBy(now time.Time) Verdict {
	return Verdict{
		Do:     PutAnswer,
		Answer: &messages.Answer{Kind: messages.AnswerTimedOut, By: "answer-by", At: now},
		Why:    "no human answered in time",
	}
}
