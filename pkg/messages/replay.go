package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// LabelReplayOf is the label under which a replay carries the id of the call
// that it replays. Like every label it is echoed in the result; coordinators
// note such calls in RUNS, so that the original finds its replays (S11.1).
const LabelReplayOf = "replay_of"

// ReplayOf is the call that a call with these labels replays, "" for none. A
// label that holds no call id is the submitter's own affair.
func (l Labels) ReplayOf() string {
	if id := l[LabelReplayOf]; isUUID7(id) {
		return id
	}
	return ""
}

// ReplayKey is the key in RUNS of one replay of a call; its value is a
// [Replay]. Either may be "*", in a filter.
func ReplayKey(original, replay string) string { return "replay." + original + "." + replay }

// Replay says that a call was accepted which replays another.
type Replay struct {
	Original string    `json:"original"`
	Call     string    `json:"call"`
	Run      Run       `json:"run"` // of the replay
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// DecodeReplay reads a replay, which is written as plain JSON.
func DecodeReplay(b []byte) (Replay, error) {
	var r Replay
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("replay: %w", brief(err))
	}
	if err := CheckCallID(r.Original); err != nil {
		return r, fmt.Errorf("replay: original: %w", err)
	}
	if err := CheckCallID(r.Call); err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	return r, r.Run.Check()
}
