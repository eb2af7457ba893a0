package corpus

import "encoding/json"

// Labels are what the collection says about a failing call. All may be empty.
type Labels struct {
	// Kind is what went wrong, and Class who could mend it, such as "transient".
	Kind  string `json:"error_kind"`
	Class string `json:"recovery_class"`
	// Did is what the agent did about it, such as [CorrectedAlone].
	Did string `json:"what_the_model_did"`
	// Next is the call after the failing one, and FixedBy the first later
	// success of the same tool, which may be about something else.
	Next    *Later `json:"next_call_after_error"`
	FixedBy *Later `json:"fixed_by"`
}

// Values of [Labels].
const (
	Transient      = "transient"            // of Class: the same call may succeed later
	CorrectedAlone = "corrected_args_alone" // of Did: the next call had other arguments and succeeded, and nobody spoke between
)

// Later is a call that came after a failing one.
type Later struct {
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"`
	IsError   bool            `json:"is_error"`
	UserSpoke bool            `json:"user_spoke_between"`
}
