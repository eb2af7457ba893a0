package replay

import (
	"mulligan/pkg/messages"
)

// Original is a call that ended, as far as its pool still knows it.
type Original struct {
	messages.Result // its Output is not kept; Text is
	// Text is what the tool said, or the beginning of it. Empty where it is kept
	// apart.
	Text string
	// Position is where the result stands in RESULTS; 0 where it is gone.
	Position uint64

	// Queue and those below are known only where the story was read.
	Queue string
	// By and Rule are those of the last decision.
	By, Rule string

	// Call is dispatch 0 as it was submitted, and Input its input, if HasInput.
	Call     messages.Call
	Input    []byte
	HasInput bool
	// Effect is that of the tool that ran last.
	Effect messages.Effect
	// Dispatches are those that failed, by number.
	Dispatches []Dispatch
	// LateSuccess: it succeeded after its end (S7.5).
	LateSuccess bool
}

// Dispatch is what is left of one that failed.
type Dispatch struct {
	N         int
	Digest    string // of tool and input
	Key       string
	Effect    messages.Effect
	Ambiguous bool
}

// Asked is the tool first asked for.
func (o *Original) Asked() string {
	if o.OriginalTool != "" {
		return o.OriginalTool
	}
	return o.Tool
}

// Tried says whether a failed dispatch had this digest.
func (o *Original) Tried(digest string) bool {
	for _, d := range o.Dispatches {
		if d.Digest == digest {
			return true
		}
	}
	return false
}

// ambiguous says whether an attempt may have had an effect.
func (o *Original) ambiguous() bool {
	for _, d := range o.Dispatches {
		if d.Ambiguous {
			return true
		}
	}
	return o.Status == messages.StatusUnknown
}
