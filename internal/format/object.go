package format

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// object is a JSON object as it is written: names are told apart letter by
// letter, as encoding/json does not for a struct, and a value is kept byte for
// byte.
type object map[string]json.RawMessage

// toObject reads an object. With an error it gives what could be read.
func toObject(raw []byte) (object, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("%s is not an object", excerpt(raw))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, notJSON(err)
	}
	o := make(object)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return o, notJSON(err)
		}
		name, _ := t.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return o, fmt.Errorf("field %s: %w", excerpt([]byte(name)), notJSON(err))
		}
		if _, twice := o[name]; twice {
			return o, fmt.Errorf("field %s is given twice; give it once", excerpt([]byte(name)))
		}
		o[name] = value
	}
	if _, err := d.Token(); err != nil {
		return o, notJSON(err)
	}
	if rest := bytes.TrimSpace(raw[d.InputOffset():]); len(rest) > 0 {
		return o, fmt.Errorf("goes on after its object: %s", excerpt(rest))
	}
	return o, nil
}

func notJSON(err error) error {
	var se *json.SyntaxError
	if errors.As(err, &se) {
		return fmt.Errorf("is not JSON: %s", se.Error())
	}
	return errors.New("is not JSON: it ends within a value")
}

// has says whether a field is there; null is how a generator writes what is not.
func (o object) has(name string) bool {
	return len(o[name]) > 0 && string(o[name]) != "null"
}

// is says whether a field is one of these texts.
func (o object) is(name string, texts ...string) bool {
	return o.has(name) && slices.Contains(texts, o.glance(name))
}

// glance is the text of a field, empty for anything else.
func (o object) glance(name string) string {
	var s string
	_ = json.Unmarshal(o[name], &s) // empty is what is wanted then
	return s
}

// needed reads a text that must be there.
func (o object) needed(name string, dst *string) error {
	if !o.has(name) {
		return fmt.Errorf("%s is missing", name)
	}
	return text(name, o[name], dst)
}

// inner reads an object that must be there.
func (o object) inner(name string) (object, error) {
	if !o.has(name) {
		return nil, fmt.Errorf("%s is missing", name)
	}
	in, err := toObject(o[name])
	return in, at(name, err)
}

// list reads a list, empty where there is none.
func (o object) list(name string) ([]json.RawMessage, error) {
	if !o.has(name) {
		return nil, nil
	}
	var l []json.RawMessage
	if err := json.Unmarshal(o[name], &l); err != nil {
		return nil, fmt.Errorf("%s: %s is not a list", name, excerpt(o[name]))
	}
	return l, nil
}

// arguments are a text that a model wrote, kept byte for byte whether it is
// JSON or not. Servers that give them as an object instead are understood.
func (o object) arguments(name string, c *Call) error {
	c.Input = []byte{} // nothing was written
	switch {
	case !o.has(name):
		return nil
	case o[name][0] == '{':
		c.Input, c.IsJSON = o[name], true
		return nil
	}
	var s string
	err := text(name, o[name], &s)
	c.Input = []byte(s)
	return err
}

// value reads arguments that are written as JSON, which must be there.
func (o object) value(name string, c *Call) error {
	c.Input, c.IsJSON = o[name], true
	if len(o[name]) == 0 {
		return fmt.Errorf("%s is missing; a tool without arguments is called with {}", name)
	}
	return nil
}

// fields are the names of an object, as an error tells them.
func (o object) fields() string {
	if len(o) == 0 {
		return "no fields"
	}
	names := make([]string, 0, len(o))
	for n := range o {
		names = append(names, n)
	}
	slices.Sort(names)
	var b []byte
	for i, n := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, n...)
	}
	said := "the fields " + excerpt(b)
	if o.has("type") {
		said += ", of type " + excerpt(o["type"])
	}
	return said
}

// shown is an output as a text.
func shown(output []byte) string {
	if utf8.Valid(output) {
		return string(output)
	}
	return fmt.Sprintf("The output is no text; its %d bytes in base64: %s", len(output), base64.StdEncoding.EncodeToString(output))
}
