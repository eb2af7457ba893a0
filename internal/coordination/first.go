package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// ask sorts the calls that something stands before: they go out, wait, or end
// here and now, without ever passing through CALLS.
func (s *submission) ask(ctx context.Context) {
	errs := sideBySide(s.gated, func(in *incoming) error { return s.c.askFirst(ctx, in) })
	for i, in := range s.gated {
		switch p := in.passage; {
		case errs[i] != nil:
			s.drop(*in, errs[i])
		case in.known:
			s.keep(*in)
		case p.Refusal != nil:
			s.turned = append(s.turned, *in)
		case p.Wait != nil:
			s.waiting = append(s.waiting, *in)
		default:
			if p.Probe {
				in.call.Probe = true
				in.message = s.c.names.EncodeCall(in.call)
			}
			s.sound = append(s.sound, *in)
		}
	}
}

// askFirst asks for a first dispatch. A repetition that is known already was
// let through or put off, or has ended: what became of it is not to be
// decided a second time, since its first copy may be running (P7.11).
func (c *Coordinator) askFirst(ctx context.Context, in *incoming) (err error) {
	if in.call.Repeat {
		if in.known, err = c.knownBefore(ctx, in.call); err != nil || in.known {
			return err
		}
	}
	if in.notBefore.After(time.Now()) {
		in.passage.Wait = &dispatch.Wait{Until: in.notBefore, Reason: "it was submitted for then"}
		return nil // the gate is asked when it is due
	}
	in.passage, err = c.gate(ctx, in.call, in.content)
	return err
}

// knownBefore is knows, and sees to it that a call which was put off does
// come again: whoever wrote its record may have come no further.
func (c *Coordinator) knownBefore(ctx context.Context, call messages.Call) (bool, error) {
	known, err := c.knows(ctx, call.Run, call.ID)
	if err != nil || !known {
		return false, err
	}
	return true, c.putOffAgain(ctx, call)
}

// putOffFirst writes the record of a call that waits before its first dispatch, then
// its schedule.
func (c *Coordinator) putOffFirst(ctx context.Context, in incoming) error {
	r := dispatch.PutOffFirst(in.call, *in.passage.Wait, time.Now().UTC())
	err := c.saveFirst(ctx, r)
	switch {
	case errors.Is(err, messages.ErrConflict):
		return c.putOffAgain(ctx, in.call)
	case err != nil:
		return err
	}
	return c.scheduleWait(ctx, r)
}

// saveFirst writes the first record of a call.
func (c *Coordinator) saveFirst(ctx context.Context, r messages.Record) error {
	if r.Input.Ref == nil && !r.Input.FitsInline() {
		ref, err := c.broker.PutPayload(ctx, r.Input.Inline)
		if err != nil {
			return err
		}
		r.Input = messages.Body{Ref: &ref}
	}
	b, err := messages.EncodeRecord(r)
	if err != nil {
		return err
	}
	_, err = c.broker.Save(ctx, messages.BucketAttempts, messages.CallKey(r.Call.Run, r.Call.ID), b, 0, c.cfg.RecordTTL)
	return err
}

// putOffAgain repeats the schedule of a call that is put off as it was
// submitted. It replaces the one that is there; one that fires a second time
// finds the record past it.
func (c *Coordinator) putOffAgain(ctx context.Context, call messages.Call) error {
	e, err := c.broker.Load(ctx, messages.BucketAttempts, messages.CallKey(call.Run, call.ID))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil {
		return fmt.Errorf("the record of the call: %w", err)
	}
	if r.State != messages.Waiting || r.Trigger.Kind != "" {
		return nil
	}
	return c.scheduleWait(ctx, r)
}

func (c *Coordinator) scheduleWait(ctx context.Context, r messages.Record) error {
	for _, e := range dispatch.Effects(r) {
		if e.Kind != dispatch.Schedule {
			continue // its run is looked at before it goes out
		}
		c.store.wait(r, e.Due.At)
		if err := c.broker.Schedule(ctx, e.Due); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	return nil
}

// turnAway ends a call that was refused at the gate, or as one of a loop. An
// end that is there already stays. Its input would be nowhere, so it is kept in a record; the
// result has decided by then, and without a record only a replay is poorer.
func (c *Coordinator) turnAway(ctx context.Context, in incoming) error {
	record, res := dispatch.TurnedAway(in.call, *in.passage.Refusal, time.Now().UTC())
	winner, err := c.broker.PutOnce(ctx, c.names.EncodeResult(res))
	if err != nil || winner != nil {
		return err
	}
	if err := c.saveFirst(ctx, record); err != nil && !errors.Is(err, messages.ErrConflict) {
		c.log.Warn("the input of a call that was turned away is not kept, and cannot be replayed from here", "call", res.Call, "error", err)
	}
	c.metrics.Ended(res.Status)
	c.log.Debug("call ended", "call", res.Call, "run", string(res.Run), "status", string(res.Status), "code", string(res.Code), "reason", res.Reason)
	if res.Code == messages.CodeLoopDetected {
		return c.stopRun(ctx, res)
	}
	return nil
}

// giveUpProbe takes the leave back from a probe that could not be stored, so
// that another call gets it and not the end of its lease.
func (c *Coordinator) giveUpProbe(call messages.Call) {
	if err := c.breakers.probed(c.working, call, false); err != nil {
		c.log.Warn("a probe could not be stored, and its lease has to pass", "tool", call.Tool, "call", call.ID, "error", err)
	}
}
