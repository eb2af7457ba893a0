package messages

import (
	"fmt"
	"slices"
	"strings"
)

// UnknownValueError says that a text is not a value of a closed set (S1.11).
type UnknownValueError struct {
	Set   string   // what was expected, such as "severity"
	Value string   // what was found
	Known []string // what there is
}

func (e *UnknownValueError) Error() string {
	return fmt.Sprintf("unknown %s %q; known are %s", e.Set, truncateText(e.Value, 60), strings.Join(e.Known, ", "))
}

// The sets that every call is read with, never changed.
var (
	effects  = []Effect{ReadOnly, Idempotent, Keyed, Unsafe}
	lanes    = []Lane{LaneHigh, LaneNormal, LaneRetry, LaneLow}
	statuses = append(Ends(), Refused)
)

func checkEnum[T ~string](set string, v T, known []T) error {
	if slices.Contains(known, v) {
		return nil
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	return &UnknownValueError{Set: set, Value: string(v), Known: names}
}

func parseEnum[T ~string](set string, dst *T, text []byte, known []T) error {
	for _, k := range known { // without a conversion, since every call is read with it
		if string(k) == string(text) {
			*dst = k
			return nil
		}
	}
	return checkEnum(set, T(text), known)
}

// Severity ranks a failure; it is ordered and comparable (S1.1).
type Severity int

// Severities: a bare retry will likely work; a correction may be needed first;
// a retry without a change is unlikely to help; stop or escalate.
const (
	Low Severity = iota + 1
	Medium
	High
	Critical
)

var severityNames = [...]string{Low: "low", Medium: "medium", High: "high", Critical: "critical"}

func (s Severity) String() string {
	if s < Low || s > Critical {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return severityNames[s]
}

// MarshalText writes the name; an unknown severity is an error.
func (s Severity) MarshalText() ([]byte, error) {
	if s < Low || s > Critical {
		return nil, &UnknownValueError{Set: "severity", Value: s.String(), Known: severityNames[Low:]}
	}
	return []byte(severityNames[s]), nil
}

// UnmarshalText reads a name; an unknown one is an [UnknownValueError].
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severityNames[:], string(text))
	if i < int(Low) {
		return &UnknownValueError{Set: "severity", Value: string(text), Known: severityNames[Low:]}
	}
	*s = Severity(i)
	return nil
}

// CorrectionType says which fields of a [Correction] count (S1.5, S1.6).
type CorrectionType string

// The correction types.
const (
	InputFix        CorrectionType = "input_fix"
	ToolChange      CorrectionType = "tool_change"
	PrerequisiteFix CorrectionType = "prerequisite_fix"
	ApproachChange  CorrectionType = "approach_change"
	Escalate        CorrectionType = "escalate"
)

// CorrectionTypes lists the closed set in its order on the wire.
func CorrectionTypes() []CorrectionType {
	return []CorrectionType{InputFix, ToolChange, PrerequisiteFix, ApproachChange, Escalate}
}

// UnmarshalText refuses an unknown value (S1.11).
func (c *CorrectionType) UnmarshalText(text []byte) error {
	return parseEnum("correction_type", c, text, CorrectionTypes())
}

// Effect is what a tool declares about repeating it (S7.1).
type Effect string

// The effects. Undeclared means unsafe.
const (
	ReadOnly   Effect = "read_only"
	Idempotent Effect = "idempotent"
	Keyed      Effect = "keyed"
	Unsafe     Effect = "unsafe"
)

// Effects lists the closed set.
func Effects() []Effect { return slices.Clone(effects) }

// UnmarshalText refuses an unknown value; the empty one is unsafe.
func (e *Effect) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*e = Unsafe
		return nil
	}
	return parseEnum("effect", e, text, effects)
}

// Lane is the priority of a call within its queue.
type Lane string

// The lanes. Retry is for later dispatches; a submitter chooses among the others.
const (
	LaneHigh   Lane = "high"
	LaneNormal Lane = "normal"
	LaneLow    Lane = "low"
	LaneRetry  Lane = "retry"
)

// Lanes lists the closed set in the order of their weight.
func Lanes() []Lane { return slices.Clone(lanes) }

// UnmarshalText refuses an unknown value; the empty one is normal.
func (l *Lane) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = LaneNormal
		return nil
	}
	return parseEnum("lane", l, text, lanes)
}

// Status is how a call ended (S5.1), or that it was never accepted.
type Status string

// The ends of an accepted call, and Refused for one that was not accepted.
const (
	Succeeded     Status = "succeeded"
	Failed        Status = "failed"
	Exhausted     Status = "exhausted"
	Cancelled     Status = "cancelled"
	Expired       Status = "expired"
	StatusUnknown Status = "unknown"
	Refused       Status = "refused"
)

// Ends lists the six terminal results of an accepted call.
func Ends() []Status {
	return []Status{Succeeded, Failed, Exhausted, Cancelled, Expired, StatusUnknown}
}

// UnmarshalText refuses an unknown value.
func (s *Status) UnmarshalText(text []byte) error {
	return parseEnum("status", s, text, statuses)
}

// State is where a call that has a record stands (protocol section 1).
type State string

// The states of a record. Queued, running and reflecting are all Dispatched.
const (
	Dispatched State = "dispatched"
	Waiting    State = "waiting"
	Parked     State = "parked"
	Ended      State = "ended"
)

// UnmarshalText refuses an unknown value.
func (s *State) UnmarshalText(text []byte) error {
	return parseEnum("state", s, text, []State{Dispatched, Waiting, Parked, Ended})
}
