package coordination

import (
	"context"
	"errors"
	"fmt"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// facts gathers what the step has to know beside record and result.
func (h *handling) facts(ctx context.Context) (dispatch.Facts, error) {
	f := dispatch.Facts{
		Result: h.result, At: h.t.at, Limits: h.c.limits, Waited: h.waited, NoRoom: h.noRoom, Gone: h.looks > 2,
		Tool: h.tools(ctx), Gated: h.c.gated, Passage: h.passage,
	}
	if h.result != nil {
		return f, nil // nothing else counts any more
	}
	if n := h.currentN(); h.claim.n == n {
		f.Claim = h.claim.outcome
	}
	var err error
	switch h.t.id.Kind {
	case messages.TriggerDecision:
		err = h.factsOfDecision(ctx, &f)
	case messages.TriggerAnswer:
		err = h.factsOfAnswer(ctx, &f)
	case messages.TriggerCancel, messages.TriggerDeadline:
		err = h.factsOfCancel(ctx, &f)
	}
	return f, err
}

// tools tells what a step may know of a tool. What the policy of the tool that
// a call is at excludes is as little for it to be moved to as what excludes
// itself, whoever proposes it (S3.3).
func (h *handling) tools(ctx context.Context) func(name string) (dispatch.Tool, bool) {
	return func(name string) (dispatch.Tool, bool) {
		t, ok := h.c.tool(ctx, name)
		at := h.current()
		if ok && t.Unusable == "" && at != nil && at.Tool != name && !h.c.policies.For(at.Queue, at.Tool, nil).Covers(name) {
			t.Unusable = fmt.Sprintf("it is excluded by the policy of tool '%s'", at.Tool)
		}
		return t, ok
	}
}

// current is the call as it stands: without a record, as it failed.
func (h *handling) current() *messages.Call {
	if h.record != nil {
		return &h.record.Call
	}
	if fl := h.failures[h.t.id.N]; fl != nil {
		return &fl.Call
	}
	return nil
}

func (h *handling) currentN() int {
	if h.record == nil {
		return 0
	}
	return h.record.N
}

func (h *handling) factsOfDecision(ctx context.Context, f *dispatch.Facts) (err error) {
	if f.Failure, err = h.failure(ctx, h.t.id.N); err != nil || f.Failure == nil {
		return err
	}
	f.FailedAt = h.failedAt
	if f.Input, err = h.content(ctx, f.Failure.Input); err != nil {
		return err
	}
	if f.Denied, err = h.denied(ctx, *f); err != nil {
		return err
	}
	if h.t.event.Decision.Action.Type == messages.ActRetry {
		f.Spent, err = h.c.runs.retriesSpent(ctx, h.t.run)
	}
	return err
}

func (h *handling) factsOfAnswer(ctx context.Context, f *dispatch.Facts) (err error) {
	input := h.t.event.Answer.Input
	if input == nil && h.record != nil {
		input = &h.record.Input
	}
	if input != nil {
		f.Input, err = h.content(ctx, *input)
	}
	return err
}

// factsOfCancel finds a call that may have no record: a first dispatch stands
// in CALLS until its outcome is written, and its failure in RECOVERY.
func (h *handling) factsOfCancel(ctx context.Context, f *dispatch.Facts) (err error) {
	if h.record != nil && h.record.State != messages.Dispatched {
		return nil
	}
	if h.record == nil {
		if f.Origin, err = h.queued(ctx); err != nil {
			return err
		}
	}
	if f.Failure, err = h.failure(ctx, h.currentN()); err != nil || f.Failure == nil {
		return err
	}
	f.Input, err = h.content(ctx, f.Failure.Input)
	return err
}

// queued is the dispatch that stands in CALLS, nil for none.
func (h *handling) queued(ctx context.Context) (*messages.Call, error) {
	m, err := h.c.broker.Get(ctx, h.c.names.CallFilter(h.t.run, h.t.call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the call in its queue: %w", err)
	}
	call, err := h.c.names.DecodeCall(m.Message)
	if err != nil {
		return nil, fmt.Errorf("the call in its queue %w: %w", errUnreadable, err)
	}
	return &call, nil
}

// failure is failure.n, nil for none. It never changes, so it is read once.
func (h *handling) failure(ctx context.Context, n int) (*messages.Failure, error) {
	if fl, ok := h.failures[n]; ok {
		return fl, nil
	}
	m, err := h.c.broker.Find(ctx, h.c.names.FailureSubject(h.t.run, h.t.call, n))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read failure %d: %w", n, err)
	}
	fl, err := messages.DecodeFailure(m.Body)
	if err != nil {
		if h.t.tries <= patient {
			return nil, fmt.Errorf("failure %d %w: %w", n, errUnreadable, err)
		}
		fl = h.unreadableFailure(n, err)
	}
	h.failures[n], h.failedAt = &fl, m.Time
	h.size += len(m.Body)
	return &fl, nil
}

// unreadableFailure stands for one that no coordinator could read in all its
// deliveries. The worst is assumed, so that the call ends and hides nothing.
func (h *handling) unreadableFailure(n int, err error) messages.Failure {
	call := messages.Call{ID: h.t.call, Run: h.t.run, Tool: "(unreadable)", Queue: "(unreadable)", Lane: messages.LaneNormal,
		Effect: messages.Unsafe, Key: h.t.call, Dispatch: n}
	if h.record != nil {
		call = h.record.Call
	}
	return messages.Failure{Call: call, Output: messages.Text("The failure of this call cannot be read: " + err.Error()),
		Code: messages.CodeToolError, Ambiguous: true, Executed: true}
}

// content is what a body stands for; nil when its payload has expired.
func (h *handling) content(ctx context.Context, b messages.Body) ([]byte, error) {
	if b.Ref == nil {
		return b.Inline, nil
	}
	if got, ok := h.contents[b.Ref.Digest]; ok {
		return got, nil
	}
	got, err := h.c.broker.GetPayload(ctx, *b.Ref)
	if err != nil && !errors.Is(err, messages.ErrNotFound) {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	h.contents[b.Ref.Digest] = got
	h.size += len(got)
	return got, nil
}
