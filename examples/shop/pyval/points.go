package pyval

import "unicode/utf8"

// A Python string is a row of code points, lone surrogates among them. A Str
// keeps such a one as the three bytes ED A0..BF 80..BF, which UTF-8 forbids and
// which therefore cannot be taken for something else.

func isSurrogate(r rune) bool { return r >= 0xD800 && r <= 0xDFFF }

// appendPoint appends any code point, lone surrogates included.
func appendPoint(out []byte, r rune) []byte {
	if isSurrogate(r) {
		return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(out, r)
}

// nextPoint returns the first code point of s and its length in bytes.
func nextPoint(s string) (rune, int) {
	if len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
		return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return utf8.DecodeRuneInString(s)
}

// points cuts s into its code points.
func points(s string) []Value {
	out := make([]Value, 0, len(s))
	for len(s) > 0 {
		_, size := nextPoint(s)
		out = append(out, Str(s[:size]))
		s = s[size:]
	}
	return out
}
