package form

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Relaxed reads an object in the notations that are close to JSON and can be
// read in one way only: the literals of Python and the liberties of JSON5.
// Beyond JSON it takes strings in single quotes, line ends within strings,
// True, False and None, plain names as keys, tuples, and a comma too many. A
// missing comma, colon or quote, a bare word as a value and a key that occurs
// twice are refused: they would be guesses. So are comments, which may say that
// something is not meant yet.
func Relaxed(text string) (map[string]any, bool) {
	r := &relaxed{s: text}
	v, ok := r.value(0)
	r.space()
	m, isObject := v.(map[string]any)
	return m, ok && isObject && r.i == len(r.s)
}

type relaxed struct {
	s string
	i int
}

const maxRelaxedDepth = 200

func (r *relaxed) space() {
	for r.i < len(r.s) && strings.IndexByte(" \t\r\n", r.s[r.i]) >= 0 {
		r.i++
	}
}

func (r *relaxed) next() byte {
	r.space()
	if r.i == len(r.s) {
		return 0
	}
	return r.s[r.i]
}

func (r *relaxed) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.i++
	return true
}

func (r *relaxed) value(depth int) (any, bool) {
	if depth > maxRelaxedDepth {
		return nil, false
	}
	switch c := r.next(); c {
	case '{':
		return r.object(depth)
	case '[':
		return r.list(']', depth)
	case '(':
		l, ok := r.list(')', depth)
		return l, ok && len(l) != 1 // ("x") is "x" in Python, ("x",) is a list
	case '"', '\'':
		return r.text()
	}
	switch w := r.word(); w {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	case "null", "None", "Null", "NULL":
		return nil, true
	default:
		return json.Number(w), IsNumber(w)
	}
}

func (r *relaxed) object(depth int) (map[string]any, bool) {
	r.i++
	m := map[string]any{}
	for !r.take('}') {
		key, ok := r.key()
		if _, twice := m[key]; !ok || twice || !r.take(':') {
			return nil, false
		}
		if m[key], ok = r.value(depth + 1); !ok {
			return nil, false
		}
		if !r.take(',') && r.next() != '}' {
			return nil, false
		}
	}
	return m, true
}

func (r *relaxed) list(end byte, depth int) ([]any, bool) {
	r.i++
	l := []any{}
	for !r.take(end) {
		v, ok := r.value(depth + 1)
		if !ok {
			return nil, false
		}
		l = append(l, v)
		if !r.take(',') && r.next() != end {
			return nil, false
		}
	}
	return l, true
}

func (r *relaxed) key() (string, bool) {
	if c := r.next(); c == '"' || c == '\'' {
		return r.text()
	}
	w := r.word()
	return w, w != "" && isASCII(w) // other quotes than these are letters here
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// word is a run of letters, digits and the marks of numbers.
func (r *relaxed) word() string {
	from := r.i
	for r.i < len(r.s) && (wordByte(r.s[r.i]) || strings.IndexByte("+-.", r.s[r.i]) >= 0) {
		r.i++
	}
	return r.s[from:r.i]
}

// text reads a string up to its quote; the line ends within it are kept.
func (r *relaxed) text() (string, bool) {
	quote := r.s[r.i]
	r.i++
	var b strings.Builder
	for r.i < len(r.s) {
		c := r.s[r.i]
		r.i++
		switch {
		case c == quote:
			return b.String(), utf8.ValidString(b.String())
		case c != '\\':
			b.WriteByte(c)
		default:
			if !r.escape(&b) {
				return "", false
			}
		}
	}
	return "", false
}

func (r *relaxed) escape(b *strings.Builder) bool {
	if r.i == len(r.s) {
		return false
	}
	c := r.s[r.i]
	r.i++
	switch c {
	case '"', '\'', '\\', '/':
		b.WriteByte(c)
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'u':
		return r.unicode(b)
	default:
		return false
	}
	return true
}

// unicode leaves it to encoding/json to read \uXXXX, pairs included.
func (r *relaxed) unicode(b *strings.Builder) bool {
	end := r.i + 4
	if strings.HasPrefix(r.s[min(end, len(r.s)):], `\u`) {
		if hi, err := strconv.ParseUint(r.s[r.i:end], 16, 16); err == nil && hi >= 0xd800 && hi < 0xdc00 {
			end += 6
		}
	}
	if end > len(r.s) {
		return false
	}
	var s string
	if err := json.Unmarshal([]byte(`"\u`+r.s[r.i:end]+`"`), &s); err != nil {
		return false
	}
	b.WriteString(s)
	r.i = end
	return true
}
