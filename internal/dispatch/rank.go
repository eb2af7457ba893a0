package dispatch

import (
	"cmp"

	"mulligan/pkg/messages"
)

// Compare orders two records of one call by rank (protocol section 1):
// (n, waiting w) < (n, dispatched w) < (n, waiting w+1) < … < (n, parked) <
// (n+1, waiting 0), with ended above all. Ranks only grow.
func Compare(a, b messages.Record) int {
	if c := cmp.Compare(ended(a), ended(b)); c != 0 || a.State == messages.Ended {
		return c
	}
	return cmp.Or(
		cmp.Compare(a.N, b.N),
		cmp.Compare(parked(a), parked(b)),
		cmp.Compare(postponed(a), postponed(b)),
		cmp.Compare(sent(a), sent(b)),
	)
}

func ended(r messages.Record) int  { return truth(r.State == messages.Ended) }
func parked(r messages.Record) int { return truth(r.State == messages.Parked) }
func sent(r messages.Record) int   { return truth(r.State == messages.Dispatched) }

// postponed is w where it counts: a parked dispatch is past all its waits.
func postponed(r messages.Record) int {
	if r.State == messages.Parked {
		return 0
	}
	return r.W
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// standing compares r with the rank that the trigger needs: below means that
// the read was stale, above that the trigger is. Triggers that need none
// stand at 0.
func standing(r messages.Record, t messages.Trigger) int {
	switch t.Kind {
	case messages.TriggerDecision:
		return decisionStanding(r, t.N)
	case messages.TriggerAnswer, messages.TriggerAnswerBy:
		return Compare(r, messages.Record{N: t.N, State: messages.Parked})
	case messages.TriggerDue:
		return Compare(r, messages.Record{N: t.N, W: t.W, State: messages.Waiting})
	}
	return 0
}

// decisionStanding: a decision fits (n, dispatched) whatever w is, since the
// dispatch may have been put off before it went out; at (n, waiting) the write
// that published it has not been seen yet.
func decisionStanding(r messages.Record, n int) int {
	switch {
	case r.State == messages.Ended || r.N > n:
		return 1
	case r.N < n || r.State == messages.Waiting:
		return -1
	case r.State == messages.Parked:
		return 1
	}
	return 0
}
