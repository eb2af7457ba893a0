package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mulligan/internal/metrics"
	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

// notes writes down what the notes in the policies of the pool find.
type notes struct {
	log     *slog.Logger
	metrics *metrics.Coordinator

	mu     sync.Mutex
	warned time.Time // of a note that could not be decided
}

// undecidedSaid is how often a note that cannot be decided is warned of.
const undecidedSaid = 10 * time.Second

// veto asks the hooks whether a dispatch may go out; nil when it may. input is
// the content of the call's input, nil when that is not stored any more. An
// error means that it is not known.
func (c *Coordinator) veto(ctx context.Context, call messages.Call, input []byte) (*hook.Veto, error) {
	chain := c.policies.Hooks()
	if !chain.Vetoes() {
		return nil, nil
	}
	asked := hook.CallOf(call, input)
	if call.TaskRef != nil && chain.UsesTask() {
		task, err := c.broker.GetPayload(ctx, *call.TaskRef)
		switch {
		case err == nil:
			asked.Task, asked.TaskApart = string(task), false
		case !errors.Is(err, messages.ErrNotFound):
			return nil, fmt.Errorf("read the task: %w", err)
		}
	}
	v := chain.Before(ctx, asked)
	if v != nil {
		c.metrics.Vetoed(v.Hook)
		c.log.Info("a hook vetoed a call", "hook", v.Hook, "call", call.ID, "tool", call.Tool, "dispatch", call.Dispatch, "reason", v.Text())
	}
	return v, nil
}

// observe shows a failure that a coordinator stored to the notes: what workers
// store they see there.
func (c *Coordinator) observe(f messages.Failure) {
	chain := c.policies.Hooks()
	if !chain.Observes() {
		return
	}
	if err := chain.After(c.working, hook.Failed(hook.CallOf(f.Call, f.Input.Inline), f)); err != nil {
		c.log.Warn("an observer failed", "call", f.Call.ID, "error", err)
	}
}

// noted writes down what a note found.
func (n *notes) noted(r hook.Rule, a hook.Attempt, err error) {
	if err == nil {
		n.metrics.Noted(r.Name)
		n.log.Info("hook: "+r.Note, append(a.Attrs(), "hook", r.Name)...)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.warned) >= undecidedSaid {
		n.warned = time.Now()
		n.log.Warn("a note cannot say whether it is for an attempt", append(a.Attrs(), "hook", r.Name, "error", err)...)
	}
}
