package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// fields of a line, in the order in which the documentation lists them.
func fields() []string {
	return []string{"ref", "run", "tool", "input", "input_text", "lane", "timeout_ms", "deadline", "not_before", "after_ms", "task", "labels", "policy", "key"}
}

// Parse reads one call from a line. It is strict, since a typing error must
// not become a default: a field that it does not know, a value of another type
// and a second value for the same field are errors, which name the field, the
// value and the way out. The input is kept byte for byte.
//
// With an error the call holds what could be read, so that its ref can be
// answered to.
func Parse(line []byte) (messages.Submission, error) {
	p := parser{seen: make(map[string]bool), line: line}
	if i := badByte(line); i >= 0 {
		p.fail(fmt.Errorf("byte %d of the line (0x%02x) is not valid UTF-8; write such bytes as text, for instance in base64", i, line[i]))
	}
	p.object()
	if p.err == nil {
		p.complete()
	}
	return p.call, p.err
}

type parser struct {
	line []byte
	call messages.Submission
	seen map[string]bool
	text *string // input_text
	json []byte  // input
	err  error   // the first
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *parser) object() {
	d := json.NewDecoder(bytes.NewReader(p.line))
	t, err := d.Token()
	if err != nil {
		p.fail(syntaxError(err))
		return
	}
	if t != json.Delim('{') {
		p.fail(fmt.Errorf("holds %s; a line is one JSON object, such as {\"tool\": \"echo\", \"input\": {}}", kindOf(t)))
		return
	}
	for d.More() {
		if !p.member(d) {
			return
		}
	}
	if _, err := d.Token(); err != nil {
		p.fail(syntaxError(err))
		return
	}
	if rest := bytes.TrimSpace(p.line[d.InputOffset():]); len(rest) > 0 {
		p.fail(fmt.Errorf("goes on after its object: %s; write one call a line", excerpt(rest)))
	}
}

func (p *parser) member(d *json.Decoder) (more bool) {
	t, err := d.Token()
	if err != nil {
		p.fail(syntaxError(err))
		return false
	}
	name, _ := t.(string)
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		p.fail(fmt.Errorf("field %s: %w", excerpt([]byte(name)), syntaxError(err)))
		return false
	}
	if p.seen[name] {
		p.fail(fmt.Errorf("field %s is given twice; give it once", excerpt([]byte(name))))
		return true
	}
	p.seen[name] = true
	if err := p.set(name, raw); err != nil {
		p.fail(err)
	}
	return true
}

func (p *parser) set(name string, raw json.RawMessage) error {
	if string(raw) == "null" && name != "input" && slices.Contains(fields(), name) {
		return nil // as generators write what is not set
	}
	switch name {
	case "input":
		p.json = raw
		return nil
	case "ref":
		return text(name, raw, &p.call.Ref)
	case "run":
		return text(name, raw, &p.call.Run)
	case "tool":
		return text(name, raw, &p.call.Tool)
	case "task":
		return text(name, raw, &p.call.Task)
	case "key":
		return text(name, raw, &p.call.Key)
	case "input_text":
		p.text = new(string)
		return text(name, raw, p.text)
	case "lane":
		return lane(raw, &p.call.Lane)
	case "timeout_ms":
		if err := json.Unmarshal(raw, &p.call.Timeout); err != nil {
			return fmt.Errorf("timeout_ms: %w; give milliseconds, such as 5000 for five seconds", err)
		}
		return nil
	case "deadline":
		return moment(name, raw, &p.call.Deadline)
	case "not_before":
		return moment(name, raw, &p.call.NotBefore)
	case "after_ms":
		if err := json.Unmarshal(raw, &p.call.After); err != nil {
			return fmt.Errorf("after_ms: %w; give milliseconds, such as 60000 for a minute from when the call is accepted", err)
		}
		return nil
	case "labels":
		return labels(raw, &p.call.Labels)
	case "policy":
		return policy(raw, &p.call.Policy)
	}
	if p.err != nil {
		return nil // the first fault is what is told
	}
	return unknownField(name)
}

func (p *parser) complete() {
	c := &p.call
	switch {
	case c.Tool == "":
		p.fail(errors.New("tool is missing; name the tool to call, as `mulligan tools` lists them"))
	case p.text != nil && p.json != nil && string(p.json) != "null":
		p.fail(errors.New("both input and input_text are given; give input for JSON, or input_text for text that is to reach the tool as it is"))
	case p.text != nil:
		c.Input = []byte(*p.text)
	case p.json != nil:
		c.Input, c.IsJSON = p.json, true
	default:
		p.fail(errors.New("input is missing; a tool without arguments is called with \"input\": {}"))
	}
}

func text(name string, raw []byte, dst *string) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%s: %s is not a string; write it in quotes", name, excerpt(raw))
	}
	if badByte(raw) >= 0 {
		return nil // told for the line; what is left of it answers to nobody
	}
	if strings.ContainsRune(s, utf8.RuneError) && halfSurrogate(raw) {
		return fmt.Errorf("%s: %s holds one half of a surrogate pair, which no UTF-8 text can; escape the character as a whole", name, excerpt(raw))
	}
	*dst = s
	return nil
}

func lane(raw []byte, dst *messages.Lane) error {
	known := []messages.Lane{messages.LaneHigh, messages.LaneNormal, messages.LaneLow}
	var s messages.Lane
	if err := json.Unmarshal(raw, (*string)(&s)); err != nil || !slices.Contains(known, s) {
		return fmt.Errorf("lane: %s is none of high, normal, low; leave it out for normal", excerpt(raw))
	}
	*dst = s
	return nil
}

// labels are read one by one: the decoder would take null for an empty text,
// the last of two values for one, and half a character for another.
func labels(raw []byte, dst *messages.Labels) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("labels: %s is not an object of strings, such as {\"team\": \"a\"}", excerpt(raw))
	}
	*dst = make(messages.Labels)
	for d.More() {
		from := d.InputOffset()
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("labels: %w", syntaxError(err))
		}
		name, _ := t.(string)
		if halfSurrogate(raw[from:d.InputOffset()]) {
			return fmt.Errorf("labels: the name %s holds one half of a surrogate pair; escape the character as a whole", excerpt([]byte(name)))
		}
		if _, twice := (*dst)[name]; twice {
			return fmt.Errorf("labels: %s is given twice; give it once", excerpt([]byte(name)))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("labels: %w", syntaxError(err))
		}
		if value[0] != '"' {
			return fmt.Errorf("labels: %s is %s, not a string; write it in quotes", excerpt([]byte(name)), excerpt(value))
		}
		var s string
		if err := text("labels: "+excerpt([]byte(name)), value, &s); err != nil {
			return err
		}
		(*dst)[name] = s
	}
	return nil
}

func moment(name string, raw []byte, dst *time.Time) error {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			if t.IsZero() { // which everywhere else means that there is none
				return fmt.Errorf("%s: %s has passed; leave it out for none", name, excerpt(raw))
			}
			*dst = t
			return nil
		}
	}
	return fmt.Errorf("%s: %s is not a time of RFC 3339, such as \"2030-12-31T23:59:59Z\"", name, excerpt(raw))
}

func unknownField(name string) error {
	switch name {
	case "call", "id":
		return fmt.Errorf("field %s is not known; Mulligan gives a call its id, your own goes into ref", name)
	case "arguments", "args", "parameters":
		return fmt.Errorf("field %s is not known; the arguments go into input as a JSON value, or into input_text as a string", name)
	}
	if meant := suggest.Meant(name, fields()); meant != "" {
		return fmt.Errorf("field %s is not known%s", excerpt([]byte(name)), meant)
	}
	return fmt.Errorf("field %s is not known; known are %s; what only you need goes into labels", excerpt([]byte(name)), strings.Join(fields(), ", "))
}

func syntaxError(err error) error {
	var se *json.SyntaxError
	switch {
	case errors.As(err, &se):
		return fmt.Errorf("is not JSON at byte %d: %s; text that is not JSON goes into input_text as a string", max(0, se.Offset-1), se.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is not JSON: the line ends within the value")
	}
	return fmt.Errorf("is not JSON: %w", err)
}

func kindOf(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		return "an array"
	case string:
		return "a string"
	case float64:
		return "a number"
	case bool:
		return fmt.Sprint(t)
	}
	return "null"
}

// excerpt shortens a value for a message.
func excerpt(b []byte) string {
	const limit = 80
	s := strings.ToValidUTF8(string(b[:min(len(b), limit+utf8.UTFMax)]), "\uFFFD")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// badByte is where b stops being UTF-8; -1 for nowhere.
func badByte(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// halfSurrogate says whether a JSON string holds an escape that is half of a
// pair, which decoding would silently replace.
func halfSurrogate(raw []byte) bool {
	high := false
	for i := 0; i < len(raw); i++ {
		unit := rune(-1)
		if raw[i] == '\\' && i+1 < len(raw) {
			if raw[i+1] == 'u' && i+5 < len(raw) {
				_, _ = fmt.Sscanf(string(raw[i+2:i+6]), "%04x", &unit)
				i += 4
			}
			i++
		}
		low := unit >= 0xdc00 && unit <= 0xdfff
		if low != high {
			return true
		}
		high = unit >= 0xd800 && unit <= 0xdbff
	}
	return high
}
