package coordination

import (
	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
)

// sight is how much a round sees of step 1 (ADR 0021). The first decision on a
// call nearly always finds no record. It is taken to be so, and creating the
// record by compare-and-set shows whether it was: nothing is done, and nothing
// left undone, on what was not seen.
type sight int

const (
	seesAll     sight = iota // RESULTS and the record
	seesResult               // RESULTS alone
	seesNothing              // neither, to wait first; step 1 comes after the wait (P7.13)
)

func (h *handling) sees() sight {
	if h.t.id.Kind != messages.TriggerDecision || h.t.id.N > 0 || h.t.tries > 1 || h.met {
		return seesAll
	}
	a := h.t.event.Decision.Action
	short := a.Type == messages.ActRetry && a.Delay > 0 && a.Delay.Duration() < messages.MaxShortWait
	if short && !h.waited && !h.noRoom && !h.glimpsed {
		return seesNothing
	}
	return seesResult
}

// look begins the round anew, with more to see, where its verdict would rest on
// what was not seen.
func (h *handling) lookCloser(s sight, do dispatch.Do) bool {
	switch {
	case s == seesAll, do == dispatch.WaitFirst:
		return false
	case s == seesNothing:
		h.glimpsed = true
		return true
	case do == dispatch.Write, do == dispatch.Close:
		return false // which compare and set
	}
	h.met = true
	return true
}
