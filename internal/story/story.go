package story

import (
	"time"

	"mulligan/pkg/messages"
)

// State is where a call stands, in the words that people are shown. Queued,
// running and reflecting are all Dispatched in the record.
type State string

// The states.
const (
	Queued     State = "queued"
	Running    State = "running"
	Reflecting State = "reflecting"
	Waiting    State = "waiting"
	Parked     State = "parked"
	Ended      State = "ended"
)

// Story is a call as it is told; its JSON form is that of `mulligan explain -o json`.
type Story struct {
	Call        string          `json:"call"`
	Ref         string          `json:"ref,omitempty"`
	Run         string          `json:"run,omitempty"` // as named by the submitter
	Tool        string          `json:"tool"`          // the one first asked for
	Queue       string          `json:"queue,omitempty"`
	Lane        messages.Lane   `json:"lane,omitempty"`
	Effect      messages.Effect `json:"effect,omitempty"`
	Task        string          `json:"task,omitempty"`
	Labels      messages.Labels `json:"labels,omitempty"`
	Submitted   time.Time       `json:"submitted"`
	Deadline    time.Time       `json:"deadline,omitzero"`
	State       State           `json:"state"`
	Now         string          `json:"now"` // where it is, as a sentence
	Attempts    int             `json:"attempts"`
	Dispatches  []Dispatch      `json:"dispatches"`
	Cancel      *Wish           `json:"cancel,omitempty"`
	End         *End            `json:"end,omitempty"`
	Late        []LateOutcome   `json:"late,omitempty"`
	Unreadable  []string        `json:"unreadable,omitempty"`
	Workers     []string        `json:"workers,omitempty"`
	TimeInTools messages.Millis `json:"time_in_tools_ms"`
	TimeInAll   messages.Millis `json:"time_in_all_ms"`
	ExtraStarts int             `json:"extra_starts,omitempty"` // executions after a crash, beyond one a dispatch (S4.6)
	ReplayOf    string          `json:"replay_of,omitempty"`    // the call that this one replays (S11.1)
	Replays     []Replay        `json:"replays,omitempty"`      // the calls that replay this one
	Usage       *messages.Usage `json:"usage,omitempty"`        // what models took for all of it; nil when none was asked
}

// Replay is a call that replays the one of the story.
type Replay struct {
	Call string    `json:"call"`
	Run  string    `json:"run,omitempty"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
}

// Dispatch is one publish of the call and what came of it.
type Dispatch struct {
	N           int               `json:"dispatch"`
	Attempt     int               `json:"attempt"` // from 0, as the budget counts
	Tool        string            `json:"tool"`
	Input       *string           `json:"input,omitempty"`       // nil: not kept, as of a call that succeeded at once
	InputSize   int64             `json:"input_bytes,omitempty"` // of one that is kept apart
	Changes     []Change          `json:"changes,omitempty"`     // against the dispatch before
	RecoveredBy string            `json:"changed_by,omitempty"`
	Key         string            `json:"key,omitempty"`
	Marks       []StartMark       `json:"starts,omitempty"`
	Worker      string            `json:"worker,omitempty"`
	Started     time.Time         `json:"started,omitzero"`
	Duration    messages.Millis   `json:"duration_ms"`
	Failed      time.Time         `json:"failed,omitzero"` // when the failure was written
	Outcome     string            `json:"outcome"`         // succeeded, failed, or why there is none yet
	Code        messages.Code     `json:"code,omitempty"`
	Error       string            `json:"error,omitempty"`
	Ambiguous   bool              `json:"ambiguous,omitempty"` // an effect may have happened
	Executed    bool              `json:"executed"`
	RetryAfter  messages.Millis   `json:"retry_after_ms,omitempty"`
	Stderr      string            `json:"stderr,omitempty"`
	Analysis    *Analysis         `json:"analysis,omitempty"`
	Prompt      string            `json:"prompt,omitempty"` // what a human is asked, or was
	Answer      *messages.Answer  `json:"answer,omitempty"`
	Applied     *messages.Applied `json:"applied,omitempty"` // what became of the correction
	AppliedWhy  string            `json:"applied_reason,omitempty"`
	Waited      messages.Millis   `json:"waited_ms,omitempty"` // from this failure to the next start
}

// StartMark is a start that was written down before the tool ran.
type StartMark struct {
	Worker    string    `json:"worker"`
	At        time.Time `json:"at"`
	Delivery  int       `json:"delivery"`
	Tombstone string    `json:"tombstone,omitempty"` // nothing runs here any more, and why
}

// Analysis is what was made of a failure.
type Analysis struct {
	By          string               `json:"by"`
	Rule        string               `json:"rule,omitempty"`
	Reflector   string               `json:"reflector,omitempty"` // the process
	At          time.Time            `json:"at"`
	RootCause   string               `json:"root_cause,omitempty"`
	Severity    string               `json:"severity,omitempty"`
	Recoverable bool                 `json:"is_recoverable"`
	Correction  *messages.Correction `json:"correction,omitempty"`
	Action      string               `json:"action"` // as printed (S1.7)
	Error       string               `json:"error,omitempty"`
	Guidance    string               `json:"guidance,omitempty"`
	MaxRetries  int                  `json:"max_retries"`
	Usage       *messages.Usage      `json:"usage,omitempty"` // what a model took for it
}

// Wish is a wish to end the call.
type Wish struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// End is how the call ended.
type End struct {
	Status      messages.Status `json:"status"`
	Code        messages.Code   `json:"code,omitempty"`
	IsError     bool            `json:"is_error"`
	Output      string          `json:"output"`
	OutputSize  int64           `json:"output_bytes"`
	RecoveredBy string          `json:"recovered_by,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Guidance    string          `json:"guidance,omitempty"`
	Worker      string          `json:"worker,omitempty"`
	At          time.Time       `json:"at,omitzero"`
}

// LateOutcome came after the end, or is an answer after another; it is kept,
// and changed nothing (S7.5).
type LateOutcome struct {
	Dispatch int              `json:"dispatch"`
	Why      string           `json:"why"`
	Worker   string           `json:"worker,omitempty"`
	At       time.Time        `json:"at"`
	Success  bool             `json:"success"`
	Text     string           `json:"text"`
	Answer   *messages.Answer `json:"answer,omitempty"`
}
