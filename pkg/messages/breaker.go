package messages

import "time"

// BreakerState is one of the three of S8.1.
type BreakerState string

// The states.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open" // one probe is on its way
)

// UnmarshalText refuses an unknown value.
func (s *BreakerState) UnmarshalText(text []byte) error {
	return parseEnum("breaker state", s, text, []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen})
}

// BreakerMode says what an open breaker does to calls (S8.3).
type BreakerMode string

// The modes.
const (
	BreakerFailFast BreakerMode = "fail_fast" // they end at once
	BreakerDefer    BreakerMode = "defer"     // they wait for the reset
	BreakerOff      BreakerMode = "off"       // there is none
)

// UnmarshalText refuses an unknown value.
func (m *BreakerMode) UnmarshalText(text []byte) error {
	return parseEnum("breaker mode", m, text, []BreakerMode{BreakerFailFast, BreakerDefer, BreakerOff})
}

// BreakerText is what the caller's model reads when a breaker refused a call (S6).
const BreakerText = "tool temporarily unavailable: circuit breaker open"

// Breaker is the state of a tool's circuit breaker: key [BreakerKey] in
// CONTROL, written by coordinators with compare-and-set, watched by workers.
// No entry means closed, with nothing counted.
type Breaker struct {
	Version string       `json:"version"`
	Tool    string       `json:"tool"`
	State   BreakerState `json:"state"`
	// Mode is that of the policy at the last change, for workers, which know no
	// policy.
	Mode BreakerMode `json:"mode"`
	// Failures are the ids of the calls that failed one after the other since
	// the last success, at most the threshold; ids, so that a repeated trigger
	// counts no call twice. What was lost with a worker stands there once, as
	// "worker" and its name.
	Failures []string `json:"failures,omitempty"`
	// Opened is when it opened last. What began before neither closes it nor
	// prolongs it (S8.4).
	Opened time.Time `json:"opened,omitzero"`
	// Until is when the reset time of an open one is over, and when the lease of
	// the probe of a half-open one ends.
	Until time.Time `json:"until,omitzero"`
	Probe *Probe    `json:"probe,omitempty"` // of a half-open one
	// Reset is the reset time at the last change.
	Reset Millis `json:"reset_ms,omitempty"`
	Trips int    `json:"trips,omitempty"` // how often it opened
	// By and Reason are set when a human opened or closed it; one opened by a
	// human lets no probe through before Until.
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Updated time.Time `json:"updated"`
}

// Probe names the dispatch that is let through.
type Probe struct {
	Run      Run    `json:"run"`
	Call     string `json:"call"`
	Dispatch int    `json:"dispatch"`
}

// EncodeBreaker writes a breaker for CONTROL.
func EncodeBreaker(b Breaker) ([]byte, error) {
	b.Version = Version
	return encodeJSON("breaker", &b)
}

// DecodeBreaker reads a breaker.
func DecodeBreaker(v []byte) (Breaker, error) {
	var b Breaker
	return b, decodeJSON("breaker", v, &b)
}

func (b *Breaker) check() error {
	if err := b.State.UnmarshalText([]byte(b.State)); err != nil {
		return err
	}
	if err := b.Mode.UnmarshalText([]byte(b.Mode)); err != nil {
		return err
	}
	return CheckName("tool", b.Tool, MaxName)
}

// The bounds of [Breaker.Pause]: a tenth of the reset time.
const (
	pauseShare = 10
	minPause   = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Pause is how long dispatches stay away while another one's probe is on its
// way, and over how much time those are spread that wait for the same reset.
func (b Breaker) Pause() time.Duration {
	return min(max(b.Reset.Duration()/pauseShare, minPause), maxPause)
}

// At is the breaker as it stands at now. A probe whose lease is over had a
// worker that died, so that the breaker opened again at that moment, for a full
// reset time (S8.4). Nobody has to write that down.
func (b Breaker) At(now time.Time) Breaker {
	if b.State == "" {
		b.State = BreakerClosed
	}
	if b.State == BreakerHalfOpen && !now.Before(b.Until) {
		return b.Trip(b.Until, b.Reset.Duration())
	}
	return b
}

// Trip is the breaker opened at a time, for as long as lasts.
func (b Breaker) Trip(at time.Time, lasts time.Duration) Breaker {
	b.State, b.Opened, b.Until, b.Probe = BreakerOpen, at, at.Add(lasts), nil
	b.By, b.Reason = "", ""
	b.Trips++
	return b
}

// Probes says whether p is the probe of a half-open breaker.
func (b Breaker) Probes(p Probe) bool {
	return b.State == BreakerHalfOpen && b.Probe != nil && *b.Probe == p
}

// CountsSuccess says whether a success that is no probe changes the breaker: it
// has counted failures, and did not open since the execution began (S8.1, S8.4).
func (b Breaker) CountsSuccess(began time.Time) bool {
	return b.State == BreakerClosed && len(b.Failures) > 0 && !began.Before(b.Opened)
}

// Why says to people why a call is refused or waits, until when, and who shut
// the tool, where a human did.
func (b Breaker) Why() string {
	why := BreakerText
	if b.State == BreakerHalfOpen {
		return why + ", while one call tries the tool"
	}
	if !b.Until.IsZero() {
		why += " until " + b.Until.UTC().Format(time.RFC3339)
	}
	if b.By != "" {
		why += ", opened by " + b.By
	}
	if b.By != "" && b.Reason != "" {
		why += ": " + b.Reason
	}
	return why
}

// Rest is how long at least a dispatch stays away that it does not let pass.
func (b Breaker) Rest(now time.Time) time.Duration {
	if b.State == BreakerOpen {
		return max(b.Until.Sub(now), 0)
	}
	return b.Pause()
}

// ProbeOf names a dispatch as a probe.
func ProbeOf(c Call) Probe { return Probe{Run: c.Run, Call: c.ID, Dispatch: c.Dispatch} }
