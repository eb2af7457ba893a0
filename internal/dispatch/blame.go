package dispatch

import "mulligan/pkg/messages"

// ToolFailed says whether a failure speaks against its tool, so that an end by
// it counts for the tool's circuit breaker (S8.2, ADR 0012): the tool was
// started and failed, and neither its call nor whoever stopped it is to blame.
func ToolFailed(fl messages.Failure, d messages.Decision) bool {
	if !fl.Executed || d.Fault == messages.FaultCall {
		return false
	}
	switch fl.Code {
	case messages.CodeInvalidArguments, messages.CodeOutputTooLarge,
		messages.CodeCancelled, messages.CodeRunEnded, messages.CodeDeadline, messages.CodeDrained:
		return false
	}
	return true
}

// CountedAs is the name under which an end by a failure is counted, once: that
// of the call. A lost worker takes all that it was running with it, which is one
// event and says little of each tool, so those count once together.
func CountedAs(fl messages.Failure) string {
	if fl.Code == messages.CodeWorkerLost {
		return "worker " + fl.Worker
	}
	return fl.Call.ID
}

// ByFailure says whether an end is one by failure, as against one by a wish, a
// deadline, a human or a gate.
func ByFailure(o messages.Outcome) bool {
	switch o.Code {
	case messages.CodeBreakerOpen, messages.CodeHookVeto, messages.CodeLoopDetected, messages.CodeDenied, messages.CodeAnswerBy:
		return false
	}
	switch o.Status {
	case messages.Failed, messages.Exhausted, messages.StatusUnknown:
		return true
	case messages.Succeeded, messages.Cancelled, messages.Expired:
	}
	return false
}
