package coordination

import (
	"cmp"
	"context"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// gated says whether a dispatch to this tool has to ask at the gate before it
// goes out. It is asked for every dispatch and must cost nothing.
func (c *Coordinator) gated(tool string) bool {
	return c.breakers.shut(tool) || c.policies.Hooks().Vetoes()
}

// gate asks whether a dispatch may go out. The first that puts it off or
// refuses it has said all; the breaker comes last, since it may make the
// dispatch its probe. input is the content of the call's input. It may be
// asked again about the same dispatch, and then says the same as long as
// nothing has changed. An error means that it is not known: nothing goes out.
func (c *Coordinator) gate(ctx context.Context, call messages.Call, input []byte) (dispatch.Passage, error) {
	v, err := c.veto(ctx, call, input)
	switch {
	case err != nil:
		return dispatch.Passage{}, err
	case v != nil:
		return dispatch.Passage{Refusal: &dispatch.Refusal{Code: messages.CodeHookVeto, Text: v.Text(), Reason: v.Said()}}, nil
	}
	if !c.breakers.shut(call.Tool) {
		return dispatch.Passage{}, nil
	}
	return c.breakers.ask(ctx, call, c.probeLease(call))
}

// workerTimeout is how long an execution may take where neither call nor tool
// says so, unless the worker was told otherwise.
const workerTimeout = time.Minute

// probeLease is how long a probe may take: an execution, and the time until it
// is noticed that its worker died, twice.
func (c *Coordinator) probeLease(call messages.Call) time.Duration {
	timeout := call.Timeout.Duration()
	if t, _ := c.registry.known(call.Tool); timeout == 0 && t != nil {
		timeout = t.Spec.Timeout.Duration()
	}
	return cmp.Or(timeout, workerTimeout) + 2*c.cfg.Lease
}

// askGate asks for the dispatch that a step wants to send; the next round finds
// the answer among its facts.
func (h *handling) askGate(ctx context.Context, r messages.Record) error {
	input, err := h.content(ctx, r.Input)
	if err != nil {
		return err
	}
	p, err := h.c.gate(ctx, r.Call, input)
	if err != nil {
		return err
	}
	h.passage, h.passing = &p, r.Call.Tool
	return errAgain
}

// forAnother says that the answer of the gate was about another tool than the
// one that the dispatch goes to by now, and forgets it.
func (h *handling) forAnother(v dispatch.Verdict) bool {
	if h.passage == nil || v.Do != dispatch.Write || v.Record.Call.Tool == h.passing {
		return false
	}
	h.passage = nil
	return true
}
