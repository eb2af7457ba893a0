package worker

import (
	"context"
	"log/slog"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// run executes the tool and writes its outcome.
func (h *handling) run() error {
	c := h.call
	ctx, stop := context.WithCancelCause(h.w.working)
	defer stop(nil)
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.Deadline, &tool.Stop{Code: messages.CodeDeadline, Reason: "was stopped: the deadline of its call passed"})
		defer cancel()
	}
	end, wish, ok := h.w.cancels.begin(c, stop)
	if !ok {
		return h.notBegun(wish)
	}
	defer end()
	if c.Effect != messages.Unsafe && !h.lease.held() {
		return errLetGo
	}
	h.began = true
	e := h.tool.Execute(ctx, h.toolCall(), h.limits())
	h.w.short.Store(e.Took <= shortCall)
	h.report(e)
	if e.Failure == nil {
		defer h.freeSlotEarly()()
		return h.succeed(e)
	}
	err := h.fail(h.executed(e))
	if err == nil && e.Abandoned != nil {
		h.ack()
		h.awaitAbandoned(e.Abandoned)
	}
	return err
}

// notBegun deals with a cancel that came after step 2. An unsafe tool's start
// is written already and stands for good, so its outcome is a failure that
// says that nothing ran.
func (h *handling) notBegun(wish messages.Cancel) error {
	if h.call.Effect != messages.Unsafe {
		return h.end(wish)
	}
	s := stopFor(wish)
	return h.fail(h.failure(s.Code, "Tool '"+h.call.Tool+"' was not run: it "+s.Reason))
}

func (h *handling) toolCall() tool.Call {
	c := h.call
	return tool.Call{
		ID: c.ID, Ref: c.Ref, Run: c.Run, Key: c.Key, Attempt: c.Attempt, Dispatch: c.Dispatch,
		Labels: c.Labels, Deadline: c.Deadline, Input: c.Input.Inline, Log: h.log,
	}
}

func (h *handling) limits() tool.Limits {
	l := tool.Limits{Timeout: h.call.Timeout.Duration(), Grace: h.w.cfg.Grace}
	if l.Timeout == 0 {
		l.Timeout = h.tool.Spec().Timeout.Duration()
	}
	if l.Timeout == 0 {
		l.Timeout = h.w.cfg.Timeout
	}
	return l
}

func (h *handling) report(e tool.Execution) {
	var code messages.Code
	if e.Failure != nil {
		code = e.Failure.Code
	}
	if h.w.cfg.Metrics.Ran != nil {
		h.w.cfg.Metrics.Ran(h.call.Tool, code, e.Took)
	}
	if ctx := h.w.working; h.log.Enabled(ctx, slog.LevelDebug) { // else its arguments cost as much as the rest
		h.log.DebugContext(ctx, "a tool has run", "code", code, "took", e.Took)
	}
}

// awaitAbandoned keeps the slot of a tool that ignores its end until it does
// return, or the worker stops. What it then says is late news, but a success
// may still end the call.
func (h *handling) awaitAbandoned(rest <-chan tool.Execution) {
	h.log.Error("a tool ignores the end of its context; its slot stays taken until it returns")
	h.w.counts.abandoned.Add(1)
	defer h.w.counts.abandoned.Add(-1)
	h.w.leases.drop(h.lease)
	select {
	case <-h.w.draining.Done():
	case e := <-rest:
		h.maybe = true
		err := h.afterAll(e)
		h.log.Warn("an abandoned tool returned", "after", time.Since(e.Started), "error", err)
	}
}

func (h *handling) afterAll(e tool.Execution) error {
	if e.Failure == nil {
		return h.succeed(e)
	}
	return h.fail(h.executed(e))
}
