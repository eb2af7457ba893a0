package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mulligan/internal/form"
)

// lengths pairs lists that belong together and differ in length, where what is
// too much says nothing, or where several elements were written as one text.
// Which element is missing, or which is one too many, nobody can tell.
func lengths(s *sight) *verdict {
	if !lengthsDiffer.in(s.text) {
		return nil
	}
	guidance := "Pair the elements: one for each, in the same order."
	lists := listsOf(s.value)
	if len(lists) == 2 {
		a, b := lists[0], lists[1]
		if v, done := pair(s.value, a, b); len(done) > 0 {
			if got := s.propose("lists that belong together differ in length", v, done); got != nil {
				return got
			}
		}
		if len(a.list) != len(b.list) {
			guidance = fmt.Sprintf("%s has %d and %s has %d elements. %s", where(a.path), len(a.list), where(b.path), len(b.list), guidance)
		}
	}
	return hopeless("lists that belong together differ in length", guidance)
}

type listAt struct {
	path []string
	list []any
}

// listsOf are the lists of scalars at the top of an input.
func listsOf(v map[string]any) []listAt {
	var out []listAt
	for _, k := range sortedKeys(v) {
		if l, ok := v[k].([]any); ok && !slices.ContainsFunc(l, within) {
			out = append(out, listAt{[]string{k}, l})
		}
	}
	return out
}

func pair(v map[string]any, a, b listAt) (map[string]any, []change) {
	fixed, _ := form.Copy(v).(map[string]any)
	x, y := tidy(a.list), tidy(b.list)
	if len(a.list) == len(b.list) || len(x) != len(y) || len(x) == 0 {
		return nil, nil
	}
	var done []change
	for _, l := range []struct {
		listAt
		tidied []any
	}{{a, x}, {b, y}} {
		if len(l.list) != len(l.tidied) {
			fixed[l.path[0]] = l.tidied
			done = append(done, change{"lengths", fmt.Sprintf("%s has %s elements, not %d", where(l.path), strconv.Itoa(len(l.tidied)), len(l.list))})
		}
	}
	return fixed, done
}

// tidy leaves out what says nothing, and takes a text apart that enumerates.
func tidy(list []any) []any {
	if len(list) == 1 {
		if parts := enumerated(list[0]); parts != nil {
			return parts
		}
	}
	var out []any
	for _, e := range list {
		if t, ok := e.(string); e == nil || ok && strings.TrimSpace(t) == "" {
			continue
		}
		out = append(out, e)
	}
	return out
}

// enumerated are the parts of a text that is a list: in JSON, or of words
// between commas. nil if it is none.
func enumerated(v any) []any {
	t, ok := v.(string)
	if !ok || len(t) > maxEnumerated {
		return nil
	}
	if got, err := form.Decode([]byte(t)); err == nil {
		l, _ := got.([]any)
		return l
	}
	var out []any
	for part := range strings.SplitSeq(t, ",") {
		part = strings.TrimSpace(part)
		if !wordOnly(part) {
			return nil
		}
		out = append(out, part)
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

const maxEnumerated = 4 << 10 // bytes of a text that is taken apart

func wordOnly(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`()[]{}<>|;", r) })
}
