package schema

import (
	"bytes"
	"maps"
	"slices"
)

// plain is a schema of which an input that fits can be told while it is read
// once, as that of most tools: types, properties, required ones, elements, texts
// to choose from. It only ever says yes. What it does not say yes to, be it that
// it does not understand the input, is checked by the library, which alone says
// what is wrong; a tenth of the time of taking a call in was building values for
// it that fit.
type plain struct {
	types      map[string]bool // nil allows all
	choices    map[string]bool // nil allows all
	properties map[string]*plain
	required   map[string]uint // the bit of each
	closed     bool            // no other properties
	items      *plain
}

var anything = &plain{}

// noChecks are keywords that do not check.
var noChecks = map[string]bool{"title": true, "description": true, "default": true, "examples": true, "$comment": true, "$schema": true}

// plainOf is nil where the schema says more than a plain one can.
func plainOf(doc any) *plain {
	if doc == true {
		return anything
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	p := &plain{}
	for keyword, v := range m {
		if !noChecks[keyword] && !p.take(keyword, v) {
			return nil
		}
	}
	return p
}

// take reports whether it understands the keyword.
func (p *plain) take(keyword string, v any) bool {
	switch keyword {
	case "type":
		if t, ok := v.(string); ok {
			v = []any{t}
		}
		p.types = texts(v)
		return p.types != nil
	case "enum":
		p.choices = texts(v)
		return p.choices != nil
	case "required":
		names := texts(v)
		p.required = make(map[string]uint, len(names))
		for i, name := range slices.Sorted(maps.Keys(names)) {
			p.required[name] = 1 << i
		}
		return names != nil && len(names) <= 64
	case "additionalProperties":
		open, ok := v.(bool)
		p.closed = !open
		return ok
	case "items":
		p.items = plainOf(v)
		return p.items != nil
	case "properties":
		return p.takeProperties(v)
	}
	return false
}

func (p *plain) takeProperties(v any) bool {
	m, ok := v.(map[string]any)
	p.properties = make(map[string]*plain, len(m))
	for name, doc := range m {
		if p.properties[name] = plainOf(doc); p.properties[name] == nil {
			return false
		}
	}
	return ok
}

// texts is the set of a list of texts, nil for anything else.
func texts(v any) map[string]bool {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	set := make(map[string]bool, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		set[s] = true
	}
	return set
}

// fits reads a value of valid JSON in UTF-8 and says that it surely fits.
func (p *plain) fits(r *reading) bool {
	switch r.next() {
	case '{':
		return p.allows("object") && p.object(r)
	case '[':
		return p.allows("array") && p.array(r)
	case '"':
		text, ok := r.plainText()
		return ok && (p.types == nil || p.types["string"]) && (p.choices == nil || p.choices[string(text)])
	case 't':
		r.take(len("true"))
		return p.allows("boolean")
	case 'f':
		r.take(len("false"))
		return p.allows("boolean")
	case 'n':
		r.take(len("null"))
		return p.allows("null")
	}
	n := r.number()
	const sure = 15 // digits and signs that every reader takes for the same number
	return len(n) <= sure && (p.allows("number") || p.allows("integer") && !bytes.ContainsAny(n, ".eE"))
}

// allows says whether values of a type, which is not string, fit.
func (p *plain) allows(kind string) bool {
	return p.choices == nil && (p.types == nil || p.types[kind])
}

func (p *plain) object(r *reading) bool {
	r.skip()
	if r.next() == '}' {
		r.skip()
		return len(p.required) == 0
	}
	for seen := uint(0); ; {
		r.next()
		name, ok := r.plainText()
		child, known := p.properties[string(name)]
		if !ok || !known && p.closed {
			return false
		}
		if !known {
			child = anything
		}
		seen |= p.required[string(name)]
		r.skip() // the colon
		if !child.fits(r) {
			return false
		}
		if r.skip() == '}' {
			return seen == 1<<len(p.required)-1
		}
	}
}

func (p *plain) array(r *reading) bool {
	items := p.items
	if items == nil {
		items = anything
	}
	r.skip()
	if r.next() == ']' {
		r.skip()
		return true
	}
	for {
		if !items.fits(r) {
			return false
		}
		if r.skip() == ']' {
			return true
		}
	}
}
