package eval

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mulligan/internal/form"
)

// plain is a text without what notation adds to it: case, blanks, quotes, and
// the marks of an id or a currency around it.
func plain(s string) string { return strings.ToLower(strings.Trim(s, " \t\r\n\"'`#@$€£")) }

// same says whether two scalars are one value in two notations.
func same(a, b any) bool { return keyOf(a) == keyOf(b) }

// keyOf is the same text for the same value.
func keyOf(v any) string {
	if v == nil {
		return ""
	}
	if n, ok := number(v); ok {
		return "=" + n
	}
	return "~" + plain(textOf(v))
}

// number is a scalar that is one, in its one form.
func number(v any) (string, bool) {
	s := plain(textOf(v))
	if !form.IsNumber(s) {
		return "", false
	}
	return form.Canonical(json.Number(s)), true
}

var numbers = regexp.MustCompile(`\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?`)

// names says whether a text holds a value, whole and in some notation.
func names(text string, v any) bool {
	if n, ok := number(v); ok {
		return hasNumber(text, n)
	}
	return hasWord(strings.ToLower(text), plain(textOf(v)))
}

// hasNumber finds a number that is no part of a word.
func hasNumber(text, canonical string) bool {
	for _, m := range numbers.FindAllStringIndex(text, -1) {
		if !apart(text, m[0], m[1]) {
			continue
		}
		digits := strings.ReplaceAll(text[m[0]:m[1]], ",", "")
		if n, ok := number(digits); ok && (n == canonical || m[0] > 0 && text[m[0]-1] == '-' && "-"+n == canonical) {
			return true
		}
	}
	return false
}

// hasWord finds w where it does not go on to either side.
func hasWord(text, w string) bool {
	if w == "" {
		return false
	}
	for at := 0; ; {
		i := strings.Index(text[at:], w)
		if i < 0 {
			return false
		}
		from := at + i
		if apart(text, from, from+len(w)) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[from:])
		at = from + size
	}
}

// apart: the part of a text does not go on as a word to either side.
func apart(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !inWord(before) && !inWord(after)
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}

// wordsOf are the runs of letters and digits of scalars, without their case.
func wordsOf(values ...any) map[string]bool {
	out := make(map[string]bool)
	for _, v := range values {
		for _, w := range strings.FieldsFunc(strings.ToLower(textOf(v)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			out[w] = true
		}
	}
	return out
}

func within(a, b map[string]bool) bool {
	for w := range a {
		if !b[w] {
			return false
		}
	}
	return true
}

// onlyNumberOf: the old text holds one number, and the new value is it: "5
// nights" becomes 5.
func onlyNumberOf(old, new any) bool {
	n, ok := number(new)
	s, text := old.(string)
	if !ok || !text {
		return false
	}
	all := numbers.FindAllString(s, 2)
	if len(all) != 1 {
		return false
	}
	m, ok := number(strings.ReplaceAll(all[0], ",", ""))
	return ok && (m == n && !strings.Contains(s, "-"+all[0]) || "-"+m == n && strings.Contains(s, "-"+all[0]))
}

// days are notations of a day that can be read in one way only.
var days = []string{time.DateOnly, "2006/01/02", "2006-1-2", time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "January 2, 2006", "Jan 2, 2006", "2 January 2006", "2 Jan 2006"}

// sameDay: two texts name one day, one of them perhaps with a time.
func sameDay(a, b any) bool {
	x, ok := day(a)
	if !ok {
		return false
	}
	y, ok := day(b)
	return ok && x == y
}

func day(v any) (string, bool) {
	s, ok := v.(string)
	if !ok {
		return "", false
	}
	for _, layout := range days {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.Format(time.DateOnly), true
		}
	}
	return "", false
}
