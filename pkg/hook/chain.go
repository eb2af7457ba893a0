package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mulligan/internal/excerpt"
)

// Chain asks hooks in the order of their priorities. Nil is a chain of none.
// It may be used concurrently.
type Chain struct {
	hooks              []Hook
	vetoes, observes   bool
	usesTask, usesBody bool
}

// MaxHooks is how many hooks a chain may have.
const MaxHooks = 100

// maxReason bounds the reason of a veto, in bytes.
const maxReason = 2000

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$`)

// NewChain orders hooks and checks their names. An error names the hook.
func NewChain(hooks ...Hook) (*Chain, error) {
	if len(hooks) > MaxHooks {
		return nil, fmt.Errorf("%d hooks; at most %d are asked", len(hooks), MaxHooks)
	}
	c := &Chain{hooks: slices.Clone(hooks)}
	seen := make(map[string]bool, len(hooks))
	for i, h := range hooks {
		switch {
		case !nameForm.MatchString(h.Name):
			return nil, fmt.Errorf("hook %d: name %q must be letters, digits, and . _ - after the first, at most 60", i+1, cut(h.Name, 80))
		case seen[h.Name]:
			return nil, fmt.Errorf("hook %d: name %q is that of another hook; choose one of its own", i+1, h.Name)
		case h.Before == nil && h.After == nil:
			return nil, fmt.Errorf("hook %q does nothing: give it Before or After", h.Name)
		}
		seen[h.Name] = true
		c.vetoes, c.observes = c.vetoes || h.Before != nil, c.observes || h.After != nil
		c.usesTask = c.usesTask || h.when == nil || h.when.Uses(taskName)
		c.usesBody = c.usesBody || h.when == nil || h.when.Uses(inputName)
	}
	slices.SortStableFunc(c.hooks, func(a, b Hook) int { return cmp.Compare(a.Priority, b.Priority) })
	return c, nil
}

// Vetoes says whether any hook is asked before a call.
func (c *Chain) Vetoes() bool { return c != nil && c.vetoes }

// Observes says whether any hook is told after an attempt.
func (c *Chain) Observes() bool { return c != nil && c.observes }

// UsesTask says whether a hook may look at the task of a call.
func (c *Chain) UsesTask() bool { return c != nil && c.usesTask }

// UsesInput says whether a hook may look at the input of a call.
func (c *Chain) UsesInput() bool { return c != nil && c.usesBody }

// Names are those of the hooks, in the order of asking.
func (c *Chain) Names() []string {
	if c == nil {
		return nil
	}
	names := make([]string, len(c.hooks))
	for i, h := range c.hooks {
		names[i] = h.Name
	}
	return names
}

// Veto is why a call must not run, and who says so.
type Veto struct {
	Hook   string
	Reason string // the hook's own; empty if it could not be asked
	Err    error  // why it could not be asked
}

// Text is for the caller's model: the hook's own reason (S6.T7).
func (v Veto) Text() string {
	if v.Reason != "" {
		return v.Reason
	}
	return cut(fmt.Sprintf("The call was not run, since hook %q could not say whether it may: %v", v.Hook, v.Err), maxReason)
}

// Said is for people: it names the hook.
func (v Veto) Said() string {
	if v.Reason != "" {
		return fmt.Sprintf("vetoed by hook %q: %s", v.Hook, v.Reason)
	}
	return v.Text()
}

// Before asks the hooks until one vetoes; nil when the call may run. It never
// panics.
func (c *Chain) Before(ctx context.Context, call Call) *Veto {
	if !c.Vetoes() {
		return nil
	}
	call.read = newReading()
	for i := range c.hooks {
		h := &c.hooks[i]
		if h.Before == nil {
			continue
		}
		reason, err := h.ask(ctx, call)
		if reason = cut(reason, maxReason); reason != "" {
			return &Veto{Hook: h.Name, Reason: reason}
		}
		if err != nil {
			return &Veto{Hook: h.Name, Err: err}
		}
	}
	return nil
}

func (h *Hook) ask(ctx context.Context, c Call) (veto string, err error) {
	defer func() {
		if p := recover(); p != nil {
			veto, err = "", fmt.Errorf("panic: %v", p)
		}
	}()
	if h.when == nil {
		c = c.clone()
	}
	return h.Before(ctx, c)
}

// After tells the hooks. The error names those that panicked; the others were
// told all the same.
func (c *Chain) After(ctx context.Context, a Attempt) error {
	if !c.Observes() {
		return nil
	}
	a.read = newReading()
	var errs []error
	for i := range c.hooks {
		if c.hooks[i].After != nil {
			errs = append(errs, c.hooks[i].tell(ctx, a))
		}
	}
	return errors.Join(errs...)
}

func (h *Hook) tell(ctx context.Context, a Attempt) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("hook %q: panic: %v", h.Name, p)
		}
	}()
	if h.when == nil {
		a.Call = a.clone()
	}
	h.After(ctx, a)
	return nil
}

// cut shortens a text at a rune and drops what is not UTF-8.
func cut(s string, limit int) string {
	return strings.ToValidUTF8(excerpt.Head(s, limit), "\uFFFD")
}
