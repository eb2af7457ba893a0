package messages

import (
	"fmt"
	"strings"
)

// HardKind names a way in which a run ends hard (S10.1).
type HardKind string

// The hard ends of a run. No tool can cause one by what it answers; only
// coordinators and agents give them.
const (
	HardCancelled         HardKind = "cancelled"
	HardContextExceeded   HardKind = "context_exceeded"
	HardLoopDetected      HardKind = "loop_detected"
	HardUserInputRequired HardKind = "user_input_required"
	HardToolExhausted     HardKind = "tool_recovery_exhausted"
	HardFallbackExhausted HardKind = "fallback_exhausted"
)

// HardKinds lists the closed set.
func HardKinds() []HardKind {
	return []HardKind{HardCancelled, HardContextExceeded, HardLoopDetected, HardUserInputRequired, HardToolExhausted, HardFallbackExhausted}
}

// UnmarshalText refuses an unknown value.
func (k *HardKind) UnmarshalText(text []byte) error {
	return parseEnum("hard error", k, text, HardKinds())
}

// HardError tells the caller's code that its run is over. Tool and Attempts
// are set for HardToolExhausted only; Tool is the one first asked for (S4.2).
type HardError struct {
	Kind     HardKind
	Tool     string
	Attempts int
	Reason   string
}

func (e *HardError) Error() string {
	if e.Kind == HardToolExhausted {
		return fmt.Sprintf("tool recovery exhausted: %q failed in all of %d attempts", e.Tool, e.Attempts)
	}
	text := "run ended: " + strings.ReplaceAll(string(e.Kind), "_", " ")
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// HardError is the hard end that r stands for, nil for every other result. It
// looks at status and code, which only coordinators set for the ends that it
// knows; what a tool said about itself never ends a run.
func (r Result) HardError() *HardError {
	if r.Status == Failed && r.Code == CodeLoopDetected {
		return &HardError{Kind: HardLoopDetected, Reason: r.Reason}
	}
	if r.Status != Exhausted {
		return nil
	}
	tool := r.OriginalTool
	if tool == "" {
		tool = r.Tool
	}
	return &HardError{Kind: HardToolExhausted, Tool: tool, Attempts: r.Attempts, Reason: r.Reason}
}
