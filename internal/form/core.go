package form

import (
	"regexp"
	"strings"
	"unicode"
)

// afterword is what may follow an object without saying anything: the end of a
// fence or a tag, brackets too many.
var afterword = regexp.MustCompile("^[\\s`;,)\\]}]*(?:<[/|][A-Za-z_|]{1,20}>[\\s`]*)*$")

// Core is the part of a text that is to be a JSON object: from its first brace
// to its last, without a foreword, a fence or a tag. ok is false when there is
// none, when something else is said after it, or when what follows the first
// brace was not written to its end.
func Core(text string) (core string, ok bool) {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from || !afterword.MatchString(strings.TrimSpace(text[to+1:])) {
		return "", false
	}
	core = text[from : to+1]
	return core, complete(core)
}

// complete says whether a text was written to its end, as one object: every
// bracket and string that was opened is closed, and nothing was opened after
// that, except after an empty object, which some streams begin with. Where it
// is not, something may have been lost or added, and no repair can know what.
func complete(s string) bool {
	depth, quote, closed := 0, rune(0), false
	before := rune('{') // the last rune that is no space
	rs := []rune(s)
	for i := 0; i < len(rs); i++ {
		r := rs[i]
		switch {
		case quote != 0 && r == '\\':
			i++
			before = r
			continue
		case quote != 0:
			if r == quote && ends(rs, i+1) {
				quote = 0
			}
		case (r == '"' || r == '\'') && strings.ContainsRune("{[(,:", before):
			quote = r
		case r == '{' || r == '[':
			if closed {
				return false
			}
			depth++
		case r == '}' || r == ']':
			depth--
			closed = closed || depth == 0 && before != '{'
		}
		if !unicode.IsSpace(r) {
			before = r
		}
	}
	return quote == 0 && depth <= 0
}

// ends says whether a quote before rs[i:] can be the end of a string.
func ends(rs []rune, i int) bool {
	for ; i < len(rs); i++ {
		if !unicode.IsSpace(rs[i]) {
			return strings.ContainsRune(",:}])", rs[i])
		}
	}
	return true
}

// Unwrap takes the arguments out of a whole call that was written where only
// its arguments belong: {"name": tool, "arguments": {…}}. The name must be the
// tool's own.
func Unwrap(tool string, v any) (map[string]any, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 2 {
		return nil, false
	}
	var inner any
	named := false
	for k, x := range m {
		switch Fold(k) {
		case "name", "tool", "toolname", "function":
			named = x == tool
		case "arguments", "args", "parameters", "input", "toolinput":
			inner = x
		}
	}
	if s, ok := inner.(string); ok {
		inner, _ = Decode([]byte(s))
	}
	args, ok := inner.(map[string]any)
	return args, ok && named
}
