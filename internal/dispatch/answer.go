package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

// onAnswer applies the one way out of parked. The human's word lifts the rules
// that keep a machine from acting on an ambiguous failure, not the ceiling
// (S4.7, P7.22).
func onAnswer(next messages.Record, e Event, f Facts, now time.Time) Verdict {
	if e.Answer == nil {
		return readAgain("the answer is not there yet")
	}
	a := *e.Answer
	switch a.Kind {
	case messages.AnswerTimedOut:
		return end(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeAnswerBy, Reason: "no human answered in time: " + next.Prompt})
	case messages.AnswerSkip, messages.AnswerFail:
		return endByHuman(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeDenied, Reason: said(a)})
	}
	switch {
	case next.Cancelling != nil:
		return end(next, stopped(next, *next.Cancelling))
	case passed(next.Call.Deadline, now):
		return end(next, expired(next))
	case next.Spent >= messages.MaxAttempts || next.N >= messages.MaxDispatches:
		return endByHuman(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeExhausted,
			Reason: fmt.Sprintf("%s, and no attempt is left: %d are spent", said(a), next.Spent)})
	}
	p := answered(a, next, f)
	if p.application != nil {
		next.Corrections = append(next.Corrections, *p.application)
	}
	if p.refused != "" {
		return endByHuman(next, messages.Outcome{Status: messages.Failed, Code: messages.CodeDenied, Reason: said(a) + ", but " + p.refused})
	}
	p.by = string(a.Kind) + " by " + a.By
	return goOut(advance(next, p), f, said(a))
}

// answered is what the human wants to be run. A correction that cannot be
// applied is not replaced by a bare retry, as it is for a machine: the human
// did not ask for one.
func answered(a messages.Answer, next messages.Record, f Facts) plan {
	var c *messages.Correction
	switch {
	case a.Kind == messages.AnswerApprove:
		c = next.Proposed
	case a.Kind == messages.AnswerEdit && a.Input == nil:
		p := same(next, f)
		p.refused = "the answer holds no input"
		return p
	case a.Kind == messages.AnswerEdit:
		return edited(*a.Input, next, f)
	}
	if c == nil {
		return same(next, f)
	}
	p := correct(c, next, f)
	if p.application.Result == messages.CorrectionRejected && p.refused == "" {
		p.refused = "the proposed correction cannot be applied: " + p.application.Reason
	}
	return p
}

// edited runs the human's own input, which the endpoint checked and which is
// checked again, since the schema may have changed.
func edited(input messages.Body, next messages.Record, f Facts) plan {
	p := same(next, f)
	p.application = &messages.Application{N: next.N, Type: messages.InputFix, Rule: "edit"}
	tool, _ := lookup(f, next.Call.Tool)
	if why := fits(tool, f.Input); why != "" {
		p = rejected(p, "the edited input does not fit: "+why)
		p.refused = p.application.Reason
		return p
	}
	p.input = input
	return applied(p)
}

func said(a messages.Answer) string {
	s := fmt.Sprintf("%s by %s", a.Kind, a.By)
	if a.Reason != "" {
		s += ": " + a.Reason
	}
	return s
}

// Offered are the answers that a parked call may be given. Whether what an
// approval or edit asks for can be run is for [Objection].
func Offered(r messages.Record, now time.Time) []messages.AnswerKind {
	refusals := []messages.AnswerKind{messages.AnswerSkip, messages.AnswerFail}
	if _, why := noRetry(r, now); why != "" {
		return refusals
	}
	offered := []messages.AnswerKind{messages.AnswerEdit, messages.AnswerRetry}
	if mechanical(r.Proposed) {
		offered = slices.Insert(offered, 0, messages.AnswerApprove)
	}
	return append(offered, refusals...)
}

// Objection says why a parked call cannot be given this answer, for the human
// who gives it, with the way out; empty when it can. It holds the answer to
// what [Step] holds it to again, since both time and the registry move on.
func Objection(r messages.Record, a messages.Answer, f Facts, now time.Time) (messages.Code, string) {
	if a.Kind == messages.AnswerSkip || a.Kind == messages.AnswerFail {
		return "", ""
	}
	if code, why := noRetry(r, now); why != "" {
		return code, why
	}
	if a.Kind == messages.AnswerApprove && !mechanical(r.Proposed) {
		return messages.CodeBadCall, noProposal(r)
	}
	if p := answered(a, r, f); p.refused != "" {
		return messages.CodeInvalidArguments, p.refused
	}
	return "", ""
}

// noRetry says why the call cannot go out again, whatever a human says (S4.7).
func noRetry(r messages.Record, now time.Time) (messages.Code, string) {
	switch {
	case r.Spent >= messages.MaxAttempts:
		return messages.CodeExhausted, fmt.Sprintf("all %d attempts are spent, and no answer lifts that; answer skip or fail", messages.MaxAttempts)
	case r.N >= messages.MaxDispatches:
		return messages.CodeExhausted, fmt.Sprintf("all %d dispatches are used up, and no answer lifts that; answer skip or fail", messages.MaxDispatches+1)
	case passed(r.Call.Deadline, now):
		return messages.CodeDeadlinePassed, "its deadline " + r.Call.Deadline.UTC().Format(time.RFC3339) + " has passed; answer skip or fail"
	}
	return "", ""
}

// mechanical says that approving c changes what is run.
func mechanical(c *messages.Correction) bool {
	return c != nil && (c.Type == messages.InputFix || c.Type == messages.ToolChange)
}

func noProposal(r messages.Record) string {
	var others []string
	for _, k := range Offered(r, time.Time{}) {
		others = append(others, string(k))
	}
	ways := strings.Join(others, ", ")
	if r.Proposed == nil {
		return "nothing is proposed that could be approved; answer one of " + ways
	}
	return fmt.Sprintf("what is proposed (%s) changes nothing by itself; do it and answer retry, or answer one of %s", r.Proposed.Type, ways)
}
