package dispatch

import (
	"time"

	"mulligan/pkg/messages"
)

// made counts the attempts of a call that ends. One in which the tool ran and
// said each time that it did nothing was not spent while it could go on (S6.2);
// now it is over, and the caller is not told that nothing was tried.
func made(r messages.Record) int {
	if r.FreeWaits > 0 {
		return r.Spent + 1
	}
	return r.Spent
}

// ResultOf makes the result of an ended record. verbatim is the failure that
// the outcome names, nil where it names none or none is left: its output is
// the body, byte for byte (S5.2), and the text of the outcome is it else.
func ResultOf(r messages.Record, verbatim *messages.Failure, now time.Time) messages.Result {
	o := messages.Outcome{Verbatim: -1}
	if r.Outcome != nil {
		o = *r.Outcome
	}
	res := messages.Result{
		Call: r.Call.ID, Ref: r.Call.Ref, Run: r.Call.Run, Labels: r.Call.Labels,
		Tool: r.Call.Tool, OriginalTool: r.Call.OriginalTool,
		Status: o.Status, Code: o.Code, IsError: true, Reason: o.Reason, Guidance: o.Guidance,
		Attempts: min(made(r), messages.MaxAttempts), Dispatch: r.N, Ended: now,
		Output: messages.Text(o.Text),
	}
	if verbatim == nil {
		return res
	}
	res.Tool, res.OriginalTool = verbatim.Call.Tool, verbatim.Call.OriginalTool
	res.Dispatch, res.Worker, res.Duration = verbatim.Call.Dispatch, verbatim.Worker, verbatim.Duration
	res.Output = verbatim.Output
	return res
}
