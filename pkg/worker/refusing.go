package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// refusal is why a call that is here is not run.
type refusal struct {
	code       messages.Code
	text       string        // for the caller's model
	said       string        // for people, where that is more
	retryAfter time.Duration // of a call that is to come back (S8.3); 0 for any other
}

// errHandOn ends a handling that gave its delivery back.
var errHandOn = errors.New("handed on")

const (
	// handOnMost is how often a worker hands on a call that it cannot read,
	// before it is refused, and how often a call of another's tool before the
	// pauses grow and somebody is told (ADR 0010).
	handOnMost = 3
	// handOnGrow is how often such a pause doubles.
	handOnGrow = 3
)

// handOns counts how often this worker handed a message on, by its sequence in
// CALLS. The broker's deliveries would count drains and restarts too (as P7.25
// for starts).
type handOns struct {
	mu    sync.Mutex
	times map[uint64]int
}

const handOnsKept = 10_000 // then all counts begin anew, which only hands on more often

// count counts the message once more, from 1.
func (h *handOns) count(seq uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.times == nil || len(h.times) > handOnsKept {
		h.times = make(map[uint64]int)
	}
	h.times[seq]++
	return h.times[seq]
}

// refused is the failure of a call that was not run.
func (h *handling) refused() messages.Failure {
	f := h.failure(h.refusal.code, h.refusal.text)
	f.Error = cmp.Or(h.refusal.said, f.Error)
	f.NothingDone, f.RetryAfter = h.refusal.code == messages.CodeBreakerOpen, messages.Millis(h.refusal.retryAfter)
	return f
}

// notMine deals with a call whose tool is not here. While others serve it, it
// is kept for a pause, then handed on, as often as it takes; never with a
// delayed NAK, which would hold up the queue. While its offers are only late it
// waits here. When nobody serves it the call is refused.
func (h *handling) notMine(d messages.Delivery) error {
	for waited := false; ; waited = true {
		where, err := h.whereServed()
		if err != nil {
			return err
		}
		switch {
		case where == liveTool && waited:
			return h.handOnAfter(0, "its tool is served again")
		case where == liveTool:
			return h.handOnAfter(h.metAgain(d), "its tool is not here")
		case where != lateTool:
			h.refusal = &refusal{code: messages.CodeToolNotFound, text: h.w.registry.notFound(h.call.Tool)}
			return nil
		}
		defer h.enterLobby()()
		if !pace.Sleep(h.w.draining, h.w.cfg.HandOnPause) {
			return context.Cause(h.w.draining)
		}
	}
}

// metAgain counts a call of another's tool and says how long to keep it.
func (h *handling) metAgain(d messages.Delivery) time.Duration {
	met := h.w.handOns.count(d.Sequence)
	if met == handOnMost+1 {
		h.log.Warn("a call came back that others serve: let all workers of a queue offer the same tools", "queue", h.call.Queue)
	}
	return h.w.handOnPause(met)
}

// handOnPause grows with every time that this worker met the call again, since
// workers that differ in their tools or versions may be many.
func (w *Worker) handOnPause(met int) time.Duration {
	return w.cfg.HandOnPause << min(max(met-handOnMost, 0), handOnGrow)
}

// whereServed asks the registry until it answers.
func (h *handling) whereServed() (presence, error) {
	for p := pauses(); ; {
		where, err := h.w.registry.find(h.w.draining, h.call.Tool)
		if !h.lease.held() {
			return goneTool, errLetGo
		}
		if err == nil {
			return where, nil
		}
		h.log.Warn("the registry could not be read", "error", err)
		if !p.Wait(h.w.draining) {
			return goneTool, context.Cause(h.w.draining)
		}
	}
}

// enterLobby frees the slot of a call that only waits, where there is room for
// more such calls. The room is given up with the function that it returns.
func (h *handling) enterLobby() (leave func()) {
	if !h.slot {
		return func() {}
	}
	select {
	case h.w.lobby <- struct{}{}:
		h.freeSlot()
		return func() { <-h.w.lobby }
	default:
		return func() {}
	}
}

// handOnAfter keeps the delivery for a pause, then gives it back.
func (h *handling) handOnAfter(pause time.Duration, why string) error {
	defer h.enterLobby()()
	pace.Sleep(h.w.draining, pause)
	h.w.handOn(h.lease, why)
	return errHandOn
}

// unreadable makes what can be known of a call whose message cannot be read.
// Others get it first, and one of another version for as long as somebody may
// come who reads it; then it is refused. What is no call at all is dropped.
func (h *handling) unreadable(d messages.Delivery, cause error) (messages.Call, error) {
	a, err := h.w.names.Parse(d.Subject)
	if err != nil || a.Kind != messages.KindCall {
		h.log.Error("a message in CALLS is no call and is dropped", "subject", d.Subject, "error", cause)
		return messages.Call{}, errNoCall
	}
	h.log.Error("a call cannot be read", "subject", d.Subject, "error", cause)
	if !h.lease.held() {
		return messages.Call{}, errLetGo
	}
	if met := h.w.handOns.count(d.Sequence); met <= handOnMost || h.mayBeRead(d, cause) {
		return messages.Call{}, h.handOnAfter(h.w.handOnPause(met), "its message cannot be read")
	}
	h.refusal = &refusal{code: messages.CodeBadCall, text: fmt.Sprintf("The message of this call cannot be read: %v", cause)}
	return messages.Call{
		ID: a.Call, Run: a.Run, Dispatch: a.N, Queue: a.Queue, Lane: a.Lane, Effect: messages.Unsafe, Tool: unreadableTool,
	}, nil
}

// versionLeases is for how many leases a call of another version is handed on:
// as long as a coordinator leaves its triggers of another version to others.
const versionLeases = 5

// mayBeRead says whether a worker of another version may still come for d.
func (h *handling) mayBeRead(d messages.Delivery, cause error) bool {
	var v *messages.VersionError
	return errors.As(cause, &v) && v.Version != "" && time.Since(d.Time) < versionLeases*h.w.cfg.Lease
}

// unreadableTool stands where the name of the tool cannot be known.
const unreadableTool = "(unreadable)"

// errNoCall ends a handling of something that is no call, with an ack.
var errNoCall = errors.New("no call")
