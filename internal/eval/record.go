package eval

import (
	"encoding/json"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Recorded is a line of a corpus, as [corpus.Read] reads it: one attempt of a
// call, whose run is the call.
type Recorded struct {
	Source    string          `json:"source"`
	Domain    string          `json:"domain"`
	Run       string          `json:"run_id"`
	Seq       int             `json:"seq"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"`
	Output    string          `json:"output"`
	IsError   bool            `json:"is_error"`
	ErrorText string          `json:"error_text,omitempty"`
	Class     string          `json:"recovery_class,omitempty"`
	Did       string          `json:"what_the_model_did,omitempty"`
	Next      *RecordedNext   `json:"next_call_after_error,omitempty"`
}

// RecordedNext is the attempt after one that failed.
type RecordedNext struct {
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	IsError bool            `json:"is_error"`
}

// Record turns the attempts of a call that failed at least once into lines of a
// corpus, and those of the call that replayed it with success, if there is one:
// both tell what mended a failure. hide takes secrets out of every text. ok is
// false where an input is kept apart or not any more, or is no JSON once its
// secrets are out: such a call would teach something that never happened.
func Record(s, replayed story.Story, domain string, hide func(string) string) (lines []Recorded, ok bool) {
	for _, of := range []story.Story{s, replayed} {
		for _, d := range of.Dispatches {
			succeeded := d.Outcome == string(messages.Succeeded) && of.End != nil
			if !succeeded && d.Error == "" || succeeded && d.Input == nil {
				continue // it left no outcome, or succeeded at once, of which no input is kept
			}
			input, usable := recordedInput(d, hide)
			if !usable {
				return nil, false
			}
			line := Recorded{Source: "mulligan", Domain: domain, Run: s.Call, Seq: len(lines) + 1, Tool: d.Tool, Input: input, IsError: !succeeded}
			if line.Output = hide(d.Error); succeeded {
				line.Output = hide(of.End.Output)
			} else {
				line.ErrorText = line.Output
			}
			lines = append(lines, line)
		}
	}
	for i := range lines[:max(len(lines)-1, 0)] {
		lines[i].label(lines[i+1])
	}
	return lines, len(lines) > 0 && lines[0].IsError
}

// recordedInput is the input as a corpus has it: JSON as it is, and what a
// model wrote in place of JSON as a string.
func recordedInput(d story.Dispatch, hide func(string) string) (json.RawMessage, bool) {
	if d.Input == nil {
		return nil, false
	}
	hidden := hide(*d.Input)
	if json.Valid([]byte(hidden)) {
		return json.RawMessage(hidden), true
	}
	if json.Valid([]byte(*d.Input)) {
		return nil, false
	}
	b, err := json.Marshal(hidden)
	return b, err == nil
}

// label says of a failure what the next attempt makes known.
func (r *Recorded) label(next Recorded) {
	r.Next = &RecordedNext{Tool: next.Tool, Input: next.Input, IsError: next.IsError}
	switch same := recovery.Digest(r.Tool, r.Input) == recovery.Digest(next.Tool, next.Input); {
	case next.IsError:
	case same:
		r.Class = corpus.Transient
	default:
		r.Did = corpus.CorrectedAlone
	}
}

// RecordTool is a line of the file of tools, as [ReadSchemas] reads it.
func RecordTool(t messages.ToolSpec, domain string) any {
	d := declared{Name: t.Name, Server: domain, Description: t.Description, Parameters: t.Schema}
	d.Annotations.ReadOnly = t.Effect == messages.ReadOnly
	d.Annotations.Idempotent = t.Effect == messages.Idempotent || t.Effect == messages.Keyed
	return d
}
