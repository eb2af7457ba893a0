package worker

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// breakers knows the circuit breakers of the pool, from CONTROL. Coordinators
// change them; a worker keeps what stands in its queues from running while one
// is open, and tells of successes that a breaker waits for (S8).
type breakers struct {
	mu   sync.RWMutex
	seen map[string]*breaker // by tool
}

type breaker struct {
	messages.Breaker
	told bool // a success since its last change
}

func newBreakers() *breakers { return &breakers{seen: make(map[string]*breaker)} }

// apply takes one entry of CONTROL, as the watch brings it. One that cannot be
// read is of another version and shuts nothing.
func (b *breakers) apply(e messages.Entry) {
	token, ok := strings.CutPrefix(e.Key, messages.BreakerPrefix)
	if !ok {
		return
	}
	tool, err := messages.Name(token)
	if err != nil {
		return
	}
	of, err := messages.DecodeBreaker(e.Value)
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Deleted || err != nil {
		delete(b.seen, tool)
		return
	}
	b.seen[tool] = &breaker{Breaker: of}
}

// of is what is known of a tool's breaker; the zero one is closed.
func (b *breakers) of(tool string) messages.Breaker {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if of := b.seen[tool]; of != nil {
		return of.Breaker
	}
	return messages.Breaker{State: messages.BreakerClosed}
}

// awaits says whether a success of a tool is to be told, which one is enough for.
func (b *breakers) awaits(tool string, began time.Time) bool {
	b.mu.RLock()
	of := b.seen[tool]
	counts := of != nil && of.CountsSuccess(began)
	b.mu.RUnlock()
	if !counts {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !of.told
	of.told = true
	return first
}

// askBreaker refuses a call whose tool is shut. The probe of a half-open breaker
// runs only while the leader says that it is the probe, since its lease may be
// over and another one out by now (S8.4).
func (h *handling) askBreaker() error {
	if h.refusal != nil {
		return nil
	}
	of := h.w.breakers.of(h.call.Tool)
	if h.call.Probe {
		var err error
		if of, err = h.breakerNow(); err != nil {
			return err
		}
	}
	if of.State == messages.BreakerClosed {
		return nil
	}
	now := time.Now()
	if of = of.At(now); !h.call.Probe || !of.Probes(messages.ProbeOf(h.call)) {
		h.refusal = h.shut(of, now)
	}
	return nil
}

// breakerNow asks the leader until it answers.
func (h *handling) breakerNow() (messages.Breaker, error) {
	for p := pauses(); ; {
		e, err := h.w.broker.Load(h.w.draining, messages.BucketControl, messages.BreakerKey(h.call.Tool))
		if errors.Is(err, messages.ErrNotFound) {
			return messages.Breaker{State: messages.BreakerClosed}, nil
		}
		if err == nil {
			var of messages.Breaker
			if of, err = messages.DecodeBreaker(e.Value); err == nil {
				return of, nil
			}
		}
		if !h.lease.held() {
			return messages.Breaker{}, errLetGo
		}
		h.log.Warn("a breaker could not be read", "error", err)
		if !p.Wait(h.w.draining) {
			return messages.Breaker{}, context.Cause(h.w.draining)
		}
	}
}

// minRest keeps a deferred call from coming back while the next probe is still
// being chosen.
const minRest = time.Second

// shut is the refusal of a call whose tool is shut; a deferred one says when to
// come back, a little apart from the others.
func (h *handling) shut(of messages.Breaker, now time.Time) *refusal {
	r := &refusal{code: messages.CodeBreakerOpen, text: messages.BreakerText}
	if breakerMode(of, h.call) == messages.BreakerDefer {
		r.retryAfter = max(of.Rest(now), minRest) + rand.N(of.Pause())
	}
	return r
}

// breakerMode is what the call chose, or the mode of its tool.
func breakerMode(of messages.Breaker, call messages.Call) messages.BreakerMode {
	var own struct {
		Breaker messages.BreakerMode `json:"breaker"`
	}
	if len(call.Policy) > 0 && json.Unmarshal(call.Policy, &own) == nil && own.Breaker != "" && own.Breaker != messages.BreakerOff {
		return own.Breaker
	}
	return of.Mode
}

// shutAgain is the refusal of a dispatch that was kept from starting before,
// by a handling that came no further.
func (h *handling) shutAgain(text string) *refusal {
	r := h.shut(h.w.breakers.of(h.call.Tool), time.Now())
	r.text = text
	return r
}

// owesBreaker says whether a success is to be told to the coordinators, for a
// breaker.
func (h *handling) owesBreaker(began time.Time) bool {
	return h.call.Probe || h.w.breakers.awaits(h.call.Tool, began)
}
