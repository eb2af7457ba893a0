package dispatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// end ends a call by machine. With an ambiguous attempt of an unsafe tool no
// machine may say more than `unknown`, which never ends a run (S7.7, P7.18).
func end(next messages.Record, o messages.Outcome) Verdict {
	if len(next.Ambiguous) > 0 {
		o.Reason = ambiguity(next) + "; " + o.Reason
		o.Status, o.Code, o.EndsRun = messages.StatusUnknown, messages.CodeAmbiguous, false
	}
	return endAs(next, o)
}

// endByHuman ends a call by a human's word, which may leave `unknown` behind
// but not hide it: the ambiguous attempts are listed.
func endByHuman(next messages.Record, o messages.Outcome) Verdict {
	if len(next.Ambiguous) > 0 {
		o.Reason += "; " + ambiguity(next)
	}
	return endAs(next, o)
}

func endAs(next messages.Record, o messages.Outcome) Verdict {
	o.Verbatim = next.LastExecuted
	o.Reason, o.Guidance = excerpt.Head(o.Reason, maxReason), excerpt.Head(o.Guidance, maxReason)
	if o.Text == "" {
		o.Text = endText(next, o)
	}
	next.State, next.Outcome = messages.Ended, &o
	return Verdict{Do: Write, Record: next, Why: fmt.Sprintf("%s (%s): %s", o.Status, o.Code, o.Reason)}
}

// endText is the body of a result that has no failing output to show. It is
// written for the caller's model.
func endText(next messages.Record, o messages.Outcome) string {
	if o.Reason == "" {
		return fmt.Sprintf("The call of tool %q ended %s.", next.Call.Tool, o.Status)
	}
	return fmt.Sprintf("The call of tool %q ended %s: %s", next.Call.Tool, o.Status, o.Reason)
}

func ambiguity(next messages.Record) string {
	word := "dispatch "
	if len(next.Ambiguous) > 1 {
		word = "dispatches "
	}
	ns := make([]string, len(next.Ambiguous))
	for i, n := range next.Ambiguous {
		ns[i] = strconv.Itoa(n)
	}
	return fmt.Sprintf("an effect of tool %q may have happened in %s", next.Call.Tool, word+strings.Join(ns, ", "))
}

func expired(next messages.Record) messages.Outcome {
	reason := "its deadline passed"
	if d := next.Call.Deadline; !d.IsZero() {
		reason = "its deadline " + d.UTC().Format(time.RFC3339) + " passed"
	}
	return messages.Outcome{Status: messages.Expired, Code: messages.CodeDeadline, Reason: reason}
}

// exhausted is the one hard end (S4.2). It names the tool first asked for.
func exhausted(next messages.Record) messages.Outcome {
	tool := originalTool(next.Call)
	return messages.Outcome{
		Status: messages.Exhausted, Code: messages.CodeExhausted, EndsRun: next.Call.Run.Named(),
		Reason: fmt.Sprintf("tool recovery exhausted: tool %q failed in all %d attempts", tool, next.Spent),
	}
}

func originalTool(c messages.Call) string {
	if c.OriginalTool != "" {
		return c.OriginalTool
	}
	return c.Tool
}

// account enters a failure into the record: the attempt that it spent or not
// (S4.4), whether an effect may have happened, what was tried.
func account(next *messages.Record, fl messages.Failure, input []byte, free bool) {
	switch {
	case free:
		next.FreeWaits++
	case spends(fl):
		next.Spent++
		next.FreeWaits = 0
	}
	if spends(fl) {
		next.LastExecuted = next.N
	}
	if fl.Ambiguous && next.Call.Effect == messages.Unsafe && !slices.Contains(next.Ambiguous, next.N) {
		next.Ambiguous = append(next.Ambiguous, next.N)
	}
	if spends(fl) && !free {
		settleCorrection(next, attemptEnd(fl))
	}
	if d := recovery.Digest(next.Call.Tool, input); !slices.Contains(next.Tried, d) {
		next.Tried = append(next.Tried, d)
	}
}

// spends says that an attempt was made: the tool was started, or could not be
// since the arguments cannot be used (S4.4).
func spends(fl messages.Failure) bool {
	return fl.Executed || fl.Code == messages.CodeInvalidArguments
}

func attemptEnd(fl messages.Failure) messages.AttemptEnd {
	if fl.Ambiguous {
		return messages.AttemptAmbiguous
	}
	return messages.AttemptFailed
}

// settleCorrection notes how the attempt ended that ran with the last applied
// correction (S1.10).
func settleCorrection(next *messages.Record, ending messages.AttemptEnd) {
	for i := len(next.Corrections) - 1; i >= 0; i-- {
		if c := &next.Corrections[i]; c.Result == messages.CorrectionApplied {
			if c.Ended == "" {
				c.Ended = ending
			}
			return
		}
	}
}
