package messages

import (
	"errors"
	"fmt"
	"time"
)

// Record is the state of a call that failed, waits or is asked about, as the
// coordinators keep it in ATTEMPTS by compare-and-set (protocol section 1). It
// says what they intend; RESULTS says how a call ended. No record means
// dispatch 0, dispatched.
type Record struct {
	Version string  `json:"version"`
	N       int     `json:"n"`
	W       int     `json:"w"`
	State   State   `json:"state"`
	Trigger Trigger `json:"trigger"` // what caused this write (P7.1)

	// Call and Input are those of dispatch N, so that its effects are repeated
	// from the record and never decided again.
	Call  Call `json:"envelope"`
	Input Body `json:"input"`

	DueAt      time.Time   `json:"due_at,omitzero"` // Waiting: when
	DueReason  string      `json:"due_reason,omitempty"`
	Prompt     string      `json:"prompt,omitempty"`   // Parked: for the human
	Proposed   *Correction `json:"proposed,omitempty"` // Parked: what approve would apply
	AnswerBy   time.Time   `json:"answer_by,omitzero"` // Parked
	Outcome    *Outcome    `json:"outcome,omitempty"`  // Ended
	Spent      int         `json:"spent"`              // attempts, against MaxAttempts
	FreeWaits  int         `json:"free_waits,omitempty"`
	Tried      []string    `json:"inputs_tried,omitempty"` // digests of tool and canonical input (S3.6)
	Ambiguous  []int       `json:"ambiguous,omitempty"`    // dispatches (S7.7)
	Causes     []string    `json:"causes,omitempty"`       // root causes so far, each cut to 200 bytes
	Cancelling *Cancel     `json:"cancelling,omitempty"`
	// LastExecuted is the dispatch whose failure is the verbatim result (S5.2); -1 for none.
	LastExecuted int           `json:"last_executed"`
	Corrections  []Application `json:"corrections,omitempty"`
	Updated      time.Time     `json:"updated"`
}

// TriggerKind names what made a coordinator act.
type TriggerKind string

// The triggers (protocol section 2).
const (
	TriggerDecision TriggerKind = "decision"
	TriggerAnswer   TriggerKind = "answer"
	TriggerDue      TriggerKind = "due"
	TriggerAnswerBy TriggerKind = "answer-by"
	TriggerDeadline TriggerKind = "deadline"
	TriggerCancel   TriggerKind = "cancel"
	TriggerSettled  TriggerKind = "settled"
)

// UnmarshalText refuses an unknown value; the empty one is no trigger.
func (k *TriggerKind) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = ""
		return nil
	}
	return parseEnum("trigger", k, text, []TriggerKind{
		TriggerDecision, TriggerAnswer, TriggerDue, TriggerAnswerBy, TriggerDeadline, TriggerCancel, TriggerSettled,
	})
}

// Trigger identifies the message that caused a write; W counts for due only.
type Trigger struct {
	Kind TriggerKind `json:"kind"`
	N    int         `json:"n"`
	W    int         `json:"w,omitempty"`
}

// Outcome is the end that the coordinators intend.
type Outcome struct {
	Status   Status `json:"status"`
	Code     Code   `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Guidance string `json:"guidance,omitempty"`
	// Verbatim is the dispatch whose failing output is the body; -1 means Text is.
	Verbatim int    `json:"verbatim"`
	Text     string `json:"text,omitempty"`
	// EndsRun: the end is hard and the run is named (S5.5).
	EndsRun bool `json:"ends_run,omitempty"`
}

// Applied says whether a correction was used.
type Applied string

// What may become of a correction (S1.10).
const (
	CorrectionApplied       Applied = "applied"
	CorrectionNotApplicable Applied = "not_applicable"
	CorrectionRejected      Applied = "rejected"
)

// UnmarshalText refuses an unknown value.
func (a *Applied) UnmarshalText(text []byte) error {
	return parseEnum("application", a, text, []Applied{CorrectionApplied, CorrectionNotApplicable, CorrectionRejected})
}

// AttemptEnd says how the attempt after a correction ended.
type AttemptEnd string

// How a corrected attempt may end (S1.10).
const (
	AttemptSucceeded AttemptEnd = "succeeded"
	AttemptFailed    AttemptEnd = "failed"
	AttemptAmbiguous AttemptEnd = "ambiguous"
)

// UnmarshalText refuses an unknown value; the empty one is an attempt that has not ended.
func (a *AttemptEnd) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = ""
		return nil
	}
	return parseEnum("attempt end", a, text, []AttemptEnd{AttemptSucceeded, AttemptFailed, AttemptAmbiguous})
}

// Application says what became of a correction, in two separate fields: was it
// applied, and how did the attempt end that ran with it (S1.10).
type Application struct {
	N      int            `json:"n"` // the dispatch that had failed
	Type   CorrectionType `json:"correction_type"`
	Result Applied        `json:"result"`
	Reason string         `json:"reason,omitempty"` // why it was rejected or not applicable
	Rule   string         `json:"rule,omitempty"`
	Ended  AttemptEnd     `json:"ended,omitempty"` // the attempt after it; empty while it has not ended, or when none followed
}

// EncodeRecord writes a record for ATTEMPTS.
func EncodeRecord(r Record) ([]byte, error) {
	r.Version = Version
	return encodeJSON("record", &r)
}

// DecodeRecord reads a record.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	return r, decodeJSON("record", b, &r)
}

func (r *Record) check() error {
	r.Call.fill()
	if err := checkOrdinal("n", r.N, MaxDispatches); err != nil {
		return err
	}
	if r.W < 0 {
		return fmt.Errorf("w %d is below 0", r.W)
	}
	if err := r.State.UnmarshalText([]byte(r.State)); err != nil {
		return err
	}
	if r.Outcome != nil {
		if err := r.Outcome.Status.UnmarshalText([]byte(r.Outcome.Status)); err != nil {
			return err
		}
	}
	for _, a := range r.Corrections {
		if err := errors.Join(a.Type.UnmarshalText([]byte(a.Type)), a.Result.UnmarshalText([]byte(a.Result))); err != nil {
			return err
		}
	}
	return errors.Join(r.Proposed.check(), r.Cancelling.check())
}
