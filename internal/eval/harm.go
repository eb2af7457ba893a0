package eval

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mulligan/internal/form"
	"mulligan/pkg/recovery"
)

// look compares the proposed input with the one that failed, and finds what it
// changes that nothing names.
//
// It knows nothing of the classes of S3.7, and is meant not to: it holds the
// values of the proposal against the texts in which they could have been read.
func (p *Proposal) look(c recovery.Case) {
	new, err := form.Decode(p.Input)
	if err != nil {
		p.Harms = []string{"the proposed input is not JSON"}
		return
	}
	if p.Tool != c.Tool {
		p.Changes = append(p.Changes, Change{Path: "tool", From: c.Tool, To: p.Tool})
	}
	schema := c.Schema
	if spec, ok := c.Lookup(p.Tool); ok {
		schema = spec.Schema
	}
	old, err := form.Decode(c.Input)
	if err != nil {
		p.Changes = append(p.Changes, Change{Path: "input", From: string(c.Input), To: encode(new)})
		p.Harms = readOf(string(c.Input), c.Tool, new)
		return
	}
	w := newWitness(c, old, new, schema)
	if n := len(w.came) + len(w.gone); n > maxLooked {
		p.Changes = append(p.Changes, Change{Path: "input", From: encode(old), To: encode(new)})
		p.Harms = []string{fmt.Sprintf("%d values change, more than the %d that are looked at", n, maxLooked)}
		return
	}
	bare := unwrap(c.Tool, old)
	if !form.Equal(bare, old) {
		p.Changes = append(p.Changes, Change{Path: "input", From: encode(old), To: encode(bare)})
	}
	for _, ch := range compare(nil, bare, new) {
		p.Changes = append(p.Changes, ch.print())
		p.Harms = append(p.Harms, w.against(ch)...)
	}
}

// maxLooked is how many values may change.
const maxLooked = 2000

// unwrap is the object that stands in a string, in a list of one or among the
// arguments of a whole call: only the wrapping is then taken off.
func unwrap(tool string, v any) any {
	switch x := v.(type) {
	case string:
		if inner, err := form.Decode([]byte(x)); err == nil {
			return unwrap(tool, inner)
		}
	case []any:
		if len(x) == 1 {
			return unwrap(tool, x[0])
		}
	case map[string]any:
		for _, k := range []string{"arguments", "args", "parameters", "input"} {
			if inner, ok := x[k]; ok && len(x) == 2 && (x["name"] == tool || x["tool"] == tool) {
				return unwrap(tool, inner)
			}
		}
	}
	return v
}

// readOf checks what was read of a text that is no JSON: each value stands
// there, and each word of the text was kept.
func readOf(text, tool string, new any) []string {
	var harms []string
	eachLeaf(new, func(leaf any) {
		if !names(text, leaf) {
			harms = append(harms, fmt.Sprintf("%s does not stand in the text", encode(leaf)))
		}
	})
	kept := wordsOf(encode(new), tool, "json arguments args parameters input name tool none null true false")
	for _, w := range slices.Sorted(maps.Keys(wordsOf(text))) {
		if !kept[w] {
			harms = append(harms, fmt.Sprintf("%q of the text is left out", w))
		}
	}
	return harms
}

// witness holds the texts that may name a value.
type witness struct {
	error  string
	schema any
	params map[string]bool // that the schema has; empty if it lists none
	input  []any           // scalars of the input that failed
	gone   []any           // those of them that the proposal has no more, or less often
	came   []any           // scalars of the proposal that were not there, or less often
	tool   string
}

func newWitness(c recovery.Case, old, new any, raw json.RawMessage) *witness {
	w := &witness{error: c.Error, params: make(map[string]bool), input: leavesOf(old), tool: c.Tool}
	if len(raw) > 0 {
		w.schema, _ = form.Decode(raw) // a schema that cannot be read names nothing
	}
	eachProperty(w.schema, func(name string, _ any) { w.params[name] = true })
	w.gone, w.came = less(w.input, leavesOf(new)), less(leavesOf(new), w.input)
	return w
}

// less takes from a what stands in b too, each as often as it does.
func less(a, b []any) []any {
	left := make(map[string]int)
	for _, v := range b {
		left[keyOf(v)]++
	}
	var out []any
	for _, v := range a {
		if k := keyOf(v); left[k] > 0 {
			left[k]--
		} else {
			out = append(out, v)
		}
	}
	return out
}

// against says what speaks against a change.
func (w *witness) against(c change) []string {
	if c.had && c.has && retyped(c.old, c.new) {
		return nil
	}
	var harms []string
	if c.has {
		eachLeaf(c.new, func(leaf any) {
			if !w.named(c, leaf) {
				harms = append(harms, fmt.Sprintf("%s: neither error, schema nor input names %s", c.print().Path, encode(leaf)))
			}
		})
	}
	if c.had && (!c.has || nothing(c.new) || !scalar(c.old)) && !w.mayGo(c) {
		harms = append(harms, fmt.Sprintf("%s: of %s something is dropped", c.print().Path, encode(c.old)))
	}
	return harms
}

// named: a value that is put in the place of another must not be one that
// stands for something else still, such as a count that becomes an amount.
func (w *witness) named(c change, leaf any) bool {
	if nothing(leaf) || names(w.error, leaf) || w.inSchema(c.path, leaf) {
		return true
	}
	from, replaces := w.input, c.had && !nothing(c.old)
	if replaces {
		from = slices.Concat(w.gone, leavesOf(c.old))
	}
	return slices.ContainsFunc(from, func(v any) bool {
		return same(v, leaf) || sameDay(v, leaf) || !replaces && names(textOf(v), leaf)
	})
}

// mayGo: what has moved elsewhere, whole or word by word, what says nothing,
// and a parameter that the tool does not have.
func (w *witness) mayGo(c change) bool {
	if len(c.path) == 1 && len(w.params) > 0 && !w.params[c.path[0]] {
		return true
	}
	came := wordsOf(leavesOf(w.came)...)
	return !slices.ContainsFunc(leavesOf(c.old), func(leaf any) bool {
		lost := slices.ContainsFunc(w.gone, func(v any) bool { return same(v, leaf) })
		words := wordsOf(leaf)
		return lost && !nothing(leaf) && (len(words) == 0 || !within(words, came))
	})
}

// inSchema: a listed, default or sample value, a bound, or a word of the
// description of the parameter at the place.
func (w *witness) inSchema(path []string, leaf any) bool {
	name := ""
	for _, p := range slices.Backward(path) {
		if w.params[p] {
			name = p
			break
		}
	}
	found := false
	eachProperty(w.schema, func(k string, at any) {
		found = found || k == name && says(at, leaf)
	})
	return found
}

// eachProperty visits the parameters that a schema declares, at any depth.
func eachProperty(schema any, fn func(name string, at any)) {
	switch x := schema.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if props, ok := x[k].(map[string]any); ok && k == "properties" {
				for _, name := range slices.Sorted(maps.Keys(props)) {
					fn(name, props[name])
				}
			}
			eachProperty(x[k], fn)
		}
	case []any:
		for _, e := range x {
			eachProperty(e, fn)
		}
	}
}

// says: the schema of a parameter, without those of parameters within, has the
// value somewhere in which values stand.
func says(at, leaf any) bool {
	x, ok := at.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range x {
		switch k {
		case "enum", "const", "default", "examples", "example", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems":
			if slices.ContainsFunc(leavesOf(v), func(l any) bool { return same(l, leaf) }) {
				return true
			}
		case "description", "title":
			if s, ok := v.(string); ok && names(s, leaf) {
				return true
			}
		case "items", "anyOf", "oneOf", "allOf":
			parts, ok := v.([]any)
			if !ok {
				parts = []any{v}
			}
			if slices.ContainsFunc(parts, func(p any) bool { return says(p, leaf) }) {
				return true
			}
		}
	}
	return false
}

// retyped: the new value is the old one in another type, or in another
// notation.
func retyped(old, new any) bool {
	if form.Equal(old, new) || scalar(old) && scalar(new) && (same(old, new) || onlyNumberOf(old, new) || sameDay(old, new)) {
		return true
	}
	switch x := old.(type) {
	case string:
		if v, err := form.Decode([]byte(x)); err == nil && !scalar(v) && retyped(v, new) {
			return true
		}
		return listOf(x, new)
	case []any:
		if s, ok := new.(string); ok && listOf(s, old) {
			return true
		}
		return len(x) == 1 && retyped(x[0], new)
	}
	l, ok := new.([]any)
	return ok && len(l) == 1 && retyped(old, l[0])
}

// listOf: the text enumerates the elements of the list, and nothing else.
func listOf(text string, list any) bool {
	l, ok := list.([]any)
	return ok && len(l) > 0 && within(wordsOf(text), wordsOf(leavesOf(l)...)) &&
		!slices.ContainsFunc(leavesOf(l), func(v any) bool { return !names(text, v) })
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func nothing(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(x) == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}
