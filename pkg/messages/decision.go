package messages

import "time"

// Decision is what a reflector made of a failure: the analysis and the
// strategy's action. The coordinator may overrule the action (ceiling,
// ambiguity), never the other way round.
type Decision struct {
	Version  string           `json:"version"`
	Call     string           `json:"call"`
	Run      Run              `json:"run"`
	Dispatch int              `json:"dispatch"`
	Analysis *FailureAnalysis `json:"analysis"` // null when reflection failed or was not asked for
	Action   RecoveryAction   `json:"action"`
	// By names the reflector that answered, such as "rules" or "noop"; Rule the rule within it.
	By   string `json:"by"`
	Rule string `json:"rule,omitempty"`
	// Error is the reflection error, printed; then Action is fail (S9.4).
	Error string `json:"error,omitempty"`
	// Guidance is the rendered reflection prompt for the caller's model (S5.6).
	Guidance string `json:"guidance,omitempty"`
	// Fault is whose the failure is, as far as the reflector can tell (S8.2).
	Fault Fault `json:"fault,omitempty"`
	// Usage is what a model took for it; null when none was asked.
	Usage *Usage `json:"usage,omitempty"`
	// MaxRetries is what the policy granted, for "Attempt: n of m" (S4.5).
	MaxRetries int       `json:"max_retries"`
	Park       bool      `json:"park,omitempty"`         // ask_user mode (S5.3); false means return
	AnswerBy   Millis    `json:"answer_by_ms,omitempty"` // how long a parked call waits; 0 means the pool's own
	Reflector  string    `json:"reflector"`              // the process that decided
	At         time.Time `json:"at"`
}

// EncodeDecision writes a decision for RECOVERY.
func (p Pool) EncodeDecision(d Decision) (Message, error) {
	d.Version = Version
	return jsonMessage(p.DecisionSubject(d.Run, d.Call, d.Dispatch), "decision", &d)
}

// DecodeDecision reads a decision; an unknown enum value is an error with its name.
func DecodeDecision(b []byte) (Decision, error) {
	var d Decision
	return d, decodeJSON("decision", b, &d)
}

// check finds the closed sets that are missing altogether; a value that is
// there was checked while it was read.
func (d *Decision) check() error {
	if err := CheckCallID(d.Call); err != nil {
		return err
	}
	if err := d.Run.Check(); err != nil {
		return err
	}
	if err := checkOrdinal("dispatch", d.Dispatch, MaxDispatches); err != nil {
		return err
	}
	if err := d.Action.Type.UnmarshalText([]byte(d.Action.Type)); err != nil {
		return err
	}
	if d.Analysis == nil {
		return nil
	}
	if _, err := d.Analysis.Severity.MarshalText(); err != nil {
		return err
	}
	return d.Analysis.Correction.check()
}
