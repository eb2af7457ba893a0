package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// Step 3: who may run the tool is decided by a first write.

func (h *handling) myToken() string {
	if h.token == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		h.token = hex.EncodeToString(b[:])
	}
	return h.token
}

func (h *handling) start(tombstone string) messages.Start {
	d := h.lease.current()
	return messages.Start{
		Token: h.myToken(), Sequence: d.Sequence, Delivery: d.Delivery, Worker: h.w.cfg.Name,
		Tombstone: tombstone, At: time.Now().UTC(),
	}
}

// claim is step 3 for an unsafe tool: the start is written before the tool
// runs (S7.4), or a tombstone where it shall not run, on the same subject, so
// that only one of the two can be (P7.17).
func (h *handling) claim(stop *messages.Cancel) error {
	h.began = true
	c := h.call
	subject := h.w.names.StartSubject(c.Run, c.ID, c.Dispatch)
	mine := h.start("")
	switch {
	case stop != nil:
		mine.Tombstone = messages.Tombstone(stop.Code, stop.Reason)
	case h.refusal != nil:
		mine.Tombstone = messages.Tombstone(h.refusal.code, h.refusal.text)
	}
	first, err := h.putStart(subject, mine)
	if err != nil {
		return err
	}
	switch {
	case first.Token == mine.Token && stop != nil:
		return h.end(*stop)
	case first.Token == mine.Token:
		return h.proceed()
	case first.Tombstone != "":
		return h.foundBuried(first.Tombstone)
	case first.Sequence != mine.Sequence:
		h.log.Info("a duplicate message of a dispatch that another message has started")
		return nil // P7.16
	}
	return h.lost(first)
}

// putStart returns the start that stands, which is s unless another was first.
func (h *handling) putStart(subject string, s messages.Start) (messages.Start, error) {
	m, err := messages.EncodeStory(subject, s)
	if err != nil {
		return s, err
	}
	winner, err := h.w.put(h.w.flushing, m)
	if err != nil || winner == nil {
		return s, err
	}
	first, err := messages.DecodeStory[messages.Start](winner.Body)
	if err != nil {
		return s, fmt.Errorf("start on %s: %w", subject, err)
	}
	return first, nil
}

// setMark is step 3 for the other tools, where this may be a repetition: it
// counts executions (S4.6), deliveries would count deploys (P7.25). It
// reports whether to go on; if not, the delivery is dealt with.
func (h *handling) setMark() (bool, error) {
	h.began = true
	c := h.call
	var last messages.Start
	for k := 1; k <= messages.MaxMarks; k++ {
		mine := h.start("")
		first, err := h.putStart(h.w.names.MarkSubject(c.Run, c.ID, c.Dispatch, k), mine)
		switch {
		case err != nil:
			return false, err
		case first.Token == mine.Token:
			h.mark = k
			return true, nil
		case first.Tombstone != "":
			h.mark = k
			return false, h.foundBuried(first.Tombstone)
		}
		if last = first; k == 1 {
			if ended, err := h.alreadyEnded(); err != nil || ended {
				return false, err
			}
		}
	}
	return false, h.lost(last)
}

// lost reports that whoever started this dispatch left no outcome (S6).
func (h *handling) lost(by messages.Start) error {
	ended, err := h.alreadyEnded()
	if err != nil || ended {
		return err
	}
	f := h.failure(messages.CodeWorkerLost, fmt.Sprintf("worker %s was lost while it ran tool %q", by.Worker, h.call.Tool))
	f.Executed, f.Ambiguous = true, h.call.Effect != messages.ReadOnly
	f.Worker, f.Started = by.Worker, by.At
	if h.call.Effect != messages.Unsafe {
		f.Mark = messages.MaxMarks
	}
	return h.publishFailure(f, false)
}

// foundBuried deals with a dispatch that another one kept from starting. Most
// tombstones stand beside a failure, for the correction that takes its place;
// who refuses a call writes one before its failure, and may have come no further.
func (h *handling) foundBuried(why string) error {
	if ended, err := h.alreadyEnded(); err != nil || ended {
		return err
	}
	return h.buried(why, h.stop())
}

// buried does what a tombstone tells. Who wrote it for a cancel or deadline may
// be gone, so the result is written here too (P7.7); a refusal is a failure.
func (h *handling) buried(why string, stop *messages.Cancel) error {
	code, text := messages.ParseTombstone(why)
	switch code {
	case messages.CodeToolNotFound, messages.CodeBadCall, messages.CodeHookVeto:
		h.refusal = &refusal{code: code, text: text}
		return h.fail(h.refused())
	case messages.CodeBreakerOpen:
		h.refusal = h.shutAgain(text)
		return h.fail(h.refused())
	}
	if stop == nil {
		stop = &messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: why}
		switch code {
		case messages.CodeDeadline, messages.Code(messages.Expired):
			stop.Status, stop.Code, stop.Reason = messages.Expired, messages.CodeDeadline, text
		case messages.CodeCancelled, messages.CodeRunEnded:
			stop.Code, stop.Reason = code, text
		}
	}
	return h.end(*stop)
}

// put stores m, or finds who was first, and returns only when one of the two is
// known: nil, nil is stored; also when the first was this very message, whose
// answer was lost. An error is ErrTooLarge or the end of ctx.
func (w *Worker) put(ctx context.Context, m messages.Message) (*messages.Stored, error) {
	for p := pauses(); ; {
		winner, err := w.broker.PutOnce(ctx, m)
		if err == nil {
			if winner != nil && same(winner.Message, m) {
				return nil, nil
			}
			return winner, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if isTooLarge(err) {
			return nil, err
		}
		w.metric(w.cfg.Metrics.PublishFailed)
		w.log.Warn("an outcome was not taken; trying again", "subject", m.Subject, "error", err)
		if !p.Wait(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}
