package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

// hooks are those that the worker was given, and the notes that the pool's
// policies hold. The former are asked on the way of a call; both are told of
// its attempts on a goroutine of their own.
type hooks struct {
	own     *hook.Chain
	notes   atomic.Pointer[hook.Chain]
	log     *slog.Logger
	metrics Metrics

	attempts chan hook.Attempt
	held     atomic.Int64 // bytes of inputs in attempts
	told     chan struct{}
	warned   time.Time // of a note that could not be decided; the goroutine's own
}

const (
	// observedMost is how many attempts wait for observers, and observedBytes how
	// large their inputs may be together. What comes beyond is dropped.
	observedMost  = 1024
	observedBytes = 64 << 20
	// undecidedSaid is how often a note that cannot be decided is warned of.
	undecidedSaid = 10 * time.Second
)

func newHooks(cfg Config, log *slog.Logger) (*hooks, error) {
	bounded := make([]hook.Hook, len(cfg.Hooks))
	for i, h := range cfg.Hooks {
		bounded[i] = bound(h, cfg.HookTimeout, log)
	}
	own, err := hook.NewChain(bounded...)
	if err != nil {
		return nil, fmt.Errorf("worker: hooks: %w", err)
	}
	return &hooks{own: own, log: log, metrics: cfg.Metrics, attempts: make(chan hook.Attempt, observedMost), told: make(chan struct{})}, nil
}

// apply takes the policies of the pool, as the watch of CONTROL brings them.
// What cannot be read changes nothing.
func (h *hooks) apply(e messages.Entry) {
	if e.Key != messages.PolicyKey {
		return
	}
	var entry messages.PolicyEntry
	if !e.Deleted {
		if err := json.Unmarshal(e.Value, &entry); err != nil {
			h.log.Warn("the policies of the pool cannot be read; the notes that held before still hold", "error", err)
			return
		}
	}
	notes, err := hook.FromDocument(entry.Document, h.noted)
	if err != nil {
		h.log.Warn("the hooks of the pool cannot be used; the notes that held before still hold", "error", err)
		return
	}
	h.notes.Store(notes)
}

// noted writes down what a note found.
func (h *hooks) noted(r hook.Rule, a hook.Attempt, err error) {
	if err != nil {
		if time.Since(h.warned) >= undecidedSaid {
			h.warned = time.Now()
			h.log.Warn("a note cannot say whether it is for an attempt", append(a.Attrs(), "hook", r.Name, "error", err)...)
		}
		return
	}
	if h.metrics.Noted != nil {
		h.metrics.Noted(r.Name)
	}
	h.log.Info("hook: "+r.Note, append(a.Attrs(), "hook", r.Name)...)
}

func (h *hooks) observes() bool { return h.own.Observes() || h.notes.Load().Observes() }

// observe queues an attempt for the observers. It never waits for them.
func (h *hooks) observe(a hook.Attempt) {
	size := int64(len(a.Input))
	if h.held.Add(size) <= observedBytes {
		select {
		case h.attempts <- a:
			return
		default:
		}
	}
	h.held.Add(-size)
	if h.metrics.Unobserved != nil {
		h.metrics.Unobserved()
	}
	h.log.Warn("observers do not follow; an attempt is not shown to them", a.Attrs()...)
}

// tell shows attempts to the observers until no more come, or ctx is done.
func (h *hooks) tell(ctx context.Context) {
	defer close(h.told)
	for a := range h.attempts {
		h.held.Add(-int64(len(a.Input)))
		if ctx.Err() != nil {
			continue
		}
		if err := errors.Join(h.own.After(ctx, a), h.notes.Load().After(ctx, a)); err != nil {
			h.log.Warn("an observer failed", append(a.Attrs(), "error", err)...)
		}
	}
}

// finish lets the observers see what is left, for a while. Nothing may be
// observed any more.
func (h *hooks) finish(patience time.Duration) {
	close(h.attempts)
	if !within(h.told, patience) {
		h.log.Warn("observers were not done in time; the last attempts are not shown to them")
	}
}

// askHooks lets the hooks veto the call. Nothing of it has begun.
func (h *handling) askHooks() error {
	if h.refusal != nil || !h.w.hooks.own.Vetoes() || h.stop() != nil {
		return nil
	}
	v := h.w.hooks.own.Before(h.w.working, hook.CallOf(h.call, h.call.Input.Inline))
	if h.w.working.Err() != nil { // it may have had no time to answer
		return context.Cause(h.w.working)
	}
	if v == nil {
		return nil
	}
	h.refusal = &refusal{code: messages.CodeHookVeto, text: v.Text(), said: v.Said()}
	h.log.Info("a hook vetoed a call", "hook", v.Hook, "reason", v.Text())
	if h.w.cfg.Metrics.Vetoed != nil {
		h.w.cfg.Metrics.Vetoed(v.Hook)
	}
	return nil
}

// observeFailure shows a failure that is stored to the observers.
func (h *handling) observeFailure(f messages.Failure, late bool) {
	if h.w.hooks.observes() {
		a := hook.Failed(h.hookCall(), f)
		a.Late = late
		h.w.hooks.observe(a)
	}
}

// observeSuccess shows a success that is stored to the observers.
func (h *handling) observeSuccess(r messages.Result, late bool) {
	if h.w.hooks.observes() {
		a := hook.Succeeded(h.hookCall(), r)
		a.Late = late
		h.w.hooks.observe(a)
	}
}

func (h *handling) hookCall() hook.Call { return hook.CallOf(h.call, h.call.Input.Inline) }
