package coordination

import (
	"context"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// What ends and failures say of a tool to its breaker (S8.2, ADR 0012).

// tellBreaker says what came of a probe, and of a success, once and before the
// step: the retry of a probe that failed is to find the breaker open again.
func (h *handling) tellBreaker(ctx context.Context, f dispatch.Facts) error {
	if h.told {
		return nil
	}
	var err error
	switch h.t.id.Kind {
	case messages.TriggerDecision:
		if f.Failure != nil && f.Failure.Call.Probe {
			err = h.c.breakers.probed(ctx, f.Failure.Call, dispatch.ToolFailed(*f.Failure, *h.t.event.Decision))
		}
	case messages.TriggerSettled:
		if f.Result != nil {
			err = h.c.breakers.settled(ctx, *f.Result)
		}
	case messages.TriggerAnswer, messages.TriggerDue, messages.TriggerAnswerBy, messages.TriggerDeadline, messages.TriggerCancel:
	}
	h.told = err == nil
	return err
}

// probed takes the failure of a probe. One that does not speak against the tool
// says nothing for it either, and another dispatch becomes the probe.
func (b *breakers) probed(ctx context.Context, call messages.Call, toolFailed bool) error {
	rules, p := b.rules(call.Tool), messages.ProbeOf(call)
	return b.change(ctx, call.Tool, true, func(of messages.Breaker, now time.Time) (messages.Breaker, bool) {
		if toolFailed {
			return rules.ProbeFailed(of, p, now)
		}
		return rules.ProbeGone(of, p, now)
	})
}

// settled takes an end that a worker told of. Where nothing is counted that is
// seen at a glance; else the leader has the last word, since the probe's own
// leave may be too young to be known here.
func (b *breakers) settled(ctx context.Context, res messages.Result) error {
	known := b.of(res.Tool)
	if known.State == "" || known.State == messages.BreakerClosed && len(known.Failures) == 0 {
		return nil
	}
	p := messages.Probe{Run: res.Run, Call: res.Call, Dispatch: res.Dispatch}
	began := res.Ended.Add(-res.Duration.Duration())
	rules := b.rules(res.Tool)
	return b.change(ctx, res.Tool, true, func(of messages.Breaker, now time.Time) (messages.Breaker, bool) {
		if res.Status == messages.Succeeded {
			return rules.Succeeded(of, p, began, now)
		}
		return rules.ProbeGone(of, p, now)
	})
}

// countEnd counts an end that this coordinator wrote, and was the first to. What
// is lost when it dies in between is one failure too few.
func (h *handling) countEnd(ctx context.Context, r messages.Record) {
	err := h.c.breakers.ended(ctx, r, h.t.event, h.failures[h.t.id.N])
	if err != nil {
		h.log.Warn("an end was not counted for the breaker of its tool", "tool", r.Call.Tool, "error", err)
	}
}

func (b *breakers) ended(ctx context.Context, r messages.Record, e dispatch.Event, fl *messages.Failure) error {
	switch {
	case e.Kind != messages.TriggerDecision && r.Call.Probe:
		return b.probed(ctx, r.Call, false)
	case e.Decision == nil || fl == nil || fl.Call.Probe || !dispatch.ByFailure(*r.Outcome) || !dispatch.ToolFailed(*fl, *e.Decision):
		return nil
	}
	rules := b.rules(fl.Call.Tool)
	return b.change(ctx, fl.Call.Tool, false, func(of messages.Breaker, now time.Time) (messages.Breaker, bool) {
		return rules.Failed(of, dispatch.CountedAs(*fl), fl.Started, now)
	})
}
