package reflection

import (
	"context"
	"slices"
	"strings"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Bounds of what a reflector is shown, in bytes. What is stored stays whole
// (S5.2).
const (
	maxInput = messages.MaxInline
	maxText  = 64 << 10 // of an error, of a task
	maxCause = 200
	maxFetch = 1 << 20 // a larger payload is not fetched at all
)

// show makes a case of a failure; false when the service ended before.
func (r *Reflector) show(f messages.Failure, at messages.Address) (recovery.Case, bool) {
	tools := r.registry.live()
	c := recovery.Case{
		Tool: f.Call.Tool, Effect: f.Call.Effect, Code: f.Code, Error: excerpt.Of(f.Error, maxText),
		Executed: f.Executed, Ambiguous: f.Ambiguous, NothingDone: f.NothingDone, RetryAfter: f.RetryAfter.Duration(),
		FreeWaits: max(f.Call.Dispatch-f.Call.Attempt, 0), Tools: r.underPolicies(tools.live),
		Context: messages.ReflectionContext{Task: excerpt.Of(f.Call.Task, maxText), Attempt: f.Call.Attempt, MaxAttempts: messages.MaxRetries},
	}
	if f.Code != messages.CodeToolNotFound {
		c.Schema = tools.schema(f.Call.Tool)
	}
	var ok bool
	if c.Input, c.InputCut, ok = r.body(f.Input, maxInput); !ok {
		return c, false
	}
	if c.Error == "" {
		output, _, ok := r.body(f.Output, maxText)
		if !ok {
			return c, false
		}
		c.Error = strings.ToValidUTF8(string(output), "\uFFFD")
	}
	if f.Call.TaskRef != nil {
		task, _, ok := r.body(messages.Body{Ref: f.Call.TaskRef}, maxText)
		if !ok {
			return c, false
		}
		c.Context.Task = strings.ToValidUTF8(string(task), "\uFFFD")
	}
	c.Spent = func(ctx context.Context) (messages.Usage, error) { return r.spent(ctx, at.Run) }
	c.Context.Causes, ok = r.causes(at)
	return c, ok
}

// spent is what models took for the run so far. It does not give up before ctx
// does: a budget that nobody can read would end calls that had none to fear.
func (r *Reflector) spent(ctx context.Context, run messages.Run) (messages.Usage, error) {
	for p := pauses(); ; {
		got, err := r.ledger.spent(ctx, run)
		if err == nil || !p.Wait(ctx) {
			return got, err
		}
		r.cfg.Metrics.Trouble()
	}
}

// underPolicies gives tools the effects that they would be called with.
func (r *Reflector) underPolicies(tools []messages.ToolSpec) []messages.ToolSpec {
	if !r.deciders.book.SaysEffects() {
		return tools
	}
	out := slices.Clone(tools)
	for i := range out {
		out[i].Effect = r.deciders.book.Effect(out[i])
	}
	return out
}

// body reads a body as far as it is shown. One that is too large to fetch, or
// that has expired, is cut to nothing.
func (r *Reflector) body(b messages.Body, most int) (shown []byte, isCut, ok bool) {
	bytes := b.Inline
	if b.Ref != nil {
		if b.Ref.Size > maxFetch {
			return nil, true, true
		}
		gone := false
		ok := r.persist("read payload "+b.Ref.Digest, func(ctx context.Context) error {
			var err error
			bytes, err = r.cfg.Broker.GetPayload(ctx, *b.Ref)
			gone = err != nil && ignoreNotFound(err) == nil
			return ignoreNotFound(err)
		})
		if !ok || gone {
			return nil, true, ok
		}
	}
	if len(bytes) > most {
		return bytes[:most], true, true
	}
	return bytes, false, true
}

// causes are the root causes of the earlier attempts, oldest first (S1.8).
func (r *Reflector) causes(at messages.Address) ([]string, bool) {
	var out []string
	for n := range at.N {
		var m messages.Stored
		ok := r.persist("read an earlier decision", func(ctx context.Context) error {
			var err error
			m, err = r.cfg.Broker.Get(ctx, r.names.DecisionSubject(at.Run, at.Call, n))
			return ignoreNotFound(err)
		})
		if !ok {
			return nil, false
		}
		if m.Body == nil {
			continue
		}
		if d, err := messages.DecodeDecision(m.Body); err == nil && d.Analysis != nil {
			out = append(out, excerpt.Of(d.Analysis.RootCause, maxCause))
		}
	}
	return out, true
}
