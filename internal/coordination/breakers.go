package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/internal/metrics"
	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// breakers knows the circuit breakers of the pool, from CONTROL, and changes
// them by compare-and-set, so that any number of coordinators agree (S8).
// A closed breaker that has counted nothing costs a look into a map.
type breakers struct {
	broker   Broker
	policies *policies.Book
	registry *registry
	log      *slog.Logger
	metrics  *metrics.Coordinator
	kept     time.Duration // how long CONTROL keeps an entry that says nothing of it
	maxWait  time.Duration // for which calls may be deferred

	mu    sync.RWMutex
	seen  map[string]breakerEntry // by tool
	turns map[string]*sync.Mutex  // by tool: one change at a time, so that a storm makes no conflicts
}

type breakerEntry struct {
	messages.Breaker
	revision uint64
}

func newBreakers(c *Coordinator) *breakers {
	return &breakers{broker: c.broker, policies: c.policies, registry: c.registry, log: c.log, metrics: c.metrics, kept: c.cfg.CancelTTL, maxWait: c.cfg.MaxWait,
		seen: make(map[string]breakerEntry), turns: make(map[string]*sync.Mutex)}
}

// apply takes an entry of CONTROL, as the watch brings it.
func (b *breakers) apply(e messages.Entry) {
	token, ok := strings.CutPrefix(e.Key, messages.BreakerPrefix)
	if !ok {
		return
	}
	tool, err := messages.Name(token)
	if err != nil {
		return
	}
	entry := breakerEntry{revision: e.Revision}
	if !e.Deleted {
		if entry.Breaker, err = messages.DecodeBreaker(e.Value); err != nil {
			b.log.Error("a breaker cannot be read; what was known of it still holds", "tool", tool, "error", err)
			return
		}
	}
	b.note(tool, entry)
}

// note keeps the newer of what is known and what was read or written.
func (b *breakers) note(tool string, e breakerEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.revision < b.seen[tool].revision {
		return
	}
	b.seen[tool] = e
	b.metrics.Breaker(tool, e.State)
}

func (b *breakers) of(tool string) breakerEntry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.seen[tool]
}

// shut says whether a dispatch to the tool has to ask.
func (b *breakers) shut(tool string) bool {
	s := b.of(tool).State
	return s != "" && s != messages.BreakerClosed
}

func (b *breakers) rules(tool string) recovery.BreakerRules {
	queue := ""
	if t, _ := b.registry.known(tool); t != nil {
		queue = t.Spec.Queue
	}
	return b.policies.For(queue, tool, nil).BreakerRules()
}

// ask says whether a dispatch may go out. lease is that of a probe. Dispatches
// that wait for the same moment are spread behind it. None waits for longer than
// any other delay may last: its record would be gone before it is due.
func (b *breakers) ask(ctx context.Context, call messages.Call, lease time.Duration) (dispatch.Passage, error) {
	rules := b.rules(call.Tool)
	var leave recovery.BreakerLeave
	err := b.change(ctx, call.Tool, false, func(of messages.Breaker, now time.Time) (next messages.Breaker, changed bool) {
		next, changed, leave = rules.Ask(of, messages.ProbeOf(call), lease, now)
		return next, changed
	})
	switch {
	case err != nil:
		return dispatch.Passage{}, err
	case leave.Pass:
		return dispatch.Passage{Probe: leave.Probe}, nil
	case b.defers(call, rules) && time.Until(leave.NotBefore) <= b.maxWait:
		of := b.of(call.Tool)
		return dispatch.Passage{Wait: &dispatch.Wait{Until: leave.NotBefore.UTC().Add(rand.N(of.Pause())), Reason: of.Why()}}, nil
	}
	return dispatch.Passage{Refusal: &dispatch.Refusal{Code: messages.CodeBreakerOpen, Text: messages.BreakerText, Reason: b.of(call.Tool).Why()}}, nil
}

// defers says whether the call is to wait. A call may choose for itself, but
// not that there is no breaker.
func (b *breakers) defers(call messages.Call, rules recovery.BreakerRules) bool {
	mode := b.policies.For(call.Queue, call.Tool, call.Policy).Breaker
	if mode == messages.BreakerOff {
		mode = rules.Mode
	}
	return mode == messages.BreakerDefer
}

// change writes what f makes of a tool's breaker. Where that is the same as far
// as we know nothing is read; with sure, the leader is asked before it is left
// at that. f may be called more than once.
func (b *breakers) change(ctx context.Context, tool string, sure bool, f func(messages.Breaker, time.Time) (messages.Breaker, bool)) error {
	turn := b.turn(tool)
	turn.Lock()
	defer turn.Unlock()
	entry := b.of(tool)
	for known := !sure; ; known = true {
		next, changed := f(entry.Breaker, time.Now().UTC())
		if changed {
			done, err := b.save(ctx, tool, entry, next)
			if err != nil || done {
				return err
			}
		} else if known {
			return nil
		}
		var err error
		if entry, err = b.load(ctx, tool, entry.revision); err != nil {
			return err
		}
	}
}

func (b *breakers) turn(tool string) *sync.Mutex {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turns[tool] == nil {
		b.turns[tool] = &sync.Mutex{}
	}
	return b.turns[tool]
}

// load asks the leader. known is the revision that was known before: if nothing
// is there it has expired, of which a watch tells nothing.
func (b *breakers) load(ctx context.Context, tool string, known uint64) (breakerEntry, error) {
	e, err := b.broker.Load(ctx, messages.BucketControl, messages.BreakerKey(tool))
	if errors.Is(err, messages.ErrNotFound) {
		b.note(tool, breakerEntry{revision: known})
		return breakerEntry{}, nil
	}
	if err != nil {
		return breakerEntry{}, fmt.Errorf("read the breaker of tool %q: %w", tool, err)
	}
	of, err := messages.DecodeBreaker(e.Value)
	if err != nil {
		return breakerEntry{}, fmt.Errorf("the breaker of tool %q: %w", tool, err)
	}
	entry := breakerEntry{of, e.Revision}
	b.note(tool, entry)
	return entry, nil
}

// save compares and sets; not done means that another coordinator was first.
func (b *breakers) save(ctx context.Context, tool string, before breakerEntry, next messages.Breaker) (done bool, err error) {
	next.Version, next.Tool = messages.Version, tool
	value, err := messages.EncodeBreaker(next)
	if err != nil {
		return false, err
	}
	rev, err := b.broker.Save(ctx, messages.BucketControl, messages.BreakerKey(tool), value, before.revision, b.life(next, time.Now()))
	if errors.Is(err, messages.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the breaker of tool %q: %w", tool, err)
	}
	b.note(tool, breakerEntry{next, rev})
	b.tell(before.Breaker, next)
	return true, nil
}

// life frees a breaker from the age of CONTROL that has longer to wait than
// entries are kept there: else the pool would forget that the tool is shut, and
// a process that starts then would let its calls through. A reset time is added,
// since a probe that dies opens the breaker for one more, which nobody writes.
func (b *breakers) life(next messages.Breaker, now time.Time) time.Duration {
	if next.State != messages.BreakerClosed && next.Until.Add(next.Reset.Duration()).Sub(now) >= b.kept {
		return messages.Forever
	}
	return 0 // the bucket's
}

// tell logs what an operator wants to know, and counts the trips.
func (b *breakers) tell(before, next messages.Breaker) {
	log := b.log.With("tool", next.Tool)
	if next.By != "" {
		log = log.With("by", next.By, "reason", next.Reason)
	}
	if n := next.Trips - before.Trips; n > 0 {
		b.metrics.Tripped(next.Tool, n)
	}
	switch {
	case next.State == messages.BreakerOpen && next.Trips > before.Trips:
		log.Warn("circuit breaker open", "until", next.Until, "failed", len(next.Failures))
	case next.State == messages.BreakerHalfOpen:
		log.Info("circuit breaker half open: one probe goes out", "run", string(next.Probe.Run), "call", next.Probe.Call, "dispatch", next.Probe.Dispatch)
	case next.State == messages.BreakerClosed && before.State != messages.BreakerClosed && before.State != "":
		log.Info("circuit breaker closed")
	}
}
