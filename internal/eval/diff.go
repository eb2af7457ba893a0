package eval

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"mulligan/internal/form"
	"mulligan/pkg/recovery"
)

// Change is one difference between the input that failed and the proposed one.
// From or To is empty where there is nothing.
type Change struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// change is a difference before it is printed.
type change struct {
	path     []string // names and places, from the root
	old, new any
	had, has bool // whether there is an old one, a new one
}

func (c change) print() Change {
	out := Change{Path: strings.Join(append([]string{"input"}, c.path...), ".")}
	if c.had {
		out.From = encode(c.old)
	}
	if c.has {
		out.To = encode(c.new)
	}
	return out
}

func encode(v any) string {
	b, err := form.Encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// compare finds where two values differ, as deep as it can tell. In lists of
// different length it tells which elements came and went.
func compare(path []string, a, b any) []change {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return compareObjects(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return compareLists(path, x, y)
		}
	}
	if form.Equal(a, b) {
		return nil
	}
	return []change{{path: path, old: a, new: b, had: true, has: true}}
}

func compareObjects(path []string, x, y map[string]any) []change {
	names := maps.Clone(x)
	maps.Copy(names, y)
	var out []change
	for _, k := range slices.Sorted(maps.Keys(names)) {
		a, had := x[k]
		b, has := y[k]
		at := under(path, k)
		if had && has {
			out = append(out, compare(at, a, b)...)
		} else {
			out = append(out, change{at, a, b, had, has})
		}
	}
	return out
}

func compareLists(path []string, x, y []any) []change {
	var out []change
	if len(x) == len(y) {
		for i := range x {
			out = append(out, compare(under(path, fmt.Sprint(i)), x[i], y[i])...)
		}
		return out
	}
	for i, a := range lacking(x, y) {
		out = append(out, change{path: under(path, fmt.Sprint(i)), old: a, had: true})
	}
	for i, b := range lacking(y, x) {
		out = append(out, change{path: under(path, fmt.Sprint(i)), new: b, has: true})
	}
	return out
}

// lacking are the elements of x that y does not have, or less often, by their
// place.
func lacking(x, y []any) iter.Seq2[int, any] {
	return func(yield func(int, any) bool) {
		left := make(map[string]int)
		for _, b := range y {
			left[digest(b)]++
		}
		for i, a := range x {
			if d := digest(a); left[d] > 0 {
				left[d]--
			} else if !yield(i, a) {
				return
			}
		}
	}
}

// digest is the same for equal values.
func digest(v any) string { return recovery.Digest("", []byte(encode(v))) }

func under(path []string, k string) []string { return append(slices.Clone(path), k) }

// eachLeaf visits the scalars of a value, those of objects by name.
func eachLeaf(v any, fn func(any)) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			eachLeaf(x[k], fn)
		}
	case []any:
		for _, e := range x {
			eachLeaf(e, fn)
		}
	default:
		fn(v)
	}
}

func leavesOf(v any) []any {
	var out []any
	eachLeaf(v, func(leaf any) { out = append(out, leaf) })
	return out
}

// textOf is a scalar as people write it.
func textOf(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number:
		return x.String()
	}
	return fmt.Sprint(v)
}
