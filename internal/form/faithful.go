package form

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Faithful says whether a value that a repair made of a text holds the words
// and numbers of that text, each in its place and in order, and names only what
// the text names: punctuation may come and go, content may not. It is what
// makes the guess of a repairer safe to use.
func Faithful(raw string, repaired any) bool {
	read := unescape(raw)
	if !named(read, repaired) || !written(raw, spaced(read), repaired) {
		return false
	}
	rest, ok := consume(tokens(raw), repaired)
	return ok && len(rest) == 0
}

// written says whether every text of v can be seen to begin and end where v
// says: it stands in the text as a proper JSON string, or in quotes with none
// within that could end it, or bare and without any punctuation.
func written(raw, read string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if !written(raw, read, x) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !written(raw, read, x) {
				return false
			}
		}
	case string:
		if b, err := Encode(v); err == nil && strings.Contains(raw, string(b)) {
			return true
		}
		s := spaced(v)
		for _, q := range []string{`"`, "'"} {
			if strings.Contains(read, q+s+q) && !endsWithin(s, q[0]) {
				return true
			}
		}
		return strings.TrimSpace(s) != "" && !strings.ContainsAny(s, `{}[],:"'`) && !literal(s)
	}
	return true
}

// literal: a bare word that stands for no text in the notation that it is of.
func literal(word string) bool {
	switch strings.ToLower(strings.Trim(word, " +-")) {
	case "nan", "inf", "infinity", "undefined", "nil", "none", "null", "true", "false":
		return true
	}
	return false
}

// endsWithin: a quote in s could as well be the end of a string or the
// beginning of the next.
func endsWithin(s string, quote byte) bool {
	for i := range len(s) {
		if s[i] != quote {
			continue
		}
		before, after := strings.TrimRight(s[:i], " "), strings.TrimLeft(s[i+1:], " ")
		if before == "" || after == "" || strings.IndexByte(`,:}]`, after[0]) >= 0 || strings.IndexByte(`,:{[`, before[len(before)-1]) >= 0 {
			return true
		}
	}
	return false
}

// spaced is s with every white space as a space.
func spaced(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s)
}

// consume takes the tokens of v from the front of ts. Keys may stand in any
// order, since decoding forgets it; each is followed by its own value.
func consume(ts []string, v any) ([]string, bool) {
	switch v := v.(type) {
	case map[string]any:
		return consumeObject(ts, v)
	case []any:
		for _, x := range v {
			rest, ok := consume(ts, x)
			if !ok {
				return nil, false
			}
			ts = rest
		}
		return ts, true
	case string:
		return cutPrefix(ts, tokens(v))
	case json.Number:
		return cutPrefix(ts, []string{v.String()})
	case nil:
		return cutPrefix(ts, []string{"null"})
	}
	return cutPrefix(ts, []string{fmt.Sprint(v)})
}

func consumeObject(ts []string, m map[string]any) ([]string, bool) {
	type member struct {
		key []string
		v   any
	}
	byFirst := map[string][]member{}
	for k, v := range m {
		key, first := tokens(k), ""
		if len(key) > 0 {
			first = key[0]
		}
		byFirst[first] = append(byFirst[first], member{key, v})
	}
	for range m {
		first := ""
		if len(ts) > 0 {
			first = ts[0]
		}
		if len(byFirst[first]) == 0 {
			first = "" // a key of punctuation only
		}
		candidates := byFirst[first]
		slices.SortFunc(candidates, func(a, b member) int { return len(b.key) - len(a.key) })
		found := false
		for i, c := range candidates {
			rest, ok := cutPrefix(ts, c.key)
			if ok {
				rest, ok = consume(rest, c.v)
			}
			if ok {
				ts, found = rest, true
				byFirst[first] = slices.Delete(slices.Clone(candidates), i, i+1)
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return ts, true
}

func cutPrefix(ts, prefix []string) ([]string, bool) {
	if len(ts) < len(prefix) || !slices.Equal(ts[:len(prefix)], prefix) {
		return nil, false
	}
	return ts[len(prefix):], true
}

// named says whether every key of v stands before a colon in the text, so that
// a quote within a string did not become a key.
func named(raw string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if !beforeColon(raw, k) || !named(raw, x) {
				return false
			}
		}
	case []any:
		for _, x := range v {
			if !named(raw, x) {
				return false
			}
		}
	}
	return true
}

func beforeColon(raw, key string) bool {
	key = strings.TrimSpace(unescape(key))
	for {
		i := strings.Index(raw, key)
		if i < 0 || key == "" && raw == "" {
			return false
		}
		raw = raw[i+max(len(key), 1):]
		if strings.HasPrefix(strings.TrimLeft(raw, " \t\r\n\"'"), ":") {
			return true
		}
	}
}

// tokens are the runs of text between the punctuation of JSON, with the
// constants of Python read as those of JSON.
func tokens(s string) []string {
	fields := strings.FieldsFunc(unescape(s), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`{}[]:,"'`+"`", r)
	})
	for i, f := range fields {
		switch strings.ToLower(f) {
		case "true":
			fields[i] = "true"
		case "false":
			fields[i] = "false"
		case "none", "null":
			fields[i] = "null"
		}
	}
	return fields
}

// unescape reads the escapes of JSON strings wherever they stand; those of
// white space and of the backslash become a space.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n', 'r', 't', 'f', 'b', '\\':
			b.WriteByte(' ')
		case 'u':
			if i+4 < len(s) {
				if n, err := strconv.ParseUint(s[i+1:i+5], 16, 32); err == nil {
					b.WriteRune(rune(n))
					i += 4
					continue
				}
			}
			b.WriteByte('u')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
