package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Submission is one call as a submitter gives it. Its JSON form is a line of
// EndpointSubmit and, without call and input_payload, of a file of calls.
type Submission struct {
	Call     string    `json:"call,omitempty"` // our id, chosen by the client so that a chunk can be repeated
	Ref      string    `json:"ref,omitempty"`
	Run      string    `json:"run,omitempty"` // a name; empty: the call is a run of its own
	Tool     string    `json:"tool"`
	Lane     Lane      `json:"lane,omitempty"`
	Timeout  Millis    `json:"timeout_ms,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// NotBefore is when the call may start; zero at once. After says the same
	// from when it is accepted.
	NotBefore time.Time `json:"not_before,omitzero"`
	After     Millis    `json:"after_ms,omitempty"`
	Task      string    `json:"task,omitempty"`
	Labels    Labels    `json:"labels,omitempty"`
	Trace     string    `json:"traceparent,omitempty"`
	// Key is the idempotency key of the first dispatch, for a call that may repeat
	// the effect of another (S7.2, S11.3). Empty: the call's id.
	Key string `json:"key,omitempty"`
	// Policy holds for this call alone (docs/policies.md).
	Policy  json.RawMessage `json:"policy,omitempty"`
	Payload *PayloadRef     `json:"input_payload,omitempty"` // the input, uploaded before
	// Input is the tool's input, byte for byte: the value of "input" exactly as
	// written, or the string of "input_text" for what is not JSON.
	Input []byte `json:"-"`
	// IsJSON is set by reading a line whose input stood under "input": it is
	// known to be JSON, and need not be scanned again to find out. Whoever
	// changes Input afterwards clears it.
	IsJSON bool `json:"-"`
}

type submissionFields Submission

type submissionJSON struct {
	submissionFields
	InputText *string         `json:"input_text,omitempty"`
	InputJSON json.RawMessage `json:"input,omitempty"`
}

// MarshalJSON writes the input as "input_text", since json.Marshal compacts
// what a marshaler returns and would change it. [Submission.AppendJSON] writes
// the usual line.
func (s Submission) MarshalJSON() ([]byte, error) { return s.fields(true) }

// AppendJSON appends the line of s, without a line end. The input stands under
// "input", untouched, where it is JSON on one line, else under "input_text".
// Input that is not valid UTF-8 is an error: upload it and give Payload.
func (s Submission) AppendJSON(dst []byte) ([]byte, error) {
	verbatim := s.Payload == nil && isLine(s.Input) && (s.IsJSON || json.Valid(s.Input))
	b, err := s.fields(!verbatim)
	if err != nil {
		return nil, err
	}
	if !verbatim {
		return append(dst, b...), nil
	}
	dst = append(dst, b[:len(b)-1]...)
	dst = append(dst, `,"input":`...)
	dst = append(dst, s.Input...)
	return append(dst, '}'), nil
}

// isLine says that b survives as a value in a line of JSON: no line end, and
// no white space around it, which a reader would drop.
func isLine(b []byte) bool {
	return len(b) > 0 && len(bytes.TrimSpace(b)) == len(b) && bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0
}

func (s Submission) fields(withInput bool) ([]byte, error) {
	if err := s.checkText(); err != nil {
		return nil, err
	}
	j := submissionJSON{submissionFields: submissionFields(s)}
	if withInput && s.Payload == nil {
		t := string(s.Input)
		j.InputText = &t
	}
	return marshal(j)
}

// checkText names the text that JSON would change without a word.
func (s Submission) checkText() error {
	if err := checkUTF8("input", s.Input); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, text string }{{"ref", s.Ref}, {"run", s.Run}, {"tool", s.Tool}, {"task", s.Task}} {
		if !utf8.ValidString(f.text) {
			return checkUTF8(f.name, []byte(f.text))
		}
	}
	for k, v := range s.Labels {
		if err := checkUTF8("label", []byte(k+v)); err != nil {
			return err
		}
	}
	return nil
}

// Check names the field that cannot be used, in a text for its submitter. It
// does not look at the size of the input, at tool or schema, nor at the clock.
func (s Submission) Check() error {
	if err := CheckCallID(s.Call); err != nil {
		return err
	}
	if err := CheckName("tool", s.Tool, MaxName); err != nil {
		return err
	}
	if s.Run != "" {
		if err := CheckName("run", s.Run, MaxName); err != nil {
			return err
		}
	}
	switch {
	case len(s.Ref) > MaxName:
		return fmt.Errorf("ref is %d bytes long, the limit is %d", len(s.Ref), MaxName)
	case strings.ContainsFunc(s.Key, unprintable) || len(s.Key) > MaxName:
		return fmt.Errorf("key %q is not up to %d characters of printable ASCII", truncateText(s.Key, 60), MaxName)
	case s.Lane == LaneRetry:
		return errors.New("lane retry is for later dispatches; give high, normal or low")
	case s.Timeout < 0:
		return fmt.Errorf("timeout_ms is %d; give 0 for the tool's own, or more", s.Timeout.Duration().Milliseconds())
	case !writable(s.Deadline):
		return fmt.Errorf("deadline %s is beyond the year 9999 in UTC; leave it out for none", s.Deadline.Format(time.RFC3339))
	case !writable(s.NotBefore):
		return fmt.Errorf("not_before %s is beyond the year 9999 in UTC; leave it out for at once", s.NotBefore.Format(time.RFC3339))
	case s.After < 0:
		return fmt.Errorf("after_ms is %d; give 0 for at once, or more", s.After.Duration().Milliseconds())
	case s.After > 0 && !s.NotBefore.IsZero():
		return errors.New("both not_before and after_ms are given; give one")
	case s.Payload != nil && len(s.Input) > 0:
		return errors.New("both an input and input_payload are given; give one")
	}
	if err := checkPolicy(s.Policy); err != nil {
		return err
	}
	if n := len(s.Labels.header()); len(s.Labels) > 0 && n > MaxLabels {
		return fmt.Errorf("labels take %d bytes, the limit is %d", n, MaxLabels)
	}
	if s.Payload != nil {
		if err := s.Payload.Check(); err != nil {
			return fmt.Errorf("input_payload: %w", err)
		}
	}
	return s.checkText()
}

// checkPolicy holds a policy to what fits a header; what it says is checked by
// those who know policies.
func checkPolicy(p json.RawMessage) error {
	switch {
	case len(p) == 0:
		return nil
	case len(p) > MaxPolicy:
		return fmt.Errorf("policy is %d bytes long, the limit is %d", len(p), MaxPolicy)
	case p[0] != '{' || !json.Valid(p):
		return errors.New("policy is not a JSON object")
	case bytes.ContainsFunc(p, unprintable):
		return errors.New("policy holds a line end or a character outside ASCII; escape it as JSON does")
	}
	return nil
}

// UnmarshalJSON reads a line. Unknown fields are ignored on the wire; the file
// reader refuses them before (a typing error must not become a default).
func (s *Submission) UnmarshalJSON(b []byte) error {
	var j submissionJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*s = Submission(j.submissionFields)
	switch {
	case j.InputText != nil && j.InputJSON != nil:
		return errors.New("both input and input_text are given; give one")
	case j.InputText != nil:
		s.Input = []byte(*j.InputText)
	default:
		s.Input, s.IsJSON = j.InputJSON, j.InputJSON != nil
	}
	return nil
}

// Chunk is the request of EndpointSubmit: this header on the first line, then
// one Submission a line.
type Chunk struct {
	Version string `json:"version"`
	Batch   string `json:"batch"`            // UUID; names the unnamed run of these calls
	Index   int    `json:"chunk"`            // of the batch, from 0
	Count   int    `json:"count"`            // calls that follow
	Repeat  bool   `json:"repeat,omitempty"` // this chunk may have been sent before (P7.11)
	// RepeatAt is when the sender gives up waiting for the answer: whoever reads
	// the chunk later, as after a freeze, may have been overtaken by its
	// repetition. Zero says nothing.
	RepeatAt time.Time `json:"repeat_at,omitzero"`
	By       string    `json:"by,omitempty"`
	// Runs is the highest revision of RUNS that the sender got for a declaration:
	// whoever takes the chunk in is to know the runs as they were then.
	Runs uint64 `json:"runs,omitempty"`

	Calls []Submission `json:"-"`
}

// MayRepeat says whether the chunk, read at now, may be a copy of one that was
// handled already.
func (c Chunk) MayRepeat(now time.Time) bool {
	return c.Repeat || !c.RepeatAt.IsZero() && !now.Before(c.RepeatAt)
}

func (c *Chunk) check() error {
	if err := UnnamedRun(c.Batch).Check(); err != nil {
		return fmt.Errorf("batch %q is not a UUID in its usual form", truncateText(c.Batch, 60))
	}
	if c.Index < 0 {
		return fmt.Errorf("chunk %d is below 0", c.Index)
	}
	if c.Count < 0 || c.Count > MaxChunkCalls {
		return fmt.Errorf("count %d is not from 0 to %d", c.Count, MaxChunkCalls)
	}
	return nil
}

// EncodeChunk writes a request of EndpointSubmit.
func EncodeChunk(c Chunk) ([]byte, error) {
	c.Version, c.Count = Version, len(c.Calls)
	b, err := marshal(c)
	if err != nil {
		return nil, err
	}
	for i, s := range c.Calls {
		if b, err = s.AppendJSON(append(b, '\n')); err != nil {
			return nil, fmt.Errorf("call %d of the chunk: %w", i, err)
		}
	}
	return b, nil
}

// DecodeChunk reads a request of EndpointSubmit. A line that cannot be read is
// an error of the whole chunk, since nothing of it was accepted yet. What its
// calls say is not checked: [Submission.Check] does that one by one.
func DecodeChunk(b []byte) (Chunk, error) {
	head, rest, _ := bytes.Cut(b, []byte{'\n'})
	var c Chunk
	if err := decodeJSON("chunk", head, &c); err != nil {
		return c, err
	}
	c.Calls = make([]Submission, 0, c.Count)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		s, err := decodeLine(line)
		if err != nil {
			return c, fmt.Errorf("chunk: call %d: %w", len(c.Calls), brief(err))
		}
		c.Calls = append(c.Calls, s)
	}
	if len(c.Calls) != c.Count {
		return c, fmt.Errorf("chunk: holds %d calls and says %d", len(c.Calls), c.Count)
	}
	return c, nil
}

var inputField = []byte(`,"input":`)

// decodeLine reads a line of a chunk. A line with the input as its last field,
// as [Submission.AppendJSON] writes it, is cut there, so that the input, which
// is most of it, is scanned once instead of four times: a quarter of what
// submitting costs a coordinator. The cut is right when both sides are JSON by
// themselves: a head that one brace completes was cut between two fields of
// the outermost object.
func decodeLine(line []byte) (Submission, error) {
	var s Submission
	line = bytes.TrimRight(line, " \t\r")
	if i := bytes.Index(line, inputField); len(bytes.TrimSpace(line[:max(i, 0)])) > 1 && line[len(line)-1] == '}' {
		input := bytes.TrimSpace(line[i+len(inputField) : len(line)-1])
		head := slices.Concat(line[:i], []byte{'}'})
		if json.Valid(input) && s.UnmarshalJSON(head) == nil && s.Input == nil {
			s.Input, s.IsJSON = input, true
			return s, nil
		}
	}
	err := json.Unmarshal(line, &s)
	return s, err
}

// Refusal says that one call of a chunk was not accepted, and the way out.
type Refusal struct {
	Call       string `json:"call"`
	Ref        string `json:"ref,omitempty"`
	Code       Code   `json:"code"`
	Text       string `json:"text"`
	RetryAfter Millis `json:"retry_after_ms,omitempty"` // when sending it again may help; 0 never
}

// ChunkReply answers a Chunk: every call that is not refused was accepted.
type ChunkReply struct {
	Version string    `json:"version"`
	Error   string    `json:"error,omitempty"` // the chunk as a whole; nothing was accepted
	Code    Code      `json:"code,omitempty"`
	Refused []Refusal `json:"refused,omitempty"`
}
