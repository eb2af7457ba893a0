package coordination

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// check sorts one call of a chunk: refused, sound, or with arguments that
// cannot be used. The cheap checks come first.
func (s *submission) check(ctx context.Context, sub messages.Submission) {
	if code, text := s.inadmissible(sub); code != "" {
		s.refuse(sub, code, text, 0)
		return
	}
	if s.strange(ctx, sub) {
		return
	}
	a := s.find(ctx, sub.Tool)
	if a.at < lateTool {
		s.refuse(sub, messages.CodeUnknownTool, suggest.ToolNotAvailable(sub.Tool, s.served(ctx)), 0)
		return
	}
	sub, ok := s.ofRun(ctx, sub)
	if !ok {
		return
	}
	kept, err := s.c.store.admit(ctx, sub)
	if err != nil {
		s.refuse(sub, messages.CodeQueueFull, err.Error(), fullRetry)
		return
	}
	s.kept[sub.Call] += kept
	if err := s.c.queues.admit(ctx, a.tool.Spec.Queue, s.c.settings.get(a.tool.Spec.Queue).MaxQueued); err != nil {
		s.refuse(sub, messages.CodeQueueFull, err.Error(), fullRetry)
		return
	}
	in := incoming{call: s.call(sub, a.tool), notBefore: s.notBefore(sub)}
	if code, text, after := s.storeParts(ctx, sub, &in); code != "" {
		s.refuse(sub, code, text, after)
		return
	}
	s.sort(ctx, sub, in, a.tool)
}

// served are the names of the tools that there are, for the text of a refusal.
// They are read, once a chunk: a tool that was offered a moment ago is often the
// one that was meant, and the watch may have yet to bring it.
func (s *submission) served(ctx context.Context) []string {
	if s.names == nil {
		s.names = s.c.registry.servedNow(ctx)
	}
	return s.names
}

// inadmissible judges by the call alone. What may be a repetition is not refused
// because it is too late by now: its first copy may still be on its way into
// CALLS, and would run, or end, after its submitter was told that it was never
// accepted. Whoever fetches it ends it (P7.11).
func (s *submission) inadmissible(sub messages.Submission) (messages.Code, string) {
	if err := sub.Check(); err != nil {
		return messages.CodeBadCall, err.Error()
	}
	cfg, age, first := s.c.cfg, s.now.Sub(messages.CallTime(sub.Call)), !s.chunk.MayRepeat(s.now)
	switch {
	case age > cfg.ResultsRetention/2:
		return messages.CodeTooOld, fmt.Sprintf("the id of this call is %s old; after %s its result may be forgotten, and it could run a second time: "+
			"look for its result, or submit it as a new call with a new id", age.Round(time.Second), cfg.ResultsRetention/2)
	case first && !sub.Deadline.IsZero() && !sub.Deadline.After(s.now):
		return messages.CodeDeadlinePassed, fmt.Sprintf("the deadline %s has passed", sub.Deadline.UTC().Format(time.RFC3339))
	case sub.Deadline.Sub(s.now) > cfg.DeadlineLimit:
		return messages.CodeBadCall, fmt.Sprintf("the deadline %s is too far ahead; it may lie %s ahead, or leave it out",
			sub.Deadline.UTC().Format(time.RFC3339), cfg.DeadlineLimit)
	case s.notBefore(sub).Sub(s.now) > cfg.MaxWait:
		return messages.CodeBadCall, fmt.Sprintf("the call is to wait until %s, which is too far ahead; it may wait for %s",
			s.notBefore(sub).UTC().Format(time.RFC3339), cfg.MaxWait)
	case first && !sub.Deadline.IsZero() && !s.notBefore(sub).Before(sub.Deadline):
		return messages.CodeBadCall, fmt.Sprintf("the call is to wait until %s, and its deadline %s is not after that: it could only expire",
			s.notBefore(sub).UTC().Format(time.RFC3339), sub.Deadline.UTC().Format(time.RFC3339))
	case len(sub.Input) > messages.MaxPayload:
		return messages.CodeTooLarge, fmt.Sprintf("input is %d bytes long, the limit is %d; "+
			"put the data where the tool can fetch it and give its address", len(sub.Input), messages.MaxPayload)
	case len(sub.Task) > messages.MaxInline:
		return messages.CodeTooLarge, fmt.Sprintf("task is %d bytes long, the limit is %d; shorten it", len(sub.Task), messages.MaxInline)
	}
	if _, err := recovery.CallValues(sub.Policy); err != nil {
		return messages.CodeBadCall, err.Error()
	}
	if k := s.c.runs.of(s.run(sub)); k != nil && first {
		return k.refuses(s.run(sub))
	}
	return "", ""
}

// strange refuses what is sent as a repetition into a run that was closed long
// ago, and is none: no copy of it can be on its way any more, and nothing of it is
// there, as of a call that was refused before and is sent again by a later session.
// The run would have more calls than it was closed with.
func (s *submission) strange(ctx context.Context, sub messages.Submission) bool {
	run := s.run(sub)
	k := s.c.runs.of(run)
	if k == nil || !k.closed || !s.chunk.MayRepeat(s.now) || s.now.Sub(k.since) <= messages.RepeatAfter {
		return false
	}
	known, err := s.c.knows(ctx, run, sub.Call)
	switch {
	case err != nil:
		s.refuse(sub, messages.CodeNotStored, err.Error()+"; send it again", fullRetry)
		return true
	case known:
		return false
	}
	code, text := k.refuses(run)
	s.refuse(sub, code, text, 0)
	return true
}

// refuses says why a run takes no call any more.
func (k *knownRun) refuses(run messages.Run) (messages.Code, string) {
	switch {
	case k.ended != nil:
		return messages.CodeRunIsOver, fmt.Sprintf("run %s is over: %s", runName(run), k.ended.Reason)
	case k.closed:
		return messages.CodeRunClosed, fmt.Sprintf("run %s was closed: no call comes into it any more; submit to another run", runName(run))
	}
	return "", ""
}

// ofRun gives the call what its run says of all its calls, and holds it to the
// limits of the run; false where it was refused for one.
func (s *submission) ofRun(ctx context.Context, sub messages.Submission) (messages.Submission, bool) {
	run := s.run(sub)
	k := s.c.runs.of(run)
	if k == nil {
		return sub, true
	}
	own := len(sub.Policy) > 0
	sub.Policy = recovery.Under(k.policy, sub.Policy)
	if own && len(k.policy) > 0 {
		if text := unfit(sub.Policy); text != "" {
			s.refuse(sub, messages.CodeBadCall, "with the policy of run "+runName(run)+": "+text, 0)
			return sub, false
		}
	}
	held, code, text, after := s.c.runs.admit(ctx, run, k)
	if code != "" {
		s.refuse(sub, code, text, after)
		return sub, false
	}
	if held {
		if s.held == nil {
			s.held = make(map[messages.Run]int64)
		}
		s.held[run]++
	}
	return sub, true
}

// unfit says why two policies that can be used cannot together.
func unfit(policy []byte) string {
	if len(policy) > messages.MaxPolicy {
		return fmt.Sprintf("policy is %d bytes long, the limit is %d", len(policy), messages.MaxPolicy)
	}
	if _, err := recovery.CallValues(policy); err != nil {
		return err.Error()
	}
	return ""
}

// notBefore is when the call may start, zero at once.
func (s *submission) notBefore(sub messages.Submission) time.Time {
	if sub.After > 0 {
		return s.now.Add(sub.After.Duration()).UTC()
	}
	return sub.NotBefore
}

func (s *submission) run(sub messages.Submission) messages.Run {
	if sub.Run != "" {
		return messages.NamedRun(sub.Run)
	}
	return s.unnamed
}

func (s *submission) find(ctx context.Context, tool string) admission {
	a, ok := s.tools[tool]
	if !ok {
		a.tool, a.at = s.c.registry.find(ctx, tool)
		s.tools[tool] = a
	}
	return a
}

// call is dispatch 0. Effect and queue are those of the tool now, and stay,
// whatever becomes of tool and policies: all deliveries follow one rule.
func (s *submission) call(sub messages.Submission, t *registered) messages.Call {
	lane := sub.Lane
	if lane == "" {
		lane = messages.LaneNormal
	}
	age := s.now.Sub(messages.CallTime(sub.Call)).Abs()
	return messages.Call{
		ID: sub.Call, Ref: sub.Ref, Run: s.run(sub), Tool: sub.Tool, Queue: t.Spec.Queue, Lane: lane, Effect: s.c.policies.Effect(t.Spec),
		Key: cmp.Or(sub.Key, sub.Call), Timeout: sub.Timeout, Deadline: sub.Deadline, Task: sub.Task, Labels: sub.Labels, Policy: sub.Policy, Trace: sub.Trace,
		Repeat: s.chunk.MayRepeat(s.now) || age > messages.RepeatAfter,
		Input:  messages.Body{Inline: sub.Input, Ref: sub.Payload},
	}
}

// surelyInline is a size that no encoding brings above [messages.MaxInline].
const surelyInline = messages.MaxInline / 8

// storeParts moves what does not fit a message into PAYLOADS, and writes the
// message.
func (s *submission) storeParts(ctx context.Context, sub messages.Submission, in *incoming) (messages.Code, string, time.Duration) {
	put := func(b []byte) (*messages.PayloadRef, error) {
		ref, err := s.c.broker.PutPayload(ctx, b)
		return &ref, err
	}
	var err error
	call := &in.call
	if call.Input.Ref == nil && len(sub.Input) > surelyInline && call.Input.EncodedSize() > messages.MaxInline {
		call.Input.Ref, err = put(sub.Input)
		call.Input.Inline = nil
	}
	if err == nil && !messages.TaskInHeader(sub.Task) {
		call.TaskRef, err = put([]byte(sub.Task))
		call.Task = ""
	}
	if err != nil {
		return messages.CodeNotStored, "a part of the call could not be stored: " + err.Error() + "; send it again", fullRetry
	}
	in.message = s.c.names.EncodeCall(*call)
	if err := messages.CheckHeaders(in.message); err != nil {
		return messages.CodeTooLarge, err.Error(), 0
	}
	return "", "", 0
}

// sort looks at the arguments.
func (s *submission) sort(ctx context.Context, sub messages.Submission, in incoming, t *registered) {
	input, code, text := s.content(ctx, sub)
	if code != "" {
		after := time.Duration(0)
		if code == messages.CodeNotStored {
			after = fullRetry
		}
		s.refuse(sub, code, text, after)
		return
	}
	if s.c.mayBeElsewhere(in.call, t) {
		there, err := s.c.knows(ctx, in.call.Run, in.call.ID)
		switch {
		case err != nil:
			s.drop(in, err)
			return
		case there:
			s.keep(in) // an earlier copy was accepted, under what was registered then
			return
		}
	}
	if !anyObject(sub, t) {
		in.fault = s.c.argumentsFault(t, input, sub.IsJSON && sub.Payload == nil)
	}
	if in.passage.Refusal = s.looped(ctx, in, input); in.passage.Refusal != nil {
		s.turned = append(s.turned, in)
		return
	}
	if in.fault != "" {
		s.unusable = append(s.unusable, in)
		return
	}
	if !in.notBefore.IsZero() || s.c.gated(in.call.Tool) {
		asks := in
		asks.content = input
		s.gated = append(s.gated, &asks)
		return
	}
	s.sound = append(s.sound, in)
}

// anyObject spares what was read as a JSON object a second scan, where the tool
// takes any.
func anyObject(sub messages.Submission, t *registered) bool {
	return sub.IsJSON && t.schema.Trivial() && bytes.HasPrefix(sub.Input, []byte("{")) && utf8.Valid(sub.Input)
}

// maxRead bounds the uploaded inputs that one chunk may have read, in bytes, so
// that it is answered while its submitter still waits.
const maxRead = 4 * messages.MaxPayload

// content is what the schema is held against.
func (s *submission) content(ctx context.Context, sub messages.Submission) ([]byte, messages.Code, string) {
	if sub.Payload == nil {
		return sub.Input, "", ""
	}
	if s.read += sub.Payload.Size; s.read > maxRead && s.read > sub.Payload.Size {
		return nil, messages.CodeNotStored, fmt.Sprintf("the uploaded inputs of this chunk exceed %d bytes; send the rest in chunks of their own", maxRead)
	}
	input, err := s.c.broker.GetPayload(ctx, *sub.Payload)
	switch {
	case errors.Is(err, messages.ErrNotFound):
		return nil, messages.CodeBadCall, "input_payload " + sub.Payload.Digest + " is not stored; upload it first"
	case err != nil:
		return nil, messages.CodeNotStored, "the input could not be read: " + err.Error() + "; send the call again"
	}
	return input, "", ""
}

// mayBeElsewhere says that a repetition would not meet its first copy: the
// tool was registered anew since the id was made, perhaps in another queue or
// with another schema, so that the copy could run beside the original.
func (c *Coordinator) mayBeElsewhere(call messages.Call, t *registered) bool {
	return call.Repeat && t.Registered.After(messages.CallTime(call.ID))
}
