package messages

import (
	"fmt"
	"time"
)

// Failure is the outcome of a dispatch that did not succeed: the input of the
// reflector, and the verbatim result if the call ends with it.
type Failure struct {
	Version string `json:"version"`
	Call    Call   `json:"envelope"`
	Input   Body   `json:"input"`
	Output  Body   `json:"output"` // what the tool said, verbatim
	Code    Code   `json:"code"`
	// Error is the text for reflector and people: Output where that is text, cut to MaxErrorText; Output stays whole.
	Error string `json:"error"`
	// Ambiguous: an effect may have happened (S7.3). A definite failure is one that the tool answered.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// Executed: the tool was started. False spends an attempt only for arguments that could not be used (S4.4).
	Executed bool `json:"executed"`
	// NothingDone: the tool said that it did nothing, so that waiting for RetryAfter spends no attempt (S6.2).
	NothingDone bool      `json:"nothing_done,omitempty"`
	RetryAfter  Millis    `json:"retry_after_ms,omitempty"` // the tool's own hint, a floor for the delay
	Mark        int       `json:"mark,omitempty"`           // start mark of this execution, 0 for none (P7.19)
	Worker      string    `json:"worker,omitempty"`
	Started     time.Time `json:"started,omitzero"`
	Duration    Millis    `json:"duration_ms,omitempty"`
	Stderr      string    `json:"stderr,omitempty"` // tail of at most MaxStderr, for explain; never part of the result
	At          time.Time `json:"at"`
}

// EncodeFailure writes a failure for RECOVERY. It cuts Error at its end and
// Stderr at its beginning to their limits; with Input and Output within [MaxInline] the message then
// stays below half of the broker's usual 1 MiB.
func (p Pool) EncodeFailure(f Failure) (Message, error) {
	f.Version = Version
	f.fit()
	return jsonMessage(p.FailureSubject(f.Call.Run, f.Call.ID, f.Call.Dispatch), "failure", &f)
}

func (f *Failure) fit() {
	f.Error = fit(f.Error, MaxErrorText, textSize)
	f.Stderr = fitEnd(f.Stderr, MaxStderr, textSize)
}

// DecodeFailure reads a failure; an error names the field. An envelope without
// effect or lane, as a sparing worker may write it, counts as unsafe and normal.
func DecodeFailure(b []byte) (Failure, error) {
	var f Failure
	return f, decodeJSON("failure", b, &f)
}

func (f *Failure) check() error {
	f.Call.fill()
	if f.Mark < 0 || f.Mark > MaxMarks {
		return fmt.Errorf("mark %d is not from 0 to %d", f.Mark, MaxMarks)
	}
	return f.Call.check()
}
