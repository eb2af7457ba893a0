package messages

import (
	"fmt"
	"regexp"
	"slices"
)

// Code names a kind of failure or of end. The set is append-only; a code that
// this build does not know survives a round trip unchanged.
type Code string

// Failures of an attempt.
const (
	CodeToolError        Code = "tool_error"        // the tool answered that it failed
	CodePanic            Code = "panic"             // the tool panicked or its process crashed
	CodeTimeout          Code = "timeout"           // the execution's time-out passed
	CodeInvalidArguments Code = "invalid_arguments" // not a JSON object, or breaks the schema; nothing ran
	CodeToolNotFound     Code = "tool_not_found"    // served by nobody; nothing ran
	CodeWorkerLost       Code = "worker_lost"       // the worker died or was lost while running it
	CodeConnectionLost   Code = "connection_lost"   // the adapter lost the tool's answer
	CodeRateLimited      Code = "rate_limited"      // the tool refused for now and did nothing
	CodeUnavailable      Code = "unavailable"       // the tool is not available for now and did nothing
	CodeOutputTooLarge   Code = "output_too_large"  // the output exceeds what is kept
	CodeDrained          Code = "drained"           // the worker's drain ran into its own time-out
	CodeBreakerOpen      Code = "breaker_open"      // the tool's circuit breaker refused it; nothing ran
	CodeHookVeto         Code = "hook_veto"         // a hook refused it; nothing ran
	CodeLoopDetected     Code = "loop_detected"     // its run repeats the same call (S10.2); nothing ran
)

// Ends.
const (
	CodeRecoveryGaveUp Code = "recovery_gave_up" // the strategy said fail or skip
	CodeAskUser        Code = "ask_user"         // a human is needed and policy says return
	CodeNotAnalysed    Code = "not_analysed"     // the reflector failed
	CodeExhausted      Code = "exhausted"        // the ceiling (S4.2)
	CodeCancelled      Code = "cancelled"
	CodeRunEnded       Code = "run_ended" // a hard end of its run
	CodeDeadline       Code = "deadline"
	CodeAmbiguous      Code = "ambiguous" // an effect may have happened (S7.7)
	CodeDenied         Code = "denied"    // a human said no
	CodeAnswerBy       Code = "answer_by" // no human answered in time
)

// Refusals of a submission.
const (
	CodeUnknownTool    Code = "unknown_tool"
	CodeTooLarge       Code = "too_large"
	CodeBadCall        Code = "bad_call" // a field has no usable value
	CodeDeadlinePassed Code = "deadline_passed"
	CodeQueueFull      Code = "queue_full"
	CodeTooOld         Code = "too_old"         // the id is older than half the retention of RESULTS
	CodeRunIsOver      Code = "run_is_over"     // the named run has ended
	CodeNotStored      Code = "not_stored"      // the broker did not take it; try again
	CodeVersion        Code = "unknown_version" // the request is of another wire version
	CodeRunClosed      Code = "run_closed"      // whoever submits to the run has said that no call comes any more
	CodeRunFull        Code = "run_full"        // as many calls of the run as it allows are queued or running
	CodeBudgetSpent    Code = "budget_spent"    // the run has used up its budget
)

// Refusals of an answer, beside those of a submission.
const (
	CodeAnswered  Code = "answered"   // there is an answer already, and the first wins
	CodeNotParked Code = "not_parked" // the call does not wait for an answer, or not for this one
	CodeNotFound  Code = "not_found"  // nothing is known of the call
)

// Refusals of a declaration, beside those of a submission.
const (
	CodeBadRun     Code = "bad_run"      // a field of its spec has no usable value
	CodeRunDiffers Code = "run_differs"  // it was declared before with another spec
	CodeRunNotOver Code = "run_not_over" // calls of it have not ended, or may still come: it cannot be deleted
)

// Codes lists every code that this build writes.
func Codes() []Code {
	return []Code{
		CodeToolError, CodePanic, CodeTimeout, CodeInvalidArguments, CodeToolNotFound, CodeWorkerLost, CodeConnectionLost,
		CodeRateLimited, CodeUnavailable, CodeOutputTooLarge, CodeDrained,
		CodeRecoveryGaveUp, CodeAskUser, CodeNotAnalysed, CodeExhausted, CodeCancelled, CodeRunEnded, CodeDeadline, CodeAmbiguous,
		CodeDenied, CodeAnswerBy, CodeBreakerOpen, CodeHookVeto, CodeLoopDetected,
		CodeUnknownTool, CodeTooLarge, CodeBadCall, CodeDeadlinePassed, CodeQueueFull, CodeTooOld, CodeRunIsOver,
		CodeNotStored, CodeVersion, CodeRunClosed, CodeRunFull, CodeBudgetSpent, CodeAnswered, CodeNotParked, CodeNotFound, CodeBadRun, CodeRunDiffers, CodeRunNotOver,
	}
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// UnmarshalText takes any code of the right form, 1 to 64 of [a-z0-9_], also
// one that this build does not know, and the empty one.
func (c *Code) UnmarshalText(text []byte) error {
	if len(text) > 0 && !codeForm.Match(text) {
		return fmt.Errorf("code %q is not 1 to 64 characters of a-z, 0-9 and _", truncateText(string(text), 80))
	}
	*c = Code(text)
	return nil
}

// Known says whether this build knows the code.
func (c Code) Known() bool { return slices.Contains(Codes(), c) }
