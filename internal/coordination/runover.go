package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/excerpt"
	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// Of looking whether a closed run is over.
const (
	soonestLook = 500 * time.Millisecond
	latestLook  = 30 * time.Second
)

// expireRun ends a run whose deadline has passed, unless all of it had ended.
func (c *Coordinator) expireRun(ctx context.Context, run messages.Run, wish messages.Cancel) error {
	entry, _, err := c.runs.load(ctx, run)
	if err != nil || entry.Over != nil {
		return err
	}
	if wish.Reason == "" {
		wish.Reason = "the deadline of the run, " + wish.At.UTC().Format(time.RFC3339) + ", has passed"
	}
	return c.endRun(ctx, run, wish)
}

// runOver looks whether a run is over; if so its results are counted, once, and
// kept with it. If not it is looked again, the later the longer the rest takes.
func (h *handling) runOver(ctx context.Context) error {
	entry, rev, err := h.c.runs.load(ctx, h.t.run)
	if err != nil || rev == 0 {
		return err
	}
	if entry.Delete != nil {
		return h.erase(ctx, entry, rev)
	}
	if entry.Closed == nil && entry.Ended == nil {
		return nil // it is looked again when it is closed
	}
	if entry.Over == nil {
		left, err := h.c.left(ctx, entry)
		if err != nil {
			return err
		}
		if left > 0 {
			return h.lookAgain(ctx, entry, left)
		}
		over := messages.RunOver{At: time.Now().UTC()}
		if over.RunCounts, err = h.c.countResults(ctx, entry); err != nil {
			return err
		}
		entry.Over = &over
		if rev, err = h.saveOver(ctx, entry, rev); err != nil {
			return err
		}
		h.log.Info("run over", "calls", over.Calls, "not_succeeded", runstate.Failed(over.RunCounts))
	}
	if h.t.id.W != erasing {
		if err := h.notify(ctx, entry, rev); err != nil {
			return err
		}
	}
	return h.keepFor(ctx, entry)
}

func (h *handling) saveOver(ctx context.Context, entry messages.RunEntry, rev uint64) (uint64, error) {
	rev, err := h.c.runs.save(ctx, entry, rev)
	if errors.Is(err, messages.ErrConflict) {
		return 0, errAgain
	}
	if err != nil {
		return 0, fmt.Errorf("write the end of run %s: %w", h.t.run, err)
	}
	return rev, nil
}

// Of telling a webhook.
const (
	notifyTries   = 12
	notifyFirst   = time.Second // the pause after the first attempt; each further one is twice as long
	notifyLongest = 10 * time.Minute
	notifyTimeout = 10 * time.Second
)

// notify tells the webhook of a run that it is over, at least once and with the
// same id each time; an attempt that fails leaves the next one to SCHEDULE.
func (h *handling) notify(ctx context.Context, entry messages.RunEntry, rev uint64) error {
	if entry.Spec == nil || entry.Spec.Webhook == "" || !entry.Over.Notified.IsZero() || h.c.cfg.Notify == nil {
		return nil
	}
	body, err := messages.EncodeRun(entry)
	if err != nil {
		return err
	}
	h.seat.away(func() {
		tctx, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		err = h.c.cfg.Notify(tctx, entry.Spec.Webhook, notifyID(entry), body)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	over := *entry.Over
	entry.Over = &over
	if err == nil {
		over.Notified, over.NotifyError = time.Now().UTC(), ""
		h.log.Info("webhook told", "attempt", h.t.id.N+1)
		_, err := h.saveOver(ctx, entry, rev)
		return err
	}
	over.NotifyError = excerpt.Of(err.Error(), messages.MaxName)
	h.log.Warn("a webhook did not take the end of its run", "attempt", h.t.id.N+1, "error", over.NotifyError)
	if _, err := h.saveOver(ctx, entry, rev); err != nil || h.t.id.N+1 >= notifyTries {
		return err
	}
	return h.c.broker.Schedule(ctx, messages.Due{Kind: messages.DueRunOver, Run: entry.Run, N: h.t.id.N + 1,
		At: time.Now().Add(min(notifyFirst<<h.t.id.N, notifyLongest)).UTC()})
}

// notifyID is the same for each attempt to tell of a run.
func notifyID(e messages.RunEntry) string {
	return string(e.Run) + "@" + e.Over.At.UTC().Format(time.RFC3339Nano)
}

// left is how many calls of a run have not ended, at least 1 while any has not.
func (c *Coordinator) left(ctx context.Context, e messages.RunEntry) (int64, error) {
	if e.Ended == nil && e.Closed != nil && e.Closed.Calls != nil {
		ended, err := c.runs.matching(ctx, messages.StreamResults, c.names.ResultsFilter(e.Run))
		return max(*e.Closed.Calls-ended, 0), err
	}
	return c.searchOpen(ctx, e, time.Time{})
}

// searchOpen looks for calls that have not ended, in the order in which calls
// move, so that none is missed: those that wait, those in CALLS, then those that
// failed once, or have a record, and no result. A call for later that is on its
// way to CALLS has nothing but its record. A failure from before since says
// nothing: the result of its call may have outlived its retention.
func (c *Coordinator) searchOpen(ctx context.Context, e messages.RunEntry, since time.Time) (int64, error) {
	waiting, err := c.runs.matching(ctx, messages.StreamSchedule,
		c.names.RunSchedules(messages.DueRetry, e.Run), c.names.RunSchedules(messages.DueAnswerBy, e.Run))
	if err != nil {
		return 0, err
	}
	queued, err := c.runs.matching(ctx, messages.StreamCalls, c.names.RunCallsFilter(e.Run))
	if err != nil || waiting+queued > 0 {
		return waiting + queued, err
	}
	open := make(map[runstate.ID]struct{})
	failed := func(m messages.Stored) bool {
		if a, err := c.names.Parse(m.Subject); err == nil && !m.Time.Before(since) {
			open[runstate.IDOf(a.Call)] = struct{}{}
		}
		return true
	}
	if err := c.broker.List(ctx, messages.StreamRecovery, []string{c.names.RunFirstStory(messages.KindFailure, e.Run)}, failed); err != nil {
		return 0, err
	}
	if err := c.eachRecord(ctx, e.Run, func(call string) { open[runstate.IDOf(call)] = struct{}{} }); err != nil || len(open) == 0 {
		return 0, err
	}
	err = c.broker.ListHeads(ctx, messages.StreamResults, c.names.ResultsFilter(e.Run), e.From, func(m messages.Stored) bool {
		if a, err := c.names.Parse(m.Subject); err == nil {
			delete(open, runstate.IDOf(a.Call))
		}
		return true
	})
	return int64(len(open)), err
}

func (c *Coordinator) countResults(ctx context.Context, e messages.RunEntry) (messages.RunCounts, error) {
	var counts messages.RunCounts
	err := c.broker.ListHeads(ctx, messages.StreamResults, c.names.ResultsFilter(e.Run), e.From, func(m messages.Stored) bool {
		if r, err := c.names.DecodeResult(m.Message); err == nil {
			runstate.Add(&counts, r)
		}
		return true
	})
	return counts, err
}

// lookAgain leaves a later look, at the pace of the run so far.
func (h *handling) lookAgain(ctx context.Context, e messages.RunEntry, left int64) error {
	ended, err := h.c.runs.matching(ctx, messages.StreamResults, h.c.names.ResultsFilter(e.Run))
	if err != nil {
		return err
	}
	now := time.Now()
	rest, ok := runstate.Estimate(left, ended, now.Sub(e.Created))
	if !ok {
		rest = latestLook
	}
	return h.c.broker.Schedule(ctx, messages.Due{Kind: messages.DueRunOver, Run: e.Run, W: h.t.id.W + 1,
		At: now.Add(min(max(rest/2, soonestLook), latestLook)).UTC()})
}
