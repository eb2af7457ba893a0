package form

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mulligan/internal/schema"
)

// Substance compares an input with a correction of it and returns "" if only
// the form differs, else what else does, for people. at is the schema of the
// input; the zero Node knows nothing. said is the text of the error, which may
// name a parameter that the schema does not.
//
// Form is: a JSON type (also one value for a list of it, and JSON in a
// string), the near-miss name of a parameter that the schema does not know, the
// case of a listed value, a mark or quotes around a value, the notation of a
// date, a null that says nothing. A value, an id, an amount, an order of
// elements, a parameter that appears or goes is substance.
func Substance(old, new any, at schema.Node, said string) string {
	return comparison{said}.differ(old, new, at, "")
}

type comparison struct{ said string }

func (c comparison) differ(old, new any, at schema.Node, where string) string {
	if Equal(old, new) {
		return ""
	}
	switch o := old.(type) {
	case map[string]any:
		if n, ok := new.(map[string]any); ok {
			return c.differObjects(o, n, at, where)
		}
	case []any:
		if n, ok := new.([]any); ok {
			return c.differLists(o, n, at, where)
		}
		if len(o) == 1 && scalar(new) {
			return c.differ(o[0], new, at, where)
		}
	case string:
		if c.sameText(o, new, at) {
			return ""
		}
	case json.Number:
		if s, ok := new.(string); ok && IsNumber(s) && Canonical(o) == Canonical(json.Number(s)) {
			return ""
		}
	case bool:
		if s, ok := new.(string); ok && s == fmt.Sprint(o) {
			return ""
		}
	}
	if l, ok := new.([]any); ok && len(l) == 1 {
		return c.differ(old, l[0], at.Item(0), where)
	}
	if s, ok := new.(string); ok && !scalar(old) {
		if v, err := Decode([]byte(s)); err == nil && Equal(v, old) {
			return ""
		}
	}
	return fmt.Sprintf("%s changes from %s to %s", place(where), show(old), show(new))
}

func (c comparison) differLists(old, new []any, at schema.Node, where string) string {
	if len(old) != len(new) {
		return fmt.Sprintf("%s changes from %d to %d elements", place(where), len(old), len(new))
	}
	for i := range old {
		if s := c.differ(old[i], new[i], at.Item(i), fmt.Sprintf("%s/%d", where, i)); s != "" {
			return s
		}
	}
	return ""
}

func (c comparison) differObjects(old, new map[string]any, at schema.Node, where string) string {
	gone := map[string]any{}
	for k, v := range old {
		if _, kept := new[k]; !kept {
			gone[k] = v
		}
	}
	for k, v := range new {
		if o, ok := old[k]; ok {
			if s := c.differ(o, v, at.Property(k), where+"/"+k); s != "" {
				return s
			}
			continue
		}
		from, ok := c.renamed(gone, k, v, at)
		if ok {
			delete(gone, from)
			continue
		}
		if only := at.Property(k).Enum(); len(only) == 1 && Equal(only[0], v) {
			continue // nothing else could stand here
		}
		return fmt.Sprintf("%s is added", place(where+"/"+k))
	}
	for k, v := range gone {
		if v != nil {
			return fmt.Sprintf("%s is dropped", place(where+"/"+k))
		}
	}
	return ""
}

// renamed finds the one parameter that was moved to name: unknown to the
// schema, near to it, and with the same value. That name is the right one must
// be said by the schema or, where it names no parameters, by the error.
func (c comparison) renamed(gone map[string]any, name string, v any, at schema.Node) (string, bool) {
	if !Has(at, name) && (len(at.PropertyNames()) > 0 || !HasWord(c.said, name)) {
		return "", false
	}
	found := ""
	for k, o := range gone {
		if Has(at, k) || !Near(k, name) || c.differ(o, v, at.Property(name), "") != "" {
			continue
		}
		if found != "" {
			return "", false
		}
		found = k
	}
	return found, found != ""
}

// Has says whether the schema names the property.
func Has(at schema.Node, name string) bool {
	return slices.Contains(at.PropertyNames(), name)
}

func (c comparison) sameText(old string, new any, at schema.Node) bool {
	trimmed := strings.TrimSpace(old)
	switch n := new.(type) {
	case string:
		return sameWord(old, n, at) || Bare(old) == Bare(n) && Bare(n) != "" || sameDate(trimmed, n)
	case json.Number:
		return IsNumber(trimmed) && Canonical(json.Number(trimmed)) == Canonical(n)
	case bool:
		return strings.EqualFold(trimmed, fmt.Sprint(n))
	case nil:
		return strings.EqualFold(trimmed, "null") || trimmed == "None"
	default:
		v, err := Decode([]byte(old))
		return err == nil && !scalar(v) && c.differ(v, new, at, "") == ""
	}
}

// sameWord: a value that the schema lists, in another case or with other marks.
func sameWord(old, new string, at schema.Node) bool {
	if Fold(old) != Fold(new) {
		return false
	}
	best, exact, ok := Nearest(old, Words(at))
	return ok && exact && best == new
}

// Words are the texts that the schema lists at a place.
func Words(at schema.Node) []string {
	var out []string
	for _, v := range at.Enum() {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Bare is s without white space, quotes and the marks that some ids begin
// with. Signs and points stay: they change a number.
func Bare(s string) string { return strings.Trim(s, " \t\r\n\"'`#@") }

// sameDate: one day in two notations, neither of which can be read in two ways.
func sameDate(old, new string) bool {
	const iso = "2006-01-02"
	day, err := time.Parse(iso, new)
	if err != nil {
		return false
	}
	for _, layout := range []string{"2006-1-2", "2006/1/2", "2006.1.2", "January 2, 2006", "January 2 2006", "Jan 2, 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006"} {
		if t, err := time.Parse(layout, old); err == nil {
			return t.Equal(day)
		}
	}
	return false
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func place(where string) string {
	if where == "" {
		return "the input"
	}
	return where
}

func show(v any) string {
	b, err := Encode(v)
	if err != nil {
		return "?"
	}
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "") + "…"
	}
	return string(b)
}
