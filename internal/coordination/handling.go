package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// handling is one trigger on its way through the steps of protocol section 2.
type handling struct {
	c    *Coordinator
	t    trigger
	seat *seat
	log  *slog.Logger

	// What lasts from one round of the steps to the next: facts that do not
	// change, and what was done on the way.
	failures map[int]*messages.Failure
	contents map[string][]byte // of payloads
	size     int               // in bytes, of what is in both
	failedAt time.Time         // when the failure that was read last was stored
	waited   bool
	noRoom   bool
	claim    claim
	looks    int               // rounds that found nothing of the call, or an old record
	passage  *dispatch.Passage // what the gate said, nil for not asked
	passing  string            // about a dispatch to this tool
	told     bool              // the breaker knows what this trigger says of its tool
	met      bool              // there may be a record of the call, and it is to be read
	glimpsed bool              // a round without reading came to something else than a wait

	// What this round read.
	record   *messages.Record
	revision uint64
	result   *messages.Result
}

// claim is a tombstone that this handling put, or found a start in its place.
type claim struct {
	n, mark int
	outcome dispatch.Claim
}

// outcome is what came of a trigger.
type outcome int

const (
	letGo     outcome = iota // left to its next delivery
	done                     // to be acked
	givenBack                // it only waited when this coordinator was stopped
)

var (
	// errAgain sends a handling back to step 1: a compare-and-set was lost, or
	// its outcome is not known.
	errAgain = errors.New("from step 1")
	// errDone ends a list of effects early: the call was ended on the way.
	errDone = errors.New("done")
	// errUnreadable is what trying again does not mend: a message of another
	// version. A coordinator of that version may get the next delivery.
	errUnreadable = errors.New("cannot be read")
	// errStopped ends a wait early.
	errStopped = errors.New("stopped while it waited")
)

// mostKept is how many bytes of failures short waits keep, in all.
const mostKept = 16 << 20

// mostLooks is how often a record that stands before its trigger is read again
// before the trigger is let go.
const mostLooks = 8

func newHandling(c *Coordinator, t trigger, s *seat) *handling {
	log := c.log.With("trigger", string(t.id.Kind), "run", string(t.run), "call", t.call, "dispatch", t.id.N)
	return &handling{c: c, t: t, seat: s, log: log, failures: make(map[int]*messages.Failure), contents: make(map[string][]byte)}
}

// advance goes on until the trigger is done, given back, or let go. The trigger
// and its lease are kept all the while; a failing broker is given Patience.
func (h *handling) advance(ctx context.Context) outcome {
	steps := h.round
	if h.t.call == "" {
		steps = h.wholeRun
	}
	if !h.untilDue() {
		return givenBack
	}
	began := time.Now()
	for p := pauses(); ; {
		err := steps(ctx)
		switch {
		case err == nil || errors.Is(err, errDone):
			return done
		case errors.Is(err, errStopped):
			return givenBack
		case errors.Is(err, errAgain) && ctx.Err() == nil:
			continue
		}
		if ctx.Err() != nil || time.Since(began) > h.c.cfg.Patience || h.looks > mostLooks || errors.Is(err, errUnreadable) {
			h.log.Warn("a trigger is let go and comes again", "error", err)
			return letGo
		}
		h.log.Debug("a trigger is tried again", "error", err)
		h.seat.away(func() { p.Wait(ctx) })
	}
}

// round is steps 1 to 8, once. Nil means that the trigger is to be acked.
func (h *handling) round(ctx context.Context) error {
	sight := h.sees()
	if err := h.read(ctx, sight); err != nil {
		return err
	}
	facts, err := h.facts(ctx)
	if err != nil {
		return err
	}
	if sight != seesNothing {
		if err := h.tellBreaker(ctx, facts); err != nil {
			return err
		}
	}
	v := dispatch.Step(h.record, h.t.event, facts, time.Now().UTC())
	if h.lookCloser(sight, v.Do) || h.forAnother(v) {
		return errAgain
	}
	h.log.Debug("step", "verdict", v.Do.String(), "why", v.Why)
	if err := h.keepDenial(ctx, v, facts); err != nil {
		return err
	}
	switch v.Do {
	case dispatch.Ack:
		return nil
	case dispatch.ReadAgain:
		h.looks++
		return fmt.Errorf("read again: %s", v.Why)
	case dispatch.WaitFirst:
		return h.wait(v.Delay)
	case dispatch.ClaimFirst:
		return h.claimStart(ctx, v)
	case dispatch.AskGate:
		return h.askGate(ctx, v.Record)
	case dispatch.PutAnswer:
		return h.putAnswer(ctx, *v.Answer)
	case dispatch.Repeat:
		return h.perform(ctx, v.Record, dispatch.Effects(v.Record))
	case dispatch.Closed:
		return h.afterEnd(ctx, h.record, *h.result)
	}
	return h.write(ctx, v)
}

// read is step 1: RESULTS, then the record, both from the leader, as far as the
// round is to see them.
func (h *handling) read(ctx context.Context, s sight) error {
	h.result, h.record, h.revision = nil, nil, 0
	if s == seesNothing {
		return nil
	}
	if err := h.readResult(ctx); err != nil || s == seesResult {
		return err
	}
	return h.readRecord(ctx)
}

func (h *handling) readResult(ctx context.Context) error {
	get := h.c.broker.Get
	if h.t.id.Kind == messages.TriggerSettled {
		get = h.c.broker.Find
	}
	m, err := get(ctx, h.c.names.ResultSubject(h.t.run, h.t.call))
	switch {
	case err == nil:
		res, err := h.c.names.DecodeResult(m.Message)
		if err != nil {
			return fmt.Errorf("the result of the call %w: %w", errUnreadable, err)
		}
		h.result = &res
	case !errors.Is(err, messages.ErrNotFound):
		return fmt.Errorf("read the result: %w", err)
	}
	return nil
}

func (h *handling) readRecord(ctx context.Context) error {
	e, err := h.c.broker.Load(ctx, messages.BucketAttempts, messages.CallKey(h.t.run, h.t.call))
	switch {
	case err == nil:
		r, err := messages.DecodeRecord(e.Value)
		if err != nil {
			return fmt.Errorf("the record of the call %w: %w", errUnreadable, err)
		}
		h.record, h.revision = &r, e.Revision
	case !errors.Is(err, messages.ErrNotFound):
		return fmt.Errorf("read the record: %w", err)
	}
	return nil
}

// write is step 7, and what follows it.
func (h *handling) write(ctx context.Context, v dispatch.Verdict) error {
	r := v.Record
	if err := h.save(ctx, &r); err != nil {
		return err
	}
	if h.t.id.Kind == messages.TriggerDecision && v.Do == dispatch.Write {
		h.c.metrics.Decision(h.t.event.Decision.Action.Type)
	}
	switch v.Do {
	case dispatch.WriteAgain:
		return errAgain
	case dispatch.Close:
		return h.afterEnd(ctx, &r, *h.result)
	}
	level := slog.LevelInfo
	if r.State == messages.Ended { // its end is told when its result is stored
		level = slog.LevelDebug
	}
	h.log.Log(ctx, level, "call "+string(r.State), "why", v.Why, "next", r.N, "tool", r.Call.Tool)
	return h.perform(ctx, r, dispatch.Effects(r))
}

// save compares and sets. Anything but a success sends the handling back to
// step 1, where it finds out what became of it: the loser never acks (P7.2).
func (h *handling) save(ctx context.Context, r *messages.Record) error {
	if r.Input.Ref == nil && !r.Input.FitsInline() {
		ref, err := h.c.broker.PutPayload(ctx, r.Input.Inline)
		if err != nil {
			return fmt.Errorf("store the input of dispatch %d: %w", r.N, err)
		}
		r.Input = messages.Body{Ref: &ref}
	}
	b, err := messages.EncodeRecord(*r)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	h.met = true // another, or this attempt: what is there is read before the next
	rev, err := h.c.broker.Save(ctx, messages.BucketAttempts, messages.CallKey(h.t.run, h.t.call), b, h.revision, h.c.cfg.RecordTTL)
	if errors.Is(err, messages.ErrConflict) {
		return errAgain
	}
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	h.record, h.revision = r, rev
	return nil
}

// wait lets a short delay pass beside the un-acked trigger, without a slot and
// without what may have changed after it. The failure, which does not change, is
// kept where there is memory for it: thousands may wait. Where there is no room
// for one more, the next step sends it to SCHEDULE.
func (h *handling) wait(d time.Duration) error {
	select {
	case h.c.room <- struct{}{}:
	default:
		h.c.metrics.Spilled()
		h.noRoom = true
		return errAgain
	}
	kept := int64(h.size)
	if h.c.kept.Add(kept) > mostKept {
		h.c.kept.Add(-kept)
		kept, h.size = 0, 0
		clear(h.failures)
		clear(h.contents)
	}
	defer h.c.kept.Add(-kept)
	h.record, h.result = nil, nil
	h.c.metrics.Waiting(1)
	h.seat.away(func() { h.waited = pace.Sleep(h.c.stopping, d) })
	h.c.metrics.Waiting(-1)
	<-h.c.room
	if !h.waited {
		return errStopped
	}
	return errAgain
}

func (h *handling) putAnswer(ctx context.Context, a messages.Answer) error {
	m, err := messages.EncodeStory(h.c.names.AnswerSubject(h.t.run, h.t.call, h.t.id.N), a)
	if err != nil {
		return err
	}
	if _, err := h.c.broker.PutOnce(ctx, m); err != nil {
		return fmt.Errorf("put the answer: %w", err)
	}
	return nil // refused: a human was first, and that answer is a trigger of its own
}
