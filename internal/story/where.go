package story

import (
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// where says where a call is now. RESULTS alone says that it ended; the record
// says what the coordinators intend; what remains follows from which message
// there is (design: every call that has not ended is in CALLS, RECOVERY or
// SCHEDULE).
func where(m *Material, now time.Time) (State, string) {
	if m.Result != nil {
		return Ended, endSentence(*m.Result)
	}
	n := 0
	if r := m.Record; r != nil {
		n = r.N
		switch r.State {
		case messages.Waiting:
			return Waiting, waitSentence(r, now)
		case messages.Parked:
			return Parked, parkSentence(r)
		case messages.Ended:
			return Ended, "its end is decided and its result is being written"
		}
	}
	if m.Queued != nil && m.Queued.Call.Dispatch >= n {
		return inCalls(m)
	}
	if _, failed := m.Failures[n]; failed {
		if d, decided := m.Decisions[n]; decided {
			if d.Action.Type == messages.ActRetry {
				return Waiting, "a coordinator holds it for a moment before its next dispatch"
			}
			return Reflecting, "its failure is decided on, and a coordinator is about to act"
		}
		return Reflecting, "its failure waits for a reflector"
	}
	return Queued, fmt.Sprintf("dispatch %d is on its way into the queue", n)
}

func inCalls(m *Material) (State, string) {
	q := m.Queued
	lane := fmt.Sprintf("queue %s, lane %s", q.Call.Queue, q.Call.TravelLane())
	if started := lastStart(m, q.Call.Dispatch); started != nil {
		return Running, fmt.Sprintf("started at %s by worker %s", stamp(started.At), started.Worker)
	}
	if q.Waiting == 0 && q.Unacked > 0 {
		return Running, "in the hands of a worker of " + lane
	}
	return Queued, fmt.Sprintf("in %s, where %s and %s in the hands of workers", lane, verb(q.Waiting, "waits", "wait"), verb(q.Unacked, "is", "are"))
}

// verb is how many do something.
func verb(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func lastStart(m *Material, n int) *Mark {
	for i := len(m.Starts) - 1; i >= 0; i-- {
		if s := &m.Starts[i]; s.N == n && s.Tombstone == "" {
			return s
		}
	}
	return nil
}

func endSentence(r messages.Result) string {
	text := string(r.Status)
	switch {
	case r.Status == messages.Succeeded && r.Attempts > 1:
		text = fmt.Sprintf("succeeded after %d attempts", r.Attempts)
		if r.RecoveredBy != "" {
			text += ", recovered by " + r.RecoveredBy
		}
	case r.Status == messages.StatusUnknown:
		text = "unknown: its effect may have happened"
	case r.Reason != "":
		text += ": " + r.Reason
	}
	return text
}

func waitSentence(r *messages.Record, now time.Time) string {
	text := fmt.Sprintf("dispatch %d is due at %s", r.N, stamp(r.DueAt))
	if d := r.DueAt.Sub(now).Round(time.Millisecond); d > 0 {
		text += fmt.Sprintf(", in %s", d)
	} else {
		text += fmt.Sprintf(", %s ago", -d)
	}
	if r.DueReason != "" {
		text += " (" + r.DueReason + ")"
	}
	return text
}

func parkSentence(r *messages.Record) string {
	text := "waits for a human"
	if r.Prompt != "" {
		text += ": " + r.Prompt
	}
	if !r.AnswerBy.IsZero() {
		text += "; answer by " + stamp(r.AnswerBy)
	}
	return text
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
