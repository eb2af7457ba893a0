package coordination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// answerCall answers EndpointAnswer. When it says yes the answer is durable,
// and was the first (S5.3): a trigger that any coordinator can take up.
func (c *Coordinator) answerCall(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.AnswerRequest](request)
	if err != nil {
		code := messages.CodeBadCall
		if otherVersion(request) {
			code = messages.CodeVersion
		}
		return encodeReply(messages.AnswerReply{Code: code, Error: err.Error()})
	}
	a := messages.Answer{Kind: req.Kind, Input: req.Input, Reason: req.Reason, By: req.By, At: time.Now().UTC(), Token: req.Token}
	t := trigger{id: messages.Trigger{Kind: messages.TriggerAnswer, N: req.Dispatch}, run: req.Run, call: req.Call}
	t.event = dispatch.Event{Trigger: t.id, Answer: &a}
	h := newHandling(c, t, nil)
	reply := h.takeAnswer(ctx, a)
	if reply.Error == "" {
		h.log.Info("call answered", "answer", string(a.Kind), "by", a.By)
	} else {
		h.log.Info("an answer was refused", "answer", string(a.Kind), "by", a.By, "code", string(reply.Code), "error", reply.Error)
	}
	return encodeReply(reply)
}

func refusedAnswer(code messages.Code, format string, args ...any) messages.AnswerReply {
	return messages.AnswerReply{Code: code, Error: fmt.Sprintf(format, args...)}
}

// unclear is the reply when the broker failed: the answer may or may not count,
// and giving it again, with the same token, finds out.
func unclear(err error) messages.AnswerReply {
	return refusedAnswer(messages.CodeNotStored, "it is not known whether the answer is stored: %v; give it again", err)
}

// takeAnswer checks an answer against the question as it stands, and puts it
// once. What it checks is checked again when the answer is applied.
func (h *handling) takeAnswer(ctx context.Context, a messages.Answer) messages.AnswerReply {
	if err := h.read(ctx, seesAll); err != nil {
		return unclear(err)
	}
	// After the record: one that is past the question was moved by an answer,
	// which is then there to be told.
	subject := h.c.names.AnswerSubject(h.t.run, h.t.call, h.t.id.N)
	m, err := h.c.broker.Get(ctx, subject)
	switch {
	case err == nil:
		return h.answeredBefore(ctx, a, m)
	case !errors.Is(err, messages.ErrNotFound):
		return unclear(err)
	}
	if h.result != nil || h.record == nil || h.record.State != messages.Parked || h.record.N != h.t.id.N {
		return h.notParked(ctx)
	}
	if refused := h.object(ctx, &a); refused != nil {
		return *refused
	}
	msg, err := messages.EncodeStory(subject, a)
	if err != nil {
		return refusedAnswer(messages.CodeBadCall, "%v", err)
	}
	winner, err := h.c.broker.PutOnce(ctx, msg)
	switch {
	case err != nil:
		return unclear(err)
	case winner != nil:
		return h.answeredBefore(ctx, a, *winner)
	}
	return messages.AnswerReply{}
}

// object says why the answer cannot be carried out, nil when it can; a large
// edited input is moved into PAYLOADS.
func (h *handling) object(ctx context.Context, a *messages.Answer) *messages.AnswerReply {
	refuse := func(code messages.Code, format string, args ...any) *messages.AnswerReply {
		r := refusedAnswer(code, format, args...)
		return &r
	}
	f := dispatch.Facts{Limits: h.c.limits, Tool: h.tools(ctx)}
	if err := h.factsOfAnswer(ctx, &f); err != nil {
		r := unclear(err)
		return &r
	}
	if a.Input != nil && a.Input.Ref != nil && f.Input == nil {
		return refuse(messages.CodeBadCall, "the edited input, payload %s, is not stored; upload it first", a.Input.Ref.Digest)
	}
	if len(f.Input) > largeInput {
		h.c.large.Lock()
		defer h.c.large.Unlock()
	}
	if code, why := dispatch.Objection(*h.record, *a, f, time.Now().UTC()); why != "" {
		return refuse(code, "%s", why)
	}
	if a.Input == nil || a.Input.Ref != nil || a.Input.FitsInline() {
		return nil
	}
	ref, err := h.c.broker.PutPayload(ctx, a.Input.Inline)
	if errors.Is(err, messages.ErrTooLarge) {
		return refuse(messages.CodeTooLarge, "the edited input is %d bytes long, the limit is %d", len(a.Input.Inline), messages.MaxPayload)
	}
	if err != nil {
		r := unclear(err)
		return &r
	}
	a.Input = &messages.Body{Ref: &ref}
	return nil
}

// answeredBefore tells the second who was first, and keeps what the second
// said for the story. A request that is repeated meets its own answer.
func (h *handling) answeredBefore(ctx context.Context, a messages.Answer, first messages.Stored) messages.AnswerReply {
	there, err := messages.DecodeStory[messages.Answer](first.Body)
	switch {
	case err != nil:
		return refusedAnswer(messages.CodeAnswered, "already answered at %s, by a version that this one does not read", first.Time.UTC().Format(time.RFC3339))
	case a.Token != "" && there.Token == a.Token:
		return messages.AnswerReply{}
	}
	h.keepLate(ctx, a)
	reply := refusedAnswer(messages.CodeAnswered, "already answered: %s", toldAnswer(there))
	reply.First = &there
	return reply
}

func toldAnswer(a messages.Answer) string {
	at := a.At.UTC().Format(time.RFC3339)
	if a.Kind == messages.AnswerTimedOut {
		return "nobody was in time, and the question was closed at " + at
	}
	text := fmt.Sprintf("%s by %s at %s", a.Kind, a.By, at)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

// keepLate notes an answer that came too late. Nothing rests on it.
func (h *handling) keepLate(ctx context.Context, a messages.Answer) {
	if a.Token == "" {
		return // without one a request that is repeated would be noted each time
	}
	if a.Input != nil && !a.Input.FitsInline() {
		a.Input = nil
	}
	late := messages.Late{Why: "the question had been answered", Answer: &a, Worker: h.c.cfg.Name, At: a.At}
	m, err := messages.EncodeStory(h.c.names.LateSubject(h.t.run, h.t.call, h.t.id.N, messages.Token(a.Token)), late)
	if err == nil {
		_, err = h.c.broker.PutOnce(ctx, m)
	}
	if err != nil {
		h.log.Warn("an answer that came too late was not kept", "error", err)
	}
}

// notParked says what the call is instead of waiting for this answer.
func (h *handling) notParked(ctx context.Context) messages.AnswerReply {
	switch {
	case h.result != nil:
		return refusedAnswer(messages.CodeNotParked, "call %s has ended: %s", h.t.call, endOf(h.result.Status, h.result.Code, h.result.Reason))
	case h.record == nil:
		known, err := h.c.knows(ctx, h.t.run, h.t.call)
		if err != nil {
			return unclear(err)
		}
		if !known {
			return refusedAnswer(messages.CodeNotFound, "no call %s is known in run %s", h.t.call, runName(h.t.run))
		}
		return refusedAnswer(messages.CodeNotParked, "call %s asks nothing: it is queued, runs, or its failure is looked at", h.t.call)
	}
	r := *h.record
	switch r.State {
	case messages.Parked:
		return refusedAnswer(messages.CodeNotParked, "call %s asks about dispatch %d by now, and this is an answer to dispatch %d; read the question again", h.t.call, r.N, h.t.id.N)
	case messages.Waiting:
		return refusedAnswer(messages.CodeNotParked, "call %s asks nothing: it waits until %s for dispatch %d", h.t.call, r.DueAt.UTC().Format(time.RFC3339), r.N)
	case messages.Ended:
		o := *cmp.Or(r.Outcome, &messages.Outcome{})
		return refusedAnswer(messages.CodeNotParked, "call %s has ended: %s", h.t.call, endOf(o.Status, o.Code, o.Reason))
	}
	return refusedAnswer(messages.CodeNotParked, "call %s asks nothing: dispatch %d is queued or runs", h.t.call, r.N)
}

func endOf(status messages.Status, code messages.Code, reason string) string {
	text := string(status)
	if code != "" {
		text += " (" + string(code) + ")"
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// denialKey is where a human's no to this call stands; ok is false where a no
// concerns no other call: in a run that nobody named (S5.4).
func (h *handling) denialKey(tool string, input []byte) (key string, ok bool) {
	if !h.t.run.Named() {
		return "", false
	}
	return messages.DenialKey(h.t.run, recovery.Digest(tool, input)), true
}

// denied is why a human refused the same call in the same run before, empty
// when none did. It is read only for a decision that may park.
func (h *handling) denied(ctx context.Context, f dispatch.Facts) (string, error) {
	d := h.t.event.Decision
	if d == nil || !d.Park || d.Action.Type == messages.ActFail || d.Action.Type == messages.ActSkip {
		return "", nil
	}
	key, ok := h.denialKey(f.Failure.Call.Tool, f.Input)
	if !ok {
		return "", nil
	}
	e, err := h.c.broker.Load(ctx, messages.BucketControl, key)
	if errors.Is(err, messages.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for a denial: %w", err)
	}
	no, err := messages.DecodeDenial(e.Value)
	if err != nil { // a no all the same
		return "(by a version that this one does not read)", nil
	}
	text := fmt.Sprintf("%s, of call %s", no.By, no.Call)
	if no.Reason != "" {
		text += ": " + no.Reason
	}
	return text, nil
}

// keepDenial writes a human's no down before it ends the call, so that whoever
// takes the trigger up after a crash writes it again (S5.4).
func (h *handling) keepDenial(ctx context.Context, v dispatch.Verdict, f dispatch.Facts) error {
	a := h.t.event.Answer
	if v.Do != dispatch.Write || a == nil || a.Kind != messages.AnswerSkip && a.Kind != messages.AnswerFail {
		return nil
	}
	key, ok := h.denialKey(h.record.Call.Tool, f.Input)
	if !ok {
		return nil
	}
	b, err := messages.EncodeDenial(messages.Denial{Call: h.t.call, Reason: a.Reason, By: a.By, At: a.At})
	if err != nil {
		return err
	}
	return wrap("keep the denial", h.c.broker.Put(ctx, messages.BucketControl, key, b, h.c.cfg.CancelTTL))
}
