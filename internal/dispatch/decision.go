package dispatch

import (
	"fmt"
	"time"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
)

// What the record keeps of texts, in bytes; the decision in RECOVERY has them
// whole.
const (
	maxCause  = 200
	maxReason = 32 << 10
	maxDetail = 1 << 10 // why a correction was rejected
)

// onDecision applies what a reflector decided on the failure of dispatch n.
// The coordinator overrules it where a machine may not retry at all: a call
// that is being cancelled, and an ambiguous failure of an unsafe tool (S7.3,
// P7.20). The ceiling and the correction are judged in [retry].
func onDecision(next messages.Record, e Event, f Facts, now time.Time) Verdict {
	if f.Failure == nil || e.Decision == nil {
		return readAgain("the failure that was decided on is not there yet")
	}
	d, fl := *e.Decision, *f.Failure
	free := waitsFree(next, fl, d.Action)
	account(&next, fl, f.Input, free)
	noteCause(&next, d)
	if next.Cancelling != nil {
		return end(next, stopped(next, *next.Cancelling))
	}
	if c, ok := stoppedBy(fl); ok {
		return end(next, stopped(next, c))
	}
	j := judgement{next: next, d: d, fl: fl, f: f, now: now}
	if fl.Code == messages.CodeHookVeto { // final, whatever was decided on it (S6)
		return j.refuse(messages.CodeHookVeto, fl.Error)
	}
	switch {
	case d.Action.Type == messages.ActFail || d.Action.Type == messages.ActSkip:
		return j.giveUp()
	case fl.Ambiguous && next.Call.Effect == messages.Unsafe:
		return j.ask("an effect may have happened, and no machine repeats it", nil)
	case d.Action.Type == messages.ActAskUser:
		return j.ask("", proposed(d))
	}
	return j.retry()
}

// stoppedBy says whether the execution ended since its call was to end. The
// worker hears of that as soon as the coordinator does, so its failure and the
// decision on it may be here before the trigger of the cancel itself (S5.1).
func stoppedBy(fl messages.Failure) (messages.Cancel, bool) {
	c := messages.Cancel{Status: messages.Cancelled, Code: fl.Code, Reason: fl.Error}
	switch fl.Code {
	case messages.CodeCancelled, messages.CodeRunEnded:
		return c, true
	case messages.CodeDeadline:
		c.Status = messages.Expired
		return c, true
	}
	return messages.Cancel{}, false
}

// judgement is a decision on its way to a verdict.
type judgement struct {
	next messages.Record // with the failure accounted for
	d    messages.Decision
	fl   messages.Failure
	f    Facts
	now  time.Time
}

// waitsFree says that a retry spends no attempt: the tool did nothing and said
// when to come back (S6.2). Past the bound such a wait counts like any other.
func waitsFree(next messages.Record, fl messages.Failure, a messages.RecoveryAction) bool {
	return a.Type == messages.ActRetry && fl.NothingDone && fl.RetryAfter > 0 && !fl.Ambiguous &&
		next.FreeWaits < messages.MaxFreeWaits
}

func noteCause(next *messages.Record, d messages.Decision) {
	if d.Analysis == nil || d.Analysis.RootCause == "" {
		return
	}
	next.Causes = append(next.Causes, excerpt.Head(d.Analysis.RootCause, maxCause))
}

func proposed(d messages.Decision) *messages.Correction {
	if d.Analysis == nil {
		return nil
	}
	return d.Analysis.Correction
}

// giveUp is the soft end that the strategy asked for (S4.3, S5.2).
func (j judgement) giveUp() Verdict {
	o := messages.Outcome{Status: messages.Failed, Code: messages.CodeRecoveryGaveUp, Reason: j.d.Action.Reason, Guidance: j.guidance()}
	switch {
	case j.fl.Code == messages.CodeBreakerOpen: // said again, beside what failed before it (S8.3)
		o.Code = messages.CodeBreakerOpen
	case j.d.Error != "":
		o.Code, o.Reason = messages.CodeNotAnalysed, j.d.Error
	}
	return j.end(o)
}

// refuse ends the call although the strategy wanted a retry.
func (j judgement) refuse(code messages.Code, reason string) Verdict {
	return j.end(messages.Outcome{Status: messages.Failed, Code: code, Reason: reason, Guidance: j.guidance()})
}

// end shows the failure at hand where no execution left an output of its own.
func (j judgement) end(o messages.Outcome) Verdict {
	if j.next.LastExecuted < 0 {
		j.next.LastExecuted = j.next.N
	}
	return end(j.next, o)
}

// ask hands the call to a human, or under policy `return` ends it softly with
// the prompt beside the verbatim result (S5.3). why says what overruled the
// strategy; empty means that the strategy asked.
func (j judgement) ask(why string, proposal *messages.Correction) Verdict {
	prompt := j.prompt(why, proposal)
	if !j.d.Park {
		return j.end(messages.Outcome{Status: messages.Failed, Code: messages.CodeAskUser, Reason: prompt, Guidance: j.guidance()})
	}
	if j.f.Denied != "" {
		return j.end(messages.Outcome{Status: messages.Failed, Code: messages.CodeDenied, Guidance: j.guidance(),
			Reason: "a human refused the same call in this run before, so that it is not asked again: " + j.f.Denied})
	}
	if proposal != nil && len(proposal.ModifiedInput) > messages.MaxInline {
		proposal = nil // a record has to fit a message; the decision keeps it
	}
	next := j.next
	next.State, next.W = messages.Parked, 0
	next.Prompt, next.Proposed, next.AnswerBy = excerpt.Head(prompt, maxReason), proposal, j.now.Add(j.answerBy())
	return Verdict{Do: Write, Record: next, Why: "parked: " + prompt}
}

// answerBy is what the policy of the call says, within the limit of the pool,
// else the pool's own.
func (j judgement) answerBy() time.Duration {
	if d := j.d.AnswerBy.Duration(); d > 0 {
		return min(d, j.f.Limits.AnswerByLimit)
	}
	return j.f.Limits.AnswerBy
}

func (j judgement) prompt(why string, proposal *messages.Correction) string {
	if why == "" {
		return j.d.Action.Prompt
	}
	prompt := fmt.Sprintf("Tool %q failed: %s", j.next.Call.Tool, why)
	if proposal != nil && proposal.Description != "" {
		prompt += ". Proposed: " + proposal.Description
	}
	if j.d.Action.Prompt != "" {
		prompt += ". " + j.d.Action.Prompt
	}
	return prompt
}

// guidance is what the caller's model reads beside the result (S3.4, S5.6).
func (j judgement) guidance() string {
	if j.d.Guidance != "" {
		return j.d.Guidance
	}
	return proposed(j.d).GuidanceText()
}
