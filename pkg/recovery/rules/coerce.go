package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mulligan/internal/excerpt"
	"mulligan/internal/form"
	"mulligan/internal/schema"
)

// coerce gives a value the JSON type that its place wants, if nothing is lost
// by it and only one type is possible.
func coerce(old any, at schema.Node, path []string) (any, *change) {
	types := slices.DeleteFunc(at.Types(), func(t string) bool { return t == "null" })
	if slices.Contains(types, "number") { // every integer is a number
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	var found any
	var to string
	for _, t := range types {
		v, ok := as(old, t, at)
		if !ok || !at.Allows(v) && !within(v) {
			continue
		}
		if to != "" {
			return nil, nil
		}
		found, to = v, t
	}
	if l, isList := old.([]any); isList && to == "string" && len(l) > 1 {
		return found, &change{"list-as-text", fmt.Sprintf("%s must be one text, %q", where(path), clip(fmt.Sprint(found)))}
	}
	if to != "" {
		return found, &change{"json-type", fmt.Sprintf("%s must be %s, not %s", where(path), article(to), article(typeOf(old)))}
	}
	if old == nil && len(path) > 0 { // a null that is not allowed says as much as nothing
		return absent{}, &change{"json-type", fmt.Sprintf("%s must not be null", where(path))}
	}
	return nil, nil
}

// within: what is inside may still be mended.
func within(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// as writes a value in another JSON type.
func as(v any, to string, at schema.Node) (any, bool) {
	switch to {
	case "number", "integer":
		if s, ok := v.(string); ok {
			s = strings.TrimSpace(s)
			return json.Number(s), form.IsNumber(s)
		}
	case "boolean":
		if s, ok := v.(string); ok {
			switch strings.ToLower(strings.TrimSpace(s)) {
			case "true":
				return true, true
			case "false":
				return false, true
			}
		}
	case "string":
		switch x := v.(type) {
		case json.Number:
			return x.String(), true
		case bool:
			return fmt.Sprint(x), true
		case []any:
			if t, ok := joined(x, at); ok {
				return t, true
			}
		}
	case "array":
		return asList(v, at)
	case "object":
		if s, ok := v.(string); ok {
			m, err := form.Decode([]byte(s))
			_, isObject := m.(map[string]any)
			return m, err == nil && isObject
		}
	}
	if l, ok := v.([]any); ok && len(l) == 1 && typeOf(l[0]) == to && to != "array" {
		return l[0], true
	}
	return nil, false
}

// asList: JSON in a string, else the one value as a list of one.
func asList(v any, at schema.Node) (any, bool) {
	if s, ok := v.(string); ok {
		l, err := form.Decode([]byte(s))
		if _, isList := l.([]any); err == nil && isList {
			return l, true
		}
	}
	if v == nil || typeOf(v) == "array" {
		return nil, false
	}
	item := at.Item(0)
	if parts, ok := apart(v, item); ok {
		return parts, len(parts) > 0
	}
	if !item.Known() || item.Allows(v) {
		return []any{v}, true
	}
	if x, c := coerce(v, item, []string{"0"}); c != nil {
		return []any{x}, true
	}
	return nil, false
}

// apart takes a text with commas apart, if its parts are words, or values that
// the schema lists. ok says that it has commas: then it is not one element,
// unless somebody says so.
func apart(v any, item schema.Node) (parts []any, ok bool) {
	t, isText := v.(string)
	if !isText || !strings.Contains(t, ",") {
		return nil, false
	}
	parts = enumerated(t)
	words := form.Words(item)
	tight := !strings.Contains(t, " ")
	for _, p := range parts {
		w, _ := p.(string)
		if !item.Allows(p) || !tight && !strings.ContainsAny(w, "0123456789") && !slices.Contains(words, w) {
			return nil, true
		}
	}
	return parts, true
}

// joined writes a list as one text, if the description says by what its
// elements are separated.
func joined(list []any, at schema.Node) (string, bool) {
	mark := separatorOf(at.Description())
	if mark == "" || len(list) < 2 {
		return "", false
	}
	var texts []string
	for _, e := range list {
		t, ok := e.(string)
		if !ok || t == "" || strings.Contains(t, mark) {
			return "", false
		}
		texts = append(texts, t)
	}
	return strings.Join(texts, mark), true
}

// separation is how descriptions say what separates the elements of a text.
var separation = regexp.MustCompile(`(?i)\b(comma|semicolon|pipe)[ -](?:separated|delimited)|\b(?:separated|delimited|joined|split) (?:by|with) (?:an? )?(?:(comma|semicolon|pipe)|['"` + "`" + `(]?([,;|/+])(?:['"` + "`" + `) ]|$))|[用以]([|,;，、])(?:分割|分隔|隔开)`)

func separatorOf(description string) string {
	m := separation.FindStringSubmatch(description)
	if m == nil {
		return ""
	}
	switch word := strings.ToLower(m[1] + m[2]); word {
	case "comma":
		return ","
	case "semicolon":
		return ";"
	case "pipe":
		return "|"
	}
	return m[3] + m[4]
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func article(t string) string {
	switch t {
	case "null":
		return t
	case "integer", "array", "object":
		return "an " + t
	}
	return "a " + t
}

// listed finds the value of a list that was probably meant.
func listed(old any, at schema.Node, path []string) (any, *change) {
	if s, ok := old.(string); ok {
		best, exact, ok := form.Nearest(s, form.Words(at))
		if ok && best != s {
			rule := "enum-nearest"
			if exact {
				rule = "enum-case"
			}
			return best, &change{rule, fmt.Sprintf("%s must be %q, not %q", where(path), best, clip(s))}
		}
	}
	for _, v := range at.Enum() { // the right value in another type
		if v == nil || form.Equal(v, old) {
			continue
		}
		if x, ok := as(old, typeOf(v), at); ok && form.Equal(x, v) {
			return v, &change{"json-type", fmt.Sprintf("%s must be %s, not %s", where(path), article(typeOf(v)), article(typeOf(old)))}
		}
	}
	return nil, nil
}

func clip(s string) string { return excerpt.Of(s, 60) }
