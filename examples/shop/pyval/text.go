package pyval

import (
	"strings"
	"unicode"
)

// Text prints v as str() does, which is what an f-string holds.
func Text(v Value) string {
	if s, ok := v.(Str); ok {
		return string(s)
	}
	return Repr(v)
}

// Repr prints v as repr() does, which is how a KeyError names its key.
func Repr(v Value) string {
	return string(appendRepr(nil, v))
}

func appendRepr(out []byte, v Value) []byte {
	switch v := v.(type) {
	case None:
		return append(out, "None"...)
	case Bool:
		if v {
			return append(out, "True"...)
		}
		return append(out, "False"...)
	case Int:
		return v.n.Append(out, 10)
	case Float:
		return append(out, reprFloat(float64(v))...)
	case Str:
		return appendReprStr(out, string(v))
	case *List:
		out = append(out, '[')
		for i, item := range v.Items {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = appendRepr(out, item)
		}
		return append(out, ']')
	case *Dict:
		out = append(out, '{')
		for i, e := range v.entries {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = append(appendReprStr(out, e.key), ": "...)
			out = appendRepr(out, e.value)
		}
		return append(out, '}')
	default:
		return out
	}
}

// appendReprStr quotes s with single quotes, or with double ones if s holds
// single but no double quotes.
func appendReprStr(out []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	out = append(out, quote)
	for len(s) > 0 {
		r, size := nextPoint(s)
		s = s[size:]
		switch {
		case r == rune(quote) || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case unicode.IsPrint(r) && !isSurrogate(r):
			out = appendPoint(out, r)
		case r <= 0xFF:
			out = appendHex(out, 'x', r, 2)
		case r <= 0xFFFF:
			out = appendHex(out, 'u', r, 4)
		default:
			out = appendHex(out, 'U', r, 8)
		}
	}
	return append(out, quote)
}
