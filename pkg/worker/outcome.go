package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Step 4: outcomes. Nothing is acked before it is stored.

func isTooLarge(err error) bool { return errors.Is(err, messages.ErrTooLarge) }

// same says whether a stored message is m: a publish whose answer was lost
// finds itself.
func same(stored, m messages.Message) bool {
	if !bytes.Equal(stored.Body, m.Body) {
		return false
	}
	for k := range m.Header {
		if stored.Header.Get(k) != m.Header.Get(k) {
			return false
		}
	}
	return true
}

// succeed writes a success (best news wins, once: S7.5).
func (h *handling) succeed(e tool.Execution) error {
	out, err := h.body(e.Output.Body, len(e.Output.Body))
	if isTooLarge(err) {
		return h.fail(h.unstorable(e, err))
	}
	if err != nil {
		return err
	}
	c := h.call
	r := messages.Result{
		Call: c.ID, Ref: c.Ref, Run: c.Run, Tool: c.Tool, OriginalTool: c.OriginalTool, Labels: c.Labels,
		Status: messages.Succeeded, Attempts: c.Attempt + 1, Dispatch: c.Dispatch, RecoveredBy: c.RecoveredBy,
		Worker: h.w.cfg.Name, Duration: messages.Millis(e.Took), Ended: time.Now().UTC(), Output: out,
	}
	winner, err := h.w.put(h.w.flushing, h.w.names.EncodeResult(r))
	switch {
	case isTooLarge(err):
		return h.fail(h.unstorable(e, err))
	case err != nil:
		return err
	case winner != nil:
		if err := h.late(messages.Late{Why: "the call had ended", Output: &out}); err != nil {
			return err
		}
	}
	h.observeSuccess(r, winner != nil)
	h.w.counts.succeeded.Add(1)
	if h.maybe || !h.lease.held() || h.owesBreaker(e.Started) || h.stop() != nil { // a record may exist (P7.24)
		return h.settle(h.w.flushing)
	}
	return nil
}

// unstorable is a success whose output cannot be kept: the effect has happened.
func (h *handling) unstorable(e tool.Execution, err error) messages.Failure {
	e.Failure = &tool.Failure{
		Code: messages.CodeOutputTooLarge, Ambiguous: true,
		Text: fmt.Sprintf("Tool %q returned %d bytes, which cannot be stored: %v", h.call.Tool, len(e.Output.Body), err),
	}
	return h.executed(e)
}

// end writes the result of a call that shall not run.
func (h *handling) end(stop messages.Cancel) error {
	h.began = true
	c := h.call
	r := messages.Result{
		Call: c.ID, Ref: c.Ref, Run: c.Run, Tool: c.Tool, OriginalTool: c.OriginalTool, Labels: c.Labels, IsError: true,
		Status: stop.Status, Code: stop.Code, Reason: stop.Reason,
		Attempts: c.Attempt, Dispatch: c.Dispatch, Ended: time.Now().UTC(),
	}
	if r.Status != messages.Expired {
		r.Status = messages.Cancelled
	}
	if c.Effect == messages.Unsafe && len(c.Ambiguous) > 0 { // S7.7
		r.Reason = fmt.Sprintf("%s, and an earlier attempt may have had its effect: %s", r.Status, stop.Reason)
		r.Status, r.Code = messages.StatusUnknown, messages.CodeAmbiguous
	}
	var err error
	if r.Output, err = h.lastFailure(); err != nil {
		return err
	}
	if r.Output.Ref == nil && r.Output.Inline == nil {
		r.Output = messages.Text(strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Status, stop.Reason), ": "))
	}
	if _, err := h.w.put(h.w.flushing, h.w.names.EncodeResult(r)); err != nil {
		return err
	}
	h.w.counts.stopped.Add(1)
	return h.settle(h.w.flushing)
}

// lastFailure is the verbatim result of the last attempt that was executed,
// or whose arguments could not be used (S5.2); empty when there was none.
func (h *handling) lastFailure() (messages.Body, error) {
	for n := h.call.Dispatch - 1; n >= 0; n-- {
		m, found, err := h.look(h.w.names.FailureSubject(h.call.Run, h.call.ID, n))
		if err != nil {
			return messages.Body{}, err
		}
		if !found {
			continue
		}
		f, err := messages.DecodeFailure(m.Body)
		if err != nil {
			h.log.Warn("an earlier failure cannot be read", "n", n, "error", err)
			continue
		}
		if f.Executed || f.Code == messages.CodeInvalidArguments {
			return f.Output, nil
		}
	}
	return messages.Body{}, nil
}

// failure begins a failure of this dispatch: nothing executed, definite.
func (h *handling) failure(code messages.Code, text string) messages.Failure {
	return messages.Failure{
		Call: h.call, Input: h.call.Input, Output: messages.Text(text), Code: code, Error: text,
		Mark: h.mark, Worker: h.w.cfg.Name,
	}
}

// executed is the failure of an execution. What reads only has no effect that
// could be in doubt, however it ended.
func (h *handling) executed(e tool.Execution) messages.Failure {
	f := h.failure(e.Failure.Code, e.Failure.Text)
	if e.Failure.Body != nil {
		f.Output = messages.Body{Inline: e.Failure.Body}
	}
	f.Executed = !e.Failure.NotExecuted
	f.Ambiguous = e.Failure.Ambiguous && h.call.Effect != messages.ReadOnly
	f.NothingDone, f.RetryAfter = e.Failure.NothingDone, messages.Millis(e.Failure.RetryAfter)
	f.Started, f.Duration, f.Stderr = e.Started.UTC(), messages.Millis(e.Took), e.Output.Stderr
	return f
}

func (h *handling) fail(f messages.Failure) error { return h.publishFailure(f, f.Executed) }

// publishFailure writes f. When another failure of this dispatch was first, a
// failure that this worker saw is kept as late.
func (h *handling) publishFailure(f messages.Failure, seen bool) error {
	h.began = true
	f.At = time.Now().UTC()
	m, err := h.encodeFailure(&f)
	if err != nil {
		return err
	}
	winner, err := h.w.put(h.w.flushing, m)
	switch {
	case err != nil:
		return err
	case winner != nil && seen:
		h.observeFailure(f, true)
		return h.late(messages.Late{Why: "another outcome of this dispatch was first", Failure: &f})
	case winner == nil:
		h.observeFailure(f, false)
	}
	h.w.counts.failed.Add(1)
	return nil
}

func (h *handling) encodeFailure(f *messages.Failure) (messages.Message, error) {
	var err error
	if f.Output, err = h.body(f.Output.Inline, f.Output.EncodedSize()); err != nil {
		return messages.Message{}, err
	}
	if ref := f.Input.Ref; ref != nil {
		f.Input = messages.Body{Ref: ref}
	} else if f.Input, err = h.body(f.Input.Inline, f.Input.EncodedSize()); err != nil {
		return messages.Message{}, err
	}
	return h.w.names.EncodeFailure(*f)
}

// body keeps b inline if its form in the message, of the given size, may be,
// else stores it first. An error is ErrTooLarge or the end of the flush.
func (h *handling) body(b []byte, encoded int) (messages.Body, error) {
	if encoded <= messages.MaxInline {
		return messages.Body{Inline: b}, nil
	}
	for p := pauses(); ; {
		ref, err := h.w.broker.PutPayload(h.w.flushing, b)
		if err == nil {
			return messages.Body{Ref: &ref}, nil
		}
		if isTooLarge(err) {
			return messages.Body{}, err
		}
		h.w.metric(h.w.cfg.Metrics.PublishFailed)
		h.log.Warn("an output was not taken; trying again", "bytes", len(b), "error", err)
		if !p.Wait(h.w.flushing) {
			return messages.Body{}, context.Cause(h.w.flushing)
		}
	}
}

// late keeps an outcome that came too late to count; it changes nothing (S7.5).
func (h *handling) late(l messages.Late) error {
	l.Worker, l.At = h.w.cfg.Name, time.Now().UTC()
	if l.Output != nil && l.Output.Ref == nil {
		out, err := h.body(l.Output.Inline, l.Output.EncodedSize())
		if err != nil {
			return err
		}
		l.Output = &out
	}
	c := h.call
	m, err := messages.EncodeStory(h.w.names.LateSubject(c.Run, c.ID, c.Dispatch, h.myToken()), l)
	if err != nil {
		return err
	}
	h.w.counts.late.Add(1)
	_, err = h.w.put(h.w.flushing, m)
	return err
}

// settle says that the call has ended, so that its record can be closed (P7.24).
func (h *handling) settle(ctx context.Context) error {
	c := h.call
	m, err := messages.EncodeStory(h.w.names.SettledSubject(c.Run, c.ID, c.Dispatch), messages.Settled{By: h.w.cfg.Name, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	_, err = h.w.put(ctx, m)
	return err
}
