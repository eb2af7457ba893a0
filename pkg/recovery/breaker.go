package recovery

import (
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// BreakerRules is what a policy says of a tool's circuit breaker (S8). Its
// methods are the whole machine: each takes the breaker as it stands and gives
// the one that is to be written, and whether it differs. None keeps a clock or
// changes what it is given; the zero [messages.Breaker] is a closed one.
type BreakerRules struct {
	Mode      messages.BreakerMode
	Threshold int           // consecutive failed calls that open it, from 1
	Reset     time.Duration // how long it stays open, above 0
}

// BreakerRules are those of the policy, its defaults filled in.
func (p Policy) BreakerRules() BreakerRules {
	p = p.WithDefaults()
	return BreakerRules{Mode: p.Breaker, Threshold: max(p.BreakerThreshold, 1), Reset: p.BreakerReset.Duration()}
}

// BreakerLeave is what a breaker says to a dispatch: it passes, or may ask
// again, not before a time.
type BreakerLeave struct {
	Pass      bool
	Probe     bool      // it passes as the one probe (S8.4)
	NotBefore time.Time // of one that does not pass
}

func closed(b messages.Breaker) messages.Breaker {
	b.State, b.Until, b.Probe, b.Failures = messages.BreakerClosed, time.Time{}, nil, nil
	b.By, b.Reason = "", ""
	return b
}

// written marks a change by these rules.
func (r BreakerRules) written(b messages.Breaker, now time.Time) messages.Breaker {
	b.Mode, b.Reset, b.Updated = r.Mode, messages.Millis(r.Reset), now
	if b.Mode == messages.BreakerOff { // opened by a human all the same
		b.Mode = messages.BreakerFailFast
	}
	return b
}

// Ask lets a dispatch pass or not. The first that asks after the reset time is
// the probe, for as long as lease; it may ask again and hears the same. A
// breaker that is switched off by now closes, but for one that a human opened.
func (r BreakerRules) Ask(b messages.Breaker, p messages.Probe, lease time.Duration, now time.Time) (messages.Breaker, bool, BreakerLeave) {
	b = b.At(now)
	over := !now.Before(b.Until)
	switch {
	case b.State == messages.BreakerClosed:
		return b, false, BreakerLeave{Pass: true}
	case r.Mode == messages.BreakerOff && (b.By == "" || over):
		return r.written(closed(b), now), true, BreakerLeave{Pass: true}
	case b.Probes(p):
		return b, false, BreakerLeave{Pass: true, Probe: true}
	case b.State == messages.BreakerHalfOpen || !over:
		return b, false, BreakerLeave{NotBefore: now.Add(b.Rest(now))}
	}
	b.State, b.Probe, b.Until = messages.BreakerHalfOpen, &p, now.Add(lease)
	b.By, b.Reason = "", ""
	return r.written(b, now), true, BreakerLeave{Pass: true, Probe: true}
}

// Failed counts a call that ended since the tool failed, under a name that is
// counted once. began is when the
// execution did, zero where nobody knows. Nothing is counted that began before
// the breaker opened last (S8.4), that is counted already, or while it is not
// closed.
func (r BreakerRules) Failed(b messages.Breaker, name string, began, now time.Time) (messages.Breaker, bool) {
	b = b.At(now)
	switch {
	case r.Mode == messages.BreakerOff, b.State != messages.BreakerClosed,
		!began.IsZero() && began.Before(b.Opened), slices.Contains(b.Failures, name):
		return b, false
	}
	b.Failures = append(slices.Clone(b.Failures), name)
	if len(b.Failures) >= r.Threshold {
		b = b.Trip(now, r.Reset)
	}
	return r.written(b, now), true
}

// ProbeFailed opens the breaker again if p is its probe.
func (r BreakerRules) ProbeFailed(b messages.Breaker, p messages.Probe, now time.Time) (messages.Breaker, bool) {
	b = b.At(now)
	if !b.Probes(p) {
		return b, false
	}
	return r.written(b.Trip(now, r.Reset), now), true
}

// ProbeGone takes the leave back from a probe that told nothing of the tool,
// such as a cancelled one: the next dispatch that asks is the probe.
func (r BreakerRules) ProbeGone(b messages.Breaker, p messages.Probe, now time.Time) (messages.Breaker, bool) {
	b = b.At(now)
	if !b.Probes(p) {
		return b, false
	}
	b.State, b.Until, b.Probe = messages.BreakerOpen, now, nil
	return r.written(b, now), true
}

// Succeeded begins the count of a closed breaker anew, and closes a half-open
// one if p is its probe. An open one takes no notice (S8.4).
func (r BreakerRules) Succeeded(b messages.Breaker, p messages.Probe, began, now time.Time) (messages.Breaker, bool) {
	b = b.At(now)
	if b.Probes(p) || b.CountsSuccess(began) {
		return r.written(closed(b), now), true
	}
	return b, false
}

// Open is a human's: no call passes for a time, 0 meaning the reset time,
// whatever the policy says; then one probe does.
func (r BreakerRules) Open(b messages.Breaker, lasts time.Duration, by, reason string, now time.Time) messages.Breaker {
	if lasts <= 0 {
		lasts = r.Reset
	}
	b = b.At(now).Trip(now, lasts)
	b.By, b.Reason = by, reason
	return r.written(b, now)
}

// Close is a human's: calls pass, and what was counted is forgotten.
func (r BreakerRules) Close(b messages.Breaker, by, reason string, now time.Time) messages.Breaker {
	b = closed(b.At(now))
	b.By, b.Reason = by, reason
	return r.written(b, now)
}
