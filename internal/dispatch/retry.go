package dispatch

import (
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// retry is the one place where a failed call gets another attempt, or does
// not: the ceiling (S4.1, S4.2), the deadline, the correction (S3, S7.6), the
// wait. Order matters: what ends the call comes before what costs time, and
// the claim, which lasts, comes last.
func (j judgement) retry() Verdict {
	switch {
	case j.next.Spent >= messages.MaxAttempts:
		return j.end(exhausted(j.next))
	case j.next.N >= messages.MaxDispatches:
		return j.refuse(messages.CodeRecoveryGaveUp, fmt.Sprintf("all %d dispatches of the call are used up", messages.MaxDispatches+1))
	case passed(j.next.Call.Deadline, j.now):
		return j.end(expired(j.next))
	}
	if j.f.Spent != "" {
		return j.refuse(messages.CodeBudgetSpent, j.f.Spent)
	}
	delay := max(j.d.Action.Delay.Duration(), j.fl.RetryAfter.Duration())
	if delay > j.f.Limits.MaxWait {
		return j.refuse(messages.CodeRecoveryGaveUp, fmt.Sprintf("the next attempt would have to wait %s, longer than the limit of %s", delay, j.f.Limits.MaxWait))
	}
	delay = j.left(delay)
	p := j.correct()
	if p.refused != "" {
		j.note(p)
		return j.refuse(messages.CodeRecoveryGaveUp, p.refused)
	}
	claims := p.changed && j.next.Call.Effect != messages.ReadOnly
	if claims {
		if why := j.notAlone(); why != "" {
			return j.askToCorrect(p, why)
		}
	}
	if delay > 0 && delay < messages.MaxShortWait && !j.f.Waited && !j.f.NoRoom {
		return Verdict{Do: WaitFirst, Delay: delay, Why: j.d.Action.String()}
	}
	if claims && j.mustClaim() {
		switch j.f.Claim {
		case NotClaimed:
			return Verdict{Do: ClaimFirst, Mark: j.nextMark(), Why: "a correction needs that nobody else can run this dispatch"}
		case ClaimLost:
			return j.askToCorrect(p, "another execution of the same dispatch has begun")
		}
	}
	j.note(p)
	return j.dispatchNext(p, delay)
}

// left is what is left of a delay, which counts from the failure: the analysis
// is part of the wait. Both times are the broker's, so that no clock of ours
// lets a retry go out before its time.
func (j judgement) left(delay time.Duration) time.Duration {
	if failed := j.f.FailedAt; !failed.IsZero() {
		delay -= max(j.f.At.Sub(failed), 0)
	}
	return max(delay, 0)
}

// askToCorrect leaves a correction to a human that may be a second, different
// effect (S7.6).
func (j judgement) askToCorrect(p plan, why string) Verdict {
	rejected(p, "a machine may not apply it: "+why)
	j.note(p)
	return j.ask(why+", so that a correction could be a second, different effect", proposed(j.d))
}

// notAlone says why a correction may not follow this failure by machine: it
// needs a definite failure of the only execution of the dispatch (S7.6, P7.19).
func (j judgement) notAlone() string {
	switch {
	case j.fl.Ambiguous:
		return "an effect may have happened"
	case len(j.next.Ambiguous) > 0:
		return ambiguity(j.next)
	case j.next.Call.Effect == messages.Unsafe:
		return ""
	case j.fl.Executed && j.fl.Mark != firstMark(j.next), j.fl.Mark > firstMark(j.next):
		return "the tool was started more than once"
	}
	return ""
}

// firstMark is the start mark of the first execution of dispatch n: the first
// delivery of dispatch 0 writes none (S4.6), unless it was put off, since
// then it carries the mark of a repetition.
func firstMark(r messages.Record) int {
	if r.N == 0 && r.W == 0 {
		return 0
	}
	return 1
}

// mustClaim: the start of an unsafe tool that ran belongs to the execution
// whose definite failure this is, and nobody else can have it.
func (j judgement) mustClaim() bool {
	return j.next.Call.Effect != messages.Unsafe || !j.fl.Executed
}

func (j judgement) nextMark() int {
	if j.next.Call.Effect == messages.Unsafe {
		return 0
	}
	return j.fl.Mark + 1
}

// dispatchNext makes dispatch n+1: now, or after a wait that holds nothing.
func (j judgement) dispatchNext(p plan, delay time.Duration) Verdict {
	next := advance(j.next, p)
	if delay >= messages.MaxShortWait || delay > 0 && j.f.NoRoom && !j.f.Waited {
		next.State, next.DueAt, next.DueReason = messages.Waiting, j.now.Add(delay), j.d.Action.String()
		return Verdict{Do: Write, Record: next, Why: p.by}
	}
	return goOut(next, j.f, p.by)
}

// advance moves a record to its next dispatch. The ordinal is never reused,
// also when no attempt was spent (P7.8).
func advance(next messages.Record, p plan) messages.Record {
	next.N, next.W, next.State = next.N+1, 0, messages.Dispatched
	next.Call, next.Input = p.call, p.input
	next.Call.Input = messages.Body{}
	next.Call.Dispatch, next.Call.Attempt = next.N, next.Spent
	next.Call.Ambiguous = next.Ambiguous
	next.Call.Repeat, next.Call.Probe = false, false
	if p.changed {
		next.Call.Key = fmt.Sprintf("%s-%d", next.Call.ID, next.N)
	}
	next.Call.RecoveredBy = joinRecoveries(next.Call.RecoveredBy, p.by)
	next.DueAt, next.DueReason = time.Time{}, ""
	next.Prompt, next.Proposed, next.AnswerBy = "", nil, time.Time{}
	return next
}
