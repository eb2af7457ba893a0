// Package format reads calls in the notations in which models, protocols and
// batches write them, and writes the answers that go back into the
// conversation as they are. It is pure, and knows no provider's library:
// docs/formats.md is what it keeps to.
//
// What identifies a call is the line that it stands in and its place there.
// The id that a provider gave it is unique within one conversation only: it is
// echoed, and never tells two calls apart.
package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	shorten "mulligan/internal/excerpt"
	"mulligan/pkg/messages"
)

// Format is a notation of calls and their answers.
type Format string

// The formats. Auto finds out for each line which it is of.
const (
	Auto            Format = "auto"
	Mulligan        Format = "mulligan"
	OpenAIChat      Format = "openai-chat"
	OpenAIResponses Format = "openai-responses"
	Anthropic       Format = "anthropic"
	MCP             Format = "mcp"
)

// Formats are those that may be asked for, Auto first.
func Formats() []Format {
	return []Format{Auto, Mulligan, OpenAIChat, OpenAIResponses, Anthropic, MCP}
}

// MaxCalls is how many calls a line may hold.
const MaxCalls = 1000

// Call is one call of a line.
type Call struct {
	messages.Submission
	// Err says why it cannot be submitted. It is refused, its siblings are not.
	Err   error
	reply reply
}

// reply makes an answer of a text that a model reads.
type reply func(text string, isError bool) any

// Line is what one line holds: its calls in order, and how they are answered.
type Line struct {
	// Format is Mulligan also for a line that is of none: it is one call then,
	// whose Err says why.
	Format Format
	Calls  []Call

	shape  shape
	custom json.RawMessage // the custom_id of a line of a batch
}

// shape is what a line is answered with.
type shape byte

const (
	bare  shape = iota // a call by itself: one answer
	items              // a list of calls: a list of answers
	whole              // a message or a response: a list of what the conversation goes on with
)

// Read reads a line in a format, or finds out which it is with Auto. What is
// wrong stands in the Err of the calls.
func Read(line []byte, f Format) Line {
	if f == Mulligan || f == Auto && plain(line) {
		return own(line)
	}
	l, err := read(line, f)
	switch {
	case errors.Is(err, errOwn):
		return own(line)
	case err == nil && len(l.Calls) > MaxCalls:
		err = fmt.Errorf("holds %d calls, and a line may hold %d; write several lines", len(l.Calls), MaxCalls)
	}
	if err != nil {
		return Line{Format: Mulligan, Calls: []Call{{Submission: messages.Submission{Ref: l.ref("")}, Err: err}}}
	}
	return l
}

// Count says how many calls Read finds in a line, and whether they are
// answered in our own format. It costs little where the line is plainly ours.
func Count(line []byte, f Format) (calls int, own bool) {
	if f == Mulligan || f == Auto && plain(line) {
		return 1, true
	}
	l := Read(line, f)
	return len(l.Calls), l.Format == Mulligan
}

func own(line []byte) Line {
	s, err := Parse(line)
	return Line{Format: Mulligan, Calls: []Call{{Submission: s, Err: err}}}
}

// Answer is how a call ended, as far as its caller's model is told.
type Answer struct {
	Output  []byte // what the tool said
	IsError bool
	// Reason and Guidance are what was found out about a failure. A model is
	// told the guidance, and the reason where there is none.
	Reason, Guidance string
}

// Text is what a model reads: the tool's own words byte for byte and, where it
// failed, what was found out about that after a blank line. Bytes that no
// text can hold are written in base64, which is said.
func (a Answer) Text() string {
	words := shown(a.Output)
	if !a.IsError {
		return words
	}
	advice := a.Guidance
	if advice == "" {
		advice = a.Reason
	}
	switch {
	case advice == "" || advice == words:
		return words
	case words == "":
		return advice
	}
	return words + "\n\n" + advice
}

// Reply writes the line that answers a line of another format than Mulligan's,
// without a line end. There is one answer for each call, in their order.
func (l Line) Reply(answers []Answer) ([]byte, error) {
	if l.Format == Mulligan || len(answers) != len(l.Calls) {
		return nil, fmt.Errorf("%d answers to %d calls of format %s", len(answers), len(l.Calls), l.Format)
	}
	replies := make([]any, len(answers))
	for i, a := range answers {
		replies[i] = l.Calls[i].reply(a.Text(), a.IsError)
	}
	var v any = replies
	switch {
	case l.shape == bare && len(replies) == 1 && l.custom == nil:
		v = replies[0]
	case l.Format == Anthropic && len(replies) > 0 && (l.shape == whole || l.custom != nil):
		v = []any{userMessage{Role: "user", Content: replies}}
	}
	if l.custom != nil {
		v = l.inBatch(v)
	}
	return encode(v)
}

// inBatch names the answers as the request that goes on with them does.
func (l Line) inBatch(answers any) any {
	if l.Format == OpenAIResponses {
		return struct {
			CustomID json.RawMessage `json:"custom_id"`
			Input    any             `json:"input"`
		}{l.custom, answers}
	}
	return struct {
		CustomID json.RawMessage `json:"custom_id"`
		Messages any             `json:"messages"`
	}{l.custom, answers}
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// ref is the id of a call behind the custom_id of its line, as far as a ref
// goes: some providers keep notes of their own in an id, which can be long.
func (l Line) ref(id string) string {
	var custom string
	_ = json.Unmarshal(l.custom, &custom) // it is a string, or there is none
	switch {
	case custom == "":
	case id == "":
		id = custom
	default:
		id = custom + "/" + id
	}
	return shorten.Head(id, messages.MaxName)
}

// add takes in a call. The first fault is told, and says where it stands.
func (l *Line) add(place, id string, c Call, faults ...error) {
	c.Ref = l.ref(id)
	if c.Tool == "" {
		faults = append(faults, errors.New("names no tool"))
	}
	for _, err := range faults {
		if err != nil && c.Err == nil {
			c.Err = at(place, err)
		}
	}
	l.Calls = append(l.Calls, c)
}

// cutOff refuses the last of the calls from n on: the answer that holds them
// ended before it was whole, so that call may lack what was to follow.
func (l *Line) cutOff(n int, why string) {
	if last := len(l.Calls) - 1; last >= n && l.Calls[last].Err == nil {
		l.Calls[last].Err = fmt.Errorf("the call may be cut off (%s), and was not run; make it again, and shorter or with room for more tokens", why)
	}
}

// at says where a fault stands; nil stays nil.
func at(place string, err error) error {
	if place == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}
