package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// part of a template is a field of the input, or a text.
type part struct {
	field  string // empty for a text
	text   string
	secret bool // the text is the value of a variable
}

// template is a text with {field} in it.
type template []part

var placeholder = regexp.MustCompile(`\$?\{[^{}]*\}`)

// parse reads a template; look finds the values of ${NAME}, and is nil where
// there may be none.
func parse(text string, look func(string) (string, bool)) (template, error) {
	var out template
	literal := func(s string) error {
		if strings.ContainsAny(s, "{}") {
			return fmt.Errorf("%q holds a brace that belongs to no {field}", text)
		}
		if s != "" {
			out = append(out, part{text: s})
		}
		return nil
	}
	at := 0
	for _, m := range placeholder.FindAllStringIndex(text, -1) {
		if err := literal(text[at:m[0]]); err != nil {
			return nil, err
		}
		at = m[1]
		p, err := stands(text[m[0]:m[1]], look)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, literal(text[at:])
}

// stands reads {field} or ${NAME}.
func stands(s string, look func(string) (string, bool)) (part, error) {
	name := strings.Trim(s, "${}")
	switch {
	case name == "":
		return part{}, fmt.Errorf("%s names nothing: give a field of the input", s)
	case s[0] == '{':
		return part{field: s[1 : len(s)-1]}, nil
	case look == nil:
		return part{}, fmt.Errorf("%s: variables belong to headers, since addresses are logged", s)
	}
	value, ok := look(name)
	if !ok {
		return part{}, fmt.Errorf("the worker's environment has no variable %s: set it", name)
	}
	return part{text: value, secret: true}, nil
}

func (t template) hasField() bool {
	for _, p := range t {
		if p.field != "" {
			return true
		}
	}
	return false
}

// fill gives the text for an input, with the values of fields escaped; ok is
// false if a field is absent or null.
func (t template) fill(in input, escape func(string) string) (text string, ok bool, err error) {
	var b strings.Builder
	for _, p := range t {
		if p.field == "" {
			b.WriteString(p.text)
			continue
		}
		v, ok, err := in.text(p.field)
		if err != nil || !ok {
			return "", false, err
		}
		b.WriteString(escape(v))
	}
	return b.String(), true, nil
}

func asIs(s string) string { return s }

// input are the fields of the arguments of a call.
type input map[string]json.RawMessage

// text is a field's value: of a number and a boolean what the input says.
func (in input) text(field string) (string, bool, error) {
	raw, ok := in[field]
	if !ok || string(raw) == "null" {
		return "", false, nil
	}
	text, err := scalar(raw)
	if err != nil {
		return "", false, fmt.Errorf("field %q %w", field, err)
	}
	return text, true, nil
}

func scalar(raw json.RawMessage) (string, error) {
	switch raw[0] {
	case '{', '[':
		return "", errors.New("is a list or an object where a text, a number or a boolean is needed")
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return string(raw), nil
}

// list are the values of a parameter: several if its template is a field that
// is a list, none if a field is absent.
func (t template) list(in input) ([]string, error) {
	if len(t) == 1 && t[0].field != "" && len(in[t[0].field]) > 0 && in[t[0].field][0] == '[' {
		return in.list(t[0].field)
	}
	text, ok, err := t.fill(in, asIs)
	if err != nil || !ok {
		return nil, err
	}
	return []string{text}, nil
}

func (in input) list(field string) ([]string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(in[field], &items); err != nil {
		return nil, fmt.Errorf("field %q: %w", field, err)
	}
	out := make([]string, len(items))
	for i, raw := range items {
		var err error
		if out[i], err = scalar(raw); err != nil {
			return nil, fmt.Errorf("item %d of field %q %w", i, field, err)
		}
	}
	return out, nil
}

var origin = regexp.MustCompile(`^https?://[^/?#{}@\\\s]+`)

// address splits a URL into its origin and the templates of its segments.
func address(text string) (string, []template, error) {
	base := origin.FindString(text)
	path := text[len(base):]
	switch {
	case base == "":
		return "", nil, fmt.Errorf("%q does not begin with https://host or http://host", text)
	case strings.HasPrefix(path, "@"): // it is not shown
		return "", nil, errors.New("it holds a user: send them in a header, such as {Authorization: \"Basic ${NAME}\"}")
	case strings.ContainsAny(path, "?#"):
		return "", nil, fmt.Errorf("%q holds a query or a fragment: give parameters under query", text)
	case path != "" && path[0] != '/':
		return "", nil, fmt.Errorf("%q has no / after its host; scheme, host and port are fixed", text)
	}
	u, err := url.Parse(base + placeholder.ReplaceAllString(path, "x"))
	if err != nil || u.Hostname() == "" {
		return "", nil, fmt.Errorf("%q is not an address such as https://api.example.com/things/{id}", text)
	}
	var segments []template
	for s := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		t, err := parse(s, nil)
		if err != nil {
			return "", nil, err
		}
		segments = append(segments, t)
	}
	return base, segments, nil
}
