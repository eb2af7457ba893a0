package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

// Result is one line of results. Output is what the tool gave back, as a
// string and byte for byte, also where it is JSON: so it means the same for
// every tool, and numbers and key order are those of the tool. Output that is
// not UTF-8 stands in OutputBase64 instead.
type Result struct {
	Ref          string          `json:"ref"`
	Call         string          `json:"call"` // empty when the line could not be read
	Run          string          `json:"run"`  // as the submitter named it; empty without one
	Status       messages.Status `json:"status"`
	IsError      bool            `json:"is_error"`
	Output       *string         `json:"output,omitempty"`
	OutputBase64 []byte          `json:"output_base64,omitempty"`
	Attempts     int             `json:"attempts"`
	RecoveredBy  string          `json:"recovered_by"`
	Reason       string          `json:"reason"`
	Guidance     string          `json:"guidance"`
	Duration     messages.Millis `json:"duration_ms"`
	Code         messages.Code   `json:"code,omitempty"` // why, unless it succeeded
	Labels       messages.Labels `json:"labels,omitempty"`
}

// Ended makes the line of a call that ended.
func Ended(r messages.Result, output []byte) Result {
	l := Result{
		Ref: r.Ref, Call: r.Call, Run: r.Run.Name(), Status: r.Status, IsError: r.IsError, Attempts: r.Attempts,
		RecoveredBy: r.RecoveredBy, Reason: r.Reason, Guidance: r.Guidance, Duration: r.Duration, Code: r.Code, Labels: r.Labels,
	}
	if utf8.Valid(output) {
		s := string(output)
		l.Output = &s
	} else {
		l.OutputBase64 = output
	}
	return l
}

// OutputGone is the reason of a result whose output is not kept any more.
func OutputGone(r messages.Result) string {
	return fmt.Sprintf("the output of %d bytes has outlived its retention; %s", r.Output.Size(), r.Reason)
}

// NotAccepted makes the line of a call that was refused, so that the model that
// made it gets an answer all the same: the text is its output.
func NotAccepted(s messages.Submission, code messages.Code, text string) Result {
	return Result{
		Ref: s.Ref, Call: s.Call, Run: s.Run, Status: messages.Refused, IsError: true,
		Output: &text, Reason: text, Code: code, Labels: s.Labels,
	}
}

// Answer is what the caller's model is told.
func (r Result) Answer() format.Answer {
	a := format.Answer{Output: r.OutputBase64, IsError: r.IsError, Reason: r.Reason, Guidance: r.Guidance}
	if r.Output != nil {
		a.Output = []byte(*r.Output)
	}
	return a
}

// Line encodes the result, without a line end.
func (r Result) Line() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("result of call %s: %w", r.Call, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// Summary counts how calls ended. Submitted are those that were accepted, the
// sum of the ends; Recovered is a part of Succeeded. Refused stands beside them.
type Summary struct {
	Submitted int `json:"submitted"`
	Succeeded int `json:"succeeded"`
	Recovered int `json:"recovered"`
	Failed    int `json:"failed"`
	Exhausted int `json:"exhausted"`
	Unknown   int `json:"unknown"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
	Refused   int `json:"refused"`
	Parked    int `json:"parked,omitempty"` // not ended: they wait for a human
}

// Ended is how many calls have a line.
func (s Summary) Ended() int { return s.Submitted + s.Refused }

// AllWell says that every call succeeded.
func (s Summary) AllWell() bool { return s.Succeeded == s.Ended() }

// Outcomes are the calls that were accepted, by how they ended.
func (s Summary) Outcomes() map[messages.Status]int {
	return map[messages.Status]int{
		messages.Succeeded: s.Succeeded, messages.Failed: s.Failed, messages.Exhausted: s.Exhausted,
		messages.StatusUnknown: s.Unknown, messages.Cancelled: s.Cancelled, messages.Expired: s.Expired,
	}
}

// Count adds a result.
func (s *Summary) Count(r Result) { s.add(r.Status, r.Attempts > 1 || r.RecoveredBy != "") }

func (s *Summary) add(status messages.Status, again bool) {
	if status == messages.Refused {
		s.Refused++
		return
	}
	s.Submitted++
	switch status {
	case messages.Succeeded:
		s.Succeeded++
		if again {
			s.Recovered++
		}
	case messages.Failed:
		s.Failed++
	case messages.Exhausted:
		s.Exhausted++
	case messages.StatusUnknown:
		s.Unknown++
	case messages.Cancelled:
		s.Cancelled++
	case messages.Expired:
		s.Expired++
	}
}
