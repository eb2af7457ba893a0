package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// maxRounds bounds how often an input is mended and checked again; mending one
// thing may show the next.
const maxRounds = 6

// arguments mends an input that was never executed since it breaks the schema.
func arguments(s *sight) *verdict {
	if s.Code != messages.CodeInvalidArguments {
		return nil
	}
	if got := misfit(s); got != nil {
		return got
	}
	guidance := "Change the arguments so that they fit."
	if err := s.schema.Validate(s.Input); err != nil && !s.InputCut {
		guidance = "Change the arguments so that they fit: " + violationsOf(err)
	}
	cause := "the arguments do not fit the schema"
	if s.value == nil { // too long to be looked into
		cause = "the arguments cannot be used"
	}
	return &verdict{cause: cause, severity: messages.Medium, fault: messages.FaultCall, guidance: brief(guidance)}
}

// misfit mends an input that breaks the schema, also where the tool ran and
// complained in its own words.
func misfit(s *sight) *verdict {
	if s.value == nil || s.schema.Trivial() || s.schema.Validate(s.Input) == nil {
		return nil
	}
	if inner, ok := form.Unwrap(s.Tool, s.value); ok {
		v, done := mend(s, inner)
		done = append([]change{{"whole-call", "only the arguments belong there, not the name of the tool"}}, done...)
		if got := s.propose("the arguments were wrapped into a call", v, done); got != nil {
			return got
		}
	}
	v, done := mend(s, s.value)
	return s.propose("the arguments do not fit the schema", v, done)
}

func violationsOf(err error) string {
	e := asSchemaError(err)
	if e == nil {
		return err.Error()
	}
	var parts []string
	for _, v := range e.Violations {
		parts = append(parts, strings.TrimSpace(v.Pointer()+" "+v.Text))
	}
	return strings.Join(parts, "; ")
}

// mend changes a copy of v until it fits the schema or nothing more can be done.
func mend(s *sight, v map[string]any) (map[string]any, []change) {
	v, _ = form.Copy(v).(map[string]any)
	var done []change
	for range maxRounds {
		b, err := form.Encode(v)
		if err != nil {
			return v, done
		}
		e := asSchemaError(s.schema.Validate(b))
		if e == nil {
			return v, done
		}
		before := len(done)
		for _, violation := range e.Violations {
			done = append(done, mendOne(s.schema.Root(), v, violation)...)
		}
		if len(done) == before {
			return v, done
		}
	}
	return v, done
}

func mendOne(root schema.Node, v map[string]any, violation schema.Violation) []change {
	at := root.At(violation.Path)
	switch violation.Keyword {
	case "required":
		return renameAll(v, violation, at)
	case "additionalProperties":
		return renameUnexpected(v, violation, at)
	case "type", "anyOf", "oneOf":
		return replace(v, violation.Path, func(old any) (any, *change) { return coerce(old, at, violation.Path) })
	case "enum", "const":
		return replace(v, violation.Path, func(old any) (any, *change) { return listed(old, at, violation.Path) })
	case "pattern":
		return mendPattern(v, violation)
	case "maximum", "minimum":
		return mendBound(v, violation)
	}
	return nil
}

// mendPattern goes by the pattern that the violation repeats.
func mendPattern(v map[string]any, violation schema.Violation) []change {
	_, quoted, _ := strings.Cut(violation.Text, "does not match pattern ")
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return nil // too long to be repeated whole
	}
	re := smallPattern(text)
	if re == nil {
		return nil
	}
	return rewrite(v, violation.Path, "pattern", func(old string) string { return inPattern(old, re) })
}

// wanted is the bound that the text of a violation ends with.
var wanted = regexp.MustCompile(`, want ` + plainNumber + `$`)

func mendBound(v map[string]any, violation schema.Violation) []change {
	m := wanted.FindStringSubmatch(violation.Text)
	if m == nil || len(violation.Path) == 0 || !asksHowMuch(violation.Path[len(violation.Path)-1], "") {
		return nil
	}
	return clamp(v, violation.Path, m[1])
}

// renameAll gives missing properties the value of the one property that was
// probably meant: near by name, unknown to the schema, and of a fitting type.
func renameAll(v map[string]any, violation schema.Violation, at schema.Node) []change {
	m, ok := find(v, violation.Path).(map[string]any)
	if !ok {
		return nil
	}
	here := paramsOf(at)
	var done []change
	for _, name := range violation.Names {
		if from, ok := here.nearKey(m, name); ok {
			done = append(done, rename(m, from, name, violation.Path))
		}
	}
	if len(done) > 0 {
		done = append(done, here.renameStrangers(m, violation.Path)...)
	}
	return done
}

// renameUnexpected moves a property that the schema refuses to the one that it
// knows and that is not there; one that says nothing is left out.
func renameUnexpected(v map[string]any, violation schema.Violation, at schema.Node) []change {
	m, ok := find(v, violation.Path).(map[string]any)
	if !ok {
		return nil
	}
	here := paramsOf(at)
	var done []change
	for _, k := range violation.Names {
		value, there := m[k]
		if !there {
			continue
		}
		if value == nil {
			delete(m, k)
			done = append(done, change{"parameter-name", fmt.Sprintf("%s is not known, and was null", where(append(slices.Clone(violation.Path), k)))})
			continue
		}
		if to, ok := here.meant(m, k); ok {
			done = append(done, rename(m, k, to, violation.Path))
		}
	}
	return done
}

// find follows a path of a value, nil if there is nothing.
func find(v any, path []string) any {
	for _, t := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[t]
		case []any:
			i := index(t, len(x))
			if i < 0 {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func index(t string, n int) int {
	i := 0
	for _, c := range t {
		if c < '0' || c > '9' || i > n {
			return -1
		}
		i = i*10 + int(c-'0')
	}
	if t == "" || i >= n {
		return -1
	}
	return i
}

// absent is what a replacement returns to take a property away.
type absent struct{}

// replace puts what fn makes of the value at path in its place.
func replace(root map[string]any, path []string, fn func(any) (any, *change)) []change {
	if len(path) == 0 {
		return nil
	}
	last := path[len(path)-1]
	switch parent := find(root, path[:len(path)-1]).(type) {
	case map[string]any:
		old, there := parent[last]
		if !there {
			return nil
		}
		v, c := fn(old)
		if c == nil {
			return nil
		}
		if _, drop := v.(absent); drop {
			delete(parent, last)
		} else {
			parent[last] = v
		}
		return []change{*c}
	case []any:
		i := index(last, len(parent))
		if i < 0 {
			return nil
		}
		v, c := fn(parent[i])
		if _, drop := v.(absent); drop || c == nil {
			return nil
		}
		parent[i] = v
		return []change{*c}
	}
	return nil
}

func where(path []string) string {
	if len(path) == 0 {
		return "the input"
	}
	return "/" + strings.Join(path, "/")
}
