package coordination

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// fullPause is how long a dispatch waits that CALLS had no room for; twice
// that at most, so that they do not come back together.
const fullPause = time.Second

// perform does the effects of a record in their order: step 8. Each can be
// repeated, so an error sends the handling back to step 1, where the record
// says that this trigger wrote it.
func (h *handling) perform(ctx context.Context, r messages.Record, effects []dispatch.Effect) error {
	for _, e := range effects {
		if err := h.effect(ctx, r, e); err != nil {
			return err
		}
	}
	return nil
}

func (h *handling) effect(ctx context.Context, r messages.Record, e dispatch.Effect) error {
	switch e.Kind {
	case dispatch.CheckRun:
		return h.checkRun(ctx)
	case dispatch.Publish:
		return h.publish(ctx, r, e.Call)
	case dispatch.Schedule:
		h.c.store.wait(r, e.Due.At)
		return wrap("schedule", h.c.broker.Schedule(ctx, ahead(e.Due)))
	case dispatch.PutResult:
		return h.putResult(ctx, r)
	case dispatch.EndRun:
		return h.c.endRun(ctx, h.t.run, messages.Cancel{
			Status: messages.Cancelled, Code: messages.CodeRunEnded, By: h.c.cfg.Name, At: time.Now().UTC(),
			Reason: fmt.Sprintf("its run ended: call %s was exhausted", h.t.call),
		})
	case dispatch.PurgeQueued:
		call := e.Call
		return wrap("purge the dispatch", h.c.broker.Purge(ctx, h.c.names.CallSubject(call.Queue, call.TravelLane(), call.Run, call.ID, call.Dispatch)))
	case dispatch.PurgeSchedule:
		return wrap("purge the schedule", h.c.broker.Purge(ctx, h.c.names.ScheduleSubject(e.Due)))
	}
	return fmt.Errorf("unknown effect %s", e.Kind)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// checkRun ends the call here and now if its run has ended (P7.26).
func (h *handling) checkRun(ctx context.Context) error {
	wish, err := h.c.runs.ended(ctx, h.t.run)
	if err != nil || wish == nil {
		return err
	}
	t := trigger{id: messages.Trigger{Kind: messages.TriggerCancel}, run: h.t.run, call: h.t.call, at: h.t.at, tries: h.t.tries}
	t.event = dispatch.Event{Trigger: t.id, Cancel: wish}
	if newHandling(h.c, t, h.seat).advance(ctx) != done {
		return errors.New("the run has ended and the call could not be cancelled yet")
	}
	return errDone
}

func (h *handling) publish(ctx context.Context, r messages.Record, call messages.Call) error {
	err := h.c.broker.Publish(ctx, h.c.names.EncodeCall(call))
	switch {
	case err == nil:
		h.c.metrics.Dispatched()
		return nil
	case errors.Is(err, messages.ErrExists):
		return nil
	case errors.Is(err, messages.ErrFull):
		return h.putOff(ctx, r)
	}
	return fmt.Errorf("publish dispatch %d: %w", call.Dispatch, err)
}

// putOff makes a dispatch wait that CALLS has no room for (P7.6).
func (h *handling) putOff(ctx context.Context, r messages.Record) error {
	off := dispatch.PutOff(r, time.Now().UTC().Add(fullPause+rand.N(fullPause)), "the queue is full")
	if err := h.save(ctx, &off); err != nil {
		return err
	}
	h.log.Info("call waiting", "why", off.DueReason, "next", off.N)
	return h.perform(ctx, off, dispatch.Effects(off))
}

// putResult ends the call in RESULTS. What stands there rules, whoever put it
// (P7.23): another outcome than ours sends us to step 2, which follows it.
func (h *handling) putResult(ctx context.Context, r messages.Record) error {
	var verbatim *messages.Failure
	if r.Outcome != nil && r.Outcome.Verbatim >= 0 {
		var err error
		if verbatim, err = h.failure(ctx, r.Outcome.Verbatim); err != nil {
			return err
		}
	}
	res := dispatch.ResultOf(r, verbatim, time.Now().UTC())
	winner, err := h.c.broker.PutOnce(ctx, h.c.names.EncodeResult(res))
	if err != nil {
		return fmt.Errorf("put the result: %w", err) // a full stream too: not known to be stored (P7.4)
	}
	if winner == nil {
		h.countEnd(ctx, r)
		h.c.metrics.Ended(res.Status)
		h.log.Info("call ended", "status", string(res.Status), "code", string(res.Code), "reason", res.Reason, "attempts", res.Attempts)
		return h.afterEnd(ctx, &r, res)
	}
	there, err := h.c.names.DecodeResult(winner.Message)
	if err != nil {
		return fmt.Errorf("the result of the call %w: %w", errUnreadable, err)
	}
	if there.Status != res.Status {
		return errAgain
	}
	return h.afterEnd(ctx, &r, there)
}

func (h *handling) afterEnd(ctx context.Context, r *messages.Record, winner messages.Result) error {
	var of messages.Record
	if r != nil {
		of = *r
	}
	return h.perform(ctx, of, dispatch.AfterEnd(r, winner))
}
