package dispatch

import (
	"mulligan/pkg/messages"
)

// onCancel ends a call from outside: its canceller, its deadline, the end of
// its run. What may be running an unsafe tool is not ended here unless its
// start could be claimed or its failure is there, since nobody may be told
// `cancelled` while the effect happens (P7.17).
func onCancel(next messages.Record, e Event, f Facts) Verdict {
	if next.State == messages.Ended {
		return ack("ended already")
	}
	if next.State != messages.Dispatched || next.Call.Effect != messages.Unsafe {
		return end(known(next, f), stopped(next, *e.Cancel))
	}
	if next.Cancelling == nil {
		c := *e.Cancel
		next.Cancelling = &c
		return Verdict{Do: WriteAgain, Record: next, Why: "cancelling: its start is to be claimed"}
	}
	switch f.Claim {
	case ClaimWon:
		return end(known(next, f), stopped(next, *next.Cancelling))
	case ClaimLost:
		if f.Failure != nil { // what ran is over, and a decision on it may be long in coming
			return end(known(next, f), stopped(next, *next.Cancelling))
		}
		return ack("the tool was started: its outcome ends the call")
	}
	return Verdict{Do: ClaimFirst, Why: string(next.Cancelling.Status) + ": " + next.Cancelling.Reason}
}

// known takes a failure into account that no decision was applied to yet, so
// that the end shows it.
func known(next messages.Record, f Facts) messages.Record {
	if next.State == messages.Dispatched && f.Failure != nil && f.Failure.Call.Dispatch == next.N {
		account(&next, *f.Failure, f.Input, false)
	}
	return next
}

func stopped(next messages.Record, c messages.Cancel) messages.Outcome {
	if c.Status == messages.Expired {
		o := expired(next)
		if next.Call.Deadline.IsZero() && c.Reason != "" { // the deadline of its run
			o.Reason = c.Reason
		}
		return o
	}
	return messages.Outcome{Status: messages.Cancelled, Code: c.Code, Reason: c.Reason}
}
