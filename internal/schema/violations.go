package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"mulligan/internal/excerpt"
)

// maxLeaves is for how many places a text is made, of which maxViolations are told.
const maxLeaves = 10 * maxViolations

// violations flattens the library's tree into what a model can act on.
func (s *Schema) violations(err *jsonschema.ValidationError) (list []Violation, more int) {
	leaves := flatten(nil, err)
	slices.SortStableFunc(leaves, func(a, b leaf) int { return comparePaths(a.path(), b.path()) })
	if len(leaves) > maxLeaves {
		more = len(leaves) - maxLeaves
		leaves = leaves[:maxLeaves]
	}
	for _, l := range leaves {
		list = append(list, s.violation(l))
	}
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(comparePaths(a.Path, b.Path), strings.Compare(a.Keyword, b.Keyword), strings.Compare(a.Text, b.Text))
	})
	list = slices.CompactFunc(list, func(a, b Violation) bool {
		return a.Text == b.Text && slices.Equal(a.Path, b.Path)
	})
	if len(list) > maxViolations {
		return list[:maxViolations:maxViolations], more + len(list) - maxViolations
	}
	return list, more
}

// comparePaths orders the elements of an array by their number.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		m, xerr := strconv.Atoi(x)
		n, yerr := strconv.Atoi(y)
		if xerr == nil && yerr == nil && m != n {
			return cmp.Compare(m, n)
		}
		return strings.Compare(x, y)
	})
}

// leaf is one error of the library that has no more detailed ones. Of a value
// that has none of the types of several forms, want are these types.
type leaf struct {
	err  *jsonschema.ValidationError
	got  string
	want []string
}

func (l leaf) path() []string { return l.err.InstanceLocation }

func flatten(dst []leaf, err *jsonschema.ValidationError) []leaf {
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return flattenChoice(dst, err)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return flattenChoice(dst, err)
		}
	}
	if len(err.Causes) == 0 {
		return append(dst, leaf{err: err})
	}
	for _, c := range err.Causes {
		dst = flatten(dst, c)
	}
	return dst
}

// flattenChoice describes a value that fits none of several forms. Forms whose
// JSON type is another one are left out when there is one of the right type:
// what it lacks is what the caller meant.
func flattenChoice(dst []leaf, err *jsonschema.ValidationError) []leaf {
	var wanted []string
	var meant []*jsonschema.ValidationError
	for _, c := range err.Causes {
		if t := typeMismatch(c, err.InstanceLocation); t != nil {
			for _, w := range t.Want {
				if !slices.Contains(wanted, w) {
					wanted = append(wanted, w)
				}
			}
			continue
		}
		meant = append(meant, c)
	}
	if len(meant) == 0 && len(wanted) > 0 {
		got := typeMismatch(err.Causes[0], err.InstanceLocation).Got
		return append(dst, leaf{err: err, got: got, want: wanted})
	}
	for _, c := range meant {
		dst = flatten(dst, c)
	}
	return dst
}

// typeMismatch is the type error that err comes down to, at the place itself.
func typeMismatch(err *jsonschema.ValidationError, at []string) *kind.Type {
	for len(err.Causes) == 1 {
		err = err.Causes[0]
	}
	t, ok := err.ErrorKind.(*kind.Type)
	if !ok || len(err.Causes) > 0 || !slices.Equal(err.InstanceLocation, at) {
		return nil
	}
	return t
}

func (s *Schema) violation(l leaf) Violation {
	v := Violation{Path: slices.Clone(l.path())}
	if l.want != nil {
		v.Keyword, v.Text = "type", excerpt.Of(typeText(l.got, l.want), maxViolationText)
		return v
	}
	if p := l.err.ErrorKind.KeywordPath(); len(p) > 0 {
		v.Keyword = p[0]
	}
	switch k := l.err.ErrorKind.(type) {
	case *kind.Required:
		v.Names = k.Missing
	case *kind.AdditionalProperties:
		v.Names = k.Properties
	}
	v.Text = excerpt.Of(s.violationText(l.err.ErrorKind, v.Path), maxViolationText)
	return v
}

func (s *Schema) violationText(what jsonschema.ErrorKind, path []string) string {
	switch k := what.(type) {
	case *kind.Type:
		return typeText(k.Got, k.Want)
	case *kind.Required:
		return "missing " + propertyList(k.Missing)
	case *kind.AdditionalProperties:
		return s.unexpected(path, k.Properties)
	case *kind.Enum:
		return "must be one of " + valueList(k.Want) + ", not " + value(k.Got)
	case *kind.Const:
		return "must be " + value(k.Want) + ", not " + value(k.Got)
	case *kind.Pattern:
		return value(k.Got) + " does not match pattern " + strconv.Quote(k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.OneOf: // none would have been flattened
		return "fits more than one of the forms of which exactly one must fit"
	case *kind.Not:
		return "has a form that the schema excludes"
	case *kind.Contains:
		return "at least one element must fit what the schema says under contains"
	case *kind.MinContains:
		return fmt.Sprintf("at least %d elements must fit what the schema says under contains, got %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("at most %d elements may fit what the schema says under contains, got %d", k.Want, len(k.Got))
	case *kind.RefCycle:
		return "cannot be checked: the schema refers to itself here without end"
	case *kind.Format:
		var inner *jsonschema.ValidationError
		if errors.As(k.Err, &inner) { // of what costly stands in for
			if first := flatten(nil, inner)[0]; first.want == nil {
				return s.violationText(first.err.ErrorKind, path)
			}
			return "is not allowed here"
		}
		return value(k.Got) + " is not a valid " + k.Want
	}
	return what.LocalizedString(message.NewPrinter(language.English))
}

func typeText(got string, want []string) string {
	return "must be " + joinOr(want) + ", got " + got
}

// unexpected names the properties that there are, as the way out.
func (s *Schema) unexpected(path, names []string) string {
	text := propertyList(names) + " not allowed"
	known := s.Root().At(path).PropertyNames()
	if len(known) == 0 {
		return text
	}
	return text + "; known are " + quoteList(known)
}

func propertyList(names []string) string {
	names = names[:min(len(names), maxNames)] // the text is cut long before
	if len(names) == 1 {
		return "property " + strconv.Quote(names[0])
	}
	return "properties " + quoteList(names)
}

func quoteList(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = strconv.Quote(n)
	}
	return strings.Join(q, ", ")
}

// maxNames bounds a list that becomes text, however short its names are.
const maxNames = maxViolationText

func valueList(vs []any) string {
	q := make([]string, 0, min(len(vs), maxNames))
	for _, v := range vs[:min(len(vs), maxNames)] {
		q = append(q, value(v))
	}
	return strings.Join(q, ", ")
}

func value(v any) string {
	const limit = 80
	switch x := v.(type) {
	case string:
		v = excerpt.Of(x, limit)
	case []any, map[string]any:
		if weight(v) > 64*limit {
			return "what is there" // and too long to repeat
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return excerpt.Of(string(b), limit)
}
