package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// FailureAnalysis is what a reflector found out about a failure (S1.2). Every
// combination of IsRecoverable and Severity is legal (S1.3).
type FailureAnalysis struct {
	IsRecoverable bool        `json:"is_recoverable"`
	RootCause     string      `json:"root_cause"`
	Severity      Severity    `json:"severity"`
	Correction    *Correction `json:"correction"`
	Context       string      `json:"context"` // free, never parsed
}

// Correction proposes a change (S1.4). Look at Type first, and only at the
// fields that belong to it (S1.6).
type Correction struct {
	Type            CorrectionType  `json:"correction_type"`
	Description     string          `json:"description"`
	ModifiedInput   json.RawMessage `json:"modified_input"`   // object; nil for null
	AlternativeTool *string         `json:"alternative_tool"` // null unless tool_change
	Guidance        *string         `json:"guidance"`         // for the caller's model and for people
}

// GuidanceText is the guidance, or "".
func (c *Correction) GuidanceText() string {
	if c == nil || c.Guidance == nil {
		return ""
	}
	return *c.Guidance
}

// UnmarshalJSON reads a modified_input of null as none.
func (c *Correction) UnmarshalJSON(b []byte) error {
	type plain Correction
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if string(p.ModifiedInput) == "null" {
		p.ModifiedInput = nil
	}
	*c = Correction(p)
	return nil
}

func (c *Correction) check() error {
	if c == nil {
		return nil
	}
	return c.Type.UnmarshalText([]byte(c.Type))
}

// ReflectionContext is built afresh for each failure (S1.8).
type ReflectionContext struct {
	Task        string   `json:"task"`
	Attempt     int      `json:"attempt"`          // from 0
	MaxAttempts int      `json:"max_attempts"`     // retries that the ceiling leaves in all
	Causes      []string `json:"causes,omitempty"` // root causes of the earlier attempts, oldest first
}

// ActionType is one of the four things that a strategy may decide (S1.7).
type ActionType string

// The actions.
const (
	ActRetry   ActionType = "retry"
	ActSkip    ActionType = "skip"
	ActAskUser ActionType = "ask_user"
	ActFail    ActionType = "fail"
)

// UnmarshalText refuses an unknown value.
func (a *ActionType) UnmarshalText(text []byte) error {
	return parseEnum("action", a, text, []ActionType{ActRetry, ActSkip, ActAskUser, ActFail})
}

// RecoveryAction is a strategy's decision. Only retry has a delay, and zero
// means at once; skip and fail have a reason, ask_user has a prompt.
type RecoveryAction struct {
	Type   ActionType `json:"action"`
	Delay  Millis     `json:"delay_ms,omitempty"`
	Reason string     `json:"reason,omitempty"`
	Prompt string     `json:"prompt,omitempty"`
}

// Retry runs the call again after a delay; zero is at once.
func Retry(delay time.Duration) RecoveryAction {
	return RecoveryAction{Type: ActRetry, Delay: Millis(delay)}
}

// Skip ends the call softly with a reason.
func Skip(reason string) RecoveryAction { return RecoveryAction{Type: ActSkip, Reason: reason} }

// AskUser asks a human.
func AskUser(prompt string) RecoveryAction { return RecoveryAction{Type: ActAskUser, Prompt: prompt} }

// Fail ends the call softly with a reason.
func Fail(reason string) RecoveryAction { return RecoveryAction{Type: ActFail, Reason: reason} }

// String prints as S1.7 says.
func (a RecoveryAction) String() string {
	switch a.Type {
	case ActRetry:
		return "retry after " + a.Delay.Duration().String()
	case ActSkip:
		return "skip: " + a.Reason
	case ActAskUser:
		return "ask user: " + a.Prompt
	case ActFail:
		return "fail: " + a.Reason
	}
	return fmt.Sprintf("unknown action %q", string(a.Type))
}

// ReflectionError says that a reflector gave no analysis: it skipped the
// failure, so that the next of a chain is asked, or it broke (S1.9, S2.7).
type ReflectionError struct {
	Skipped bool
	Reason  string
}

// Error prints as S1.9 says.
func (e *ReflectionError) Error() string {
	if e.Skipped {
		return "reflection skipped: " + e.Reason
	}
	return "reflection internal error: " + e.Reason
}
