package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// handling is one delivery on its way through the steps of protocol section 3.
// One goroutine owns it.
type handling struct {
	w     *Worker
	lease *lease
	call  messages.Call
	log   *slog.Logger
	tool  *tool.Tool // nil with a refusal
	// maybe: this may repeat an earlier execution, so outcomes are looked for
	// and the start is marked (a later dispatch, a second delivery, a
	// resubmitted chunk).
	maybe bool
	// refusal, if set, is the outcome in place of an execution.
	refusal *refusal
	token   string // random, of this handling (P7.15); made when first needed
	mark    int    // start mark of the execution, 0 for none
	began   bool   // step 3 began: never give back any more
	slot    bool   // holds a slot
	acked   bool
}

// errLetGo ends a handling without an ack: the lease ends it, or gave it to another.
var errLetGo = errors.New("let go")

// handle takes a delivery from step 0 to step 5 and frees its slot.
func (w *Worker) handle(l *lease) {
	h := &handling{w: w, lease: l, slot: true, log: w.log}
	w.counts.running.Add(1)
	defer w.counts.running.Add(-1)
	defer h.freeSlot()
	defer w.leases.drop(l)
	err := h.steps()
	switch {
	case err == nil:
		h.ack()
	case errors.Is(err, errLetGo):
		w.metric(w.cfg.Metrics.LetGo)
		h.log.Warn("a delivery was let go: its lease may have lapsed")
	case errors.Is(err, errNoCall):
		h.ack()
	case errors.Is(err, errHandOn):
	case !h.began && w.draining.Err() != nil:
		w.handOn(l, "draining")
	default:
		h.log.Error("a call was left to the end of its lease", "error", err)
	}
}

func (h *handling) freeSlot() {
	if h.slot {
		h.slot = false
		h.w.freed <- struct{}{}
	}
}

// mostStoring is how many calls a worker may have beyond its slots because their
// tools have returned and their results are being stored: one for each lane but
// one, as it may hold others before they begin (ADR 0015).
var mostStoring = int32(len(messages.Lanes()) - 1)

// freeSlotEarly frees the slot, where all are taken, while the result is being
// stored, so that the next call comes meanwhile: with few slots the round trip to
// the broker is most of what a short call takes. A store that does not answer
// keeps the other slots. Stored is to be called afterwards.
func (h *handling) freeSlotEarly() (stored func()) {
	w := h.w
	if w.counts.running.Load() < int64(w.cfg.Slots) {
		return func() {}
	}
	if w.storing.Add(1) > mostStoring {
		w.storing.Add(-1)
		return func() {}
	}
	h.freeSlot()
	return func() { w.storing.Add(-1) }
}

// steps returns nil when the delivery is to be acked.
func (h *handling) steps() error {
	d := h.lease.current()
	if err := h.open(d); err != nil {
		return err
	}
	if h.maybe { // step 1
		look := h.alreadyEnded
		if h.startTells() {
			look = h.callEnded
		}
		if ended, err := look(); err != nil || ended {
			return err
		}
	}
	if err := h.loadInput(); err != nil {
		return err
	}
	if err := h.askHooks(); err != nil {
		return err
	}
	if err := h.askBreaker(); err != nil {
		return err
	}
	return h.decide()
}

// open is step 0: whose call is it, and may it begin at all.
func (h *handling) open(d messages.Delivery) error {
	call, err := h.w.names.DecodeCall(d.Message)
	if err != nil {
		if call, err = h.unreadable(d, err); err != nil {
			return err
		}
	}
	h.call = call
	h.maybe = call.Dispatch >= 1 || d.Delivery > 1 || call.Repeat
	h.log = slog.New(callLog{h.w.log.Handler(), &h.call})
	if !h.lease.held() {
		return errLetGo
	}
	if h.w.draining.Err() != nil {
		return context.Cause(h.w.draining)
	}
	if h.refusal != nil {
		return nil
	}
	if h.tool = h.w.serving.Load().tools[call.Tool]; h.tool == nil {
		return h.notMine(d)
	}
	return nil
}

// startTells says that nobody writes a failure of this dispatch without having
// written its start or a mark: who finds none of another need not look for one.
func (h *handling) startTells() bool {
	return h.call.Dispatch >= 1 || h.call.Effect == messages.Unsafe
}

// callEnded looks for an outcome of the whole call (P7.9).
func (h *handling) callEnded() (bool, error) {
	_, found, err := h.look(h.w.names.ResultSubject(h.call.Run, h.call.ID))
	if err != nil || !found {
		return false, err
	}
	return true, h.settle(h.w.flushing)
}

// alreadyEnded looks for an outcome of this dispatch, too.
func (h *handling) alreadyEnded() (bool, error) {
	if ended, err := h.callEnded(); err != nil || ended {
		return ended, err
	}
	_, found, err := h.look(h.w.names.FailureSubject(h.call.Run, h.call.ID, h.call.Dispatch))
	return found, err
}

// look reads a subject before anything began: until it is known what is there,
// the worker drains, or the lease may have lapsed.
func (h *handling) look(subject string) (messages.Stored, bool, error) {
	ctx := h.w.draining
	if h.began {
		ctx = h.w.flushing
	}
	for p := pauses(); ; {
		m, err := h.w.broker.Get(ctx, subject)
		switch {
		case err == nil:
			return m, true, nil
		case errors.Is(err, messages.ErrNotFound):
			return messages.Stored{}, false, nil
		case !h.began && !h.lease.held():
			return messages.Stored{}, false, errLetGo
		}
		h.log.Warn("an outcome could not be looked for", "subject", subject, "error", err)
		if !p.Wait(ctx) {
			return messages.Stored{}, false, context.Cause(ctx)
		}
	}
}

// loadInput brings the input here before step 3, so that nothing stands
// between the start and the tool.
func (h *handling) loadInput() error {
	ref := h.call.Input.Ref
	if ref == nil || h.refusal != nil {
		return nil
	}
	for p := pauses(); ; {
		input, err := h.w.broker.GetPayload(h.w.draining, *ref)
		switch {
		case err == nil:
			h.call.Input = messages.Body{Inline: input, Ref: ref}
			return nil
		case errors.Is(err, messages.ErrNotFound):
			h.refusal = &refusal{code: messages.CodeBadCall, text: "The input of this call is no longer stored, so tool \"" + h.call.Tool + "\" was not run."}
			return nil
		case !h.lease.held():
			return errLetGo
		}
		h.log.Warn("an input could not be read", "error", err)
		if !p.Wait(h.w.draining) {
			return context.Cause(h.w.draining)
		}
	}
}

// decide is steps 2 and 3.
func (h *handling) decide() error {
	if !h.lease.held() {
		return errLetGo
	}
	stop := h.stop()
	if h.call.Effect == messages.Unsafe {
		return h.claim(stop)
	}
	if stop != nil {
		return h.end(*stop)
	}
	if h.maybe {
		mine, err := h.setMark()
		if err != nil || !mine {
			return err
		}
	}
	return h.proceed()
}

// proceed runs the tool, or writes down why it is not run.
func (h *handling) proceed() error {
	if h.refusal != nil {
		return h.fail(h.refused())
	}
	return h.run()
}

// stop says that the call is to end without running, and how (step 2).
func (h *handling) stop() *messages.Cancel {
	if wish, ok := h.w.cancels.wish(h.call); ok {
		found := wish // which alone has to outlive this
		return &found
	}
	if d := h.call.Deadline; !d.IsZero() && !time.Now().Before(d) {
		return &messages.Cancel{Status: messages.Expired, Code: messages.CodeDeadline, Reason: "its deadline passed before it ran"}
	}
	return nil
}

func (h *handling) ack() {
	if h.acked {
		return
	}
	h.acked = true
	if err := h.w.broker.Ack(h.w.flushing, h.lease.current()); err != nil {
		h.log.Warn("an ack was not sent; the call is handed out again and its outcome found", "error", err)
	}
}

// handOn gives back a delivery of which nothing has begun, while its lease is young.
func (w *Worker) handOn(l *lease, why string) {
	if !l.young() {
		w.metric(w.cfg.Metrics.LetGo)
		return
	}
	if w.cfg.Metrics.HandedOn != nil {
		w.cfg.Metrics.HandedOn(why)
	}
	d := l.current()
	if err := w.broker.Nak(w.flushing, d); err != nil {
		w.log.Warn("a delivery was not given back; its lease ends it", "subject", d.Subject, "error", err)
	}
}

// giveBack is handOn for a delivery that no handling has.
func (w *Worker) giveBack(l *lease, why string) {
	w.handOn(l, why)
	w.leases.drop(l)
}

func (w *Worker) metric(f func()) {
	if f != nil {
		f()
	}
}
