package pyval

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

const hexDigits = "0123456789abcdef"

// Dumps prints v as json.dumps does with its defaults: ", " and ": " between
// items, everything beyond ASCII escaped, floats in their shortest form, NaN
// and Infinity as bare words.
func Dumps(v Value) string {
	return string(appendJSON(nil, v))
}

func appendJSON(out []byte, v Value) []byte {
	switch v := v.(type) {
	case None:
		return append(out, "null"...)
	case Bool:
		return strconv.AppendBool(out, bool(v))
	case Int:
		return v.n.Append(out, 10)
	case Float:
		return append(out, jsonFloat(float64(v))...)
	case Str:
		return appendQuoted(out, string(v))
	case *List:
		return appendJSONList(out, v)
	case *Dict:
		return appendJSONDict(out, v)
	default:
		return out
	}
}

func appendJSONList(out []byte, l *List) []byte {
	out = append(out, '[')
	for i, item := range l.Items {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendJSON(out, item)
	}
	return append(out, ']')
}

func appendJSONDict(out []byte, d *Dict) []byte {
	out = append(out, '{')
	for i, e := range d.entries {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = appendQuoted(out, e.key)
		out = append(out, ": "...)
		out = appendJSON(out, e.value)
	}
	return append(out, '}')
}

func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for len(s) > 0 {
		r, size := nextPoint(s)
		s = s[size:]
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r >= 0x20 && r < 0x7F:
			out = append(out, byte(r))
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = appendHex(appendHex(out, 'u', high, 4), 'u', low, 4)
		default:
			out = appendHex(out, 'u', r, 4)
		}
	}
	return append(out, '"')
}

// appendHex appends an escape of one letter and a fixed number of digits.
func appendHex(out []byte, letter byte, r rune, digits int) []byte {
	out = append(out, '\\', letter)
	for i := digits - 1; i >= 0; i-- {
		out = append(out, hexDigits[(r>>(4*i))&0xF])
	}
	return out
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	default:
		return reprFloat(f)
	}
}

// reprFloat prints the shortest digits that read back as f, with an exponent
// below 1e-4 and from 1e16 on, and always with a point or an exponent.
func reprFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
