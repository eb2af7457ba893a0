package messages

import (
	"bytes"
	"unicode/utf8"
)

// Bodies as JSON, {"text":"…"}, are most of what a failure and a record are.
// encoding/json goes over what an [json.Unmarshaler] reads five times; here the
// usual form is read and written once, and the rest is left to it.

const textBegins, textEnds = `{"text":"`, `"}`

// appendText writes valid UTF-8 as the JSON of a body, as marshal would.
func appendText(dst, text []byte) []byte {
	dst = append(dst, textBegins...)
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c != 0xe2 {
			i++
			continue
		}
		if c == 0xe2 { // maybe U+2028 or U+2029, which marshal escapes for JavaScript
			if i+2 >= len(text) || text[i+1] != 0x80 || text[i+2]&^1 != 0xa8 {
				i++
				continue
			}
			dst = append(append(dst, text[from:i]...), `\u202`...)
			dst = append(dst, hexDigits[text[i+2]&0xf])
			i += 3
			from = i
			continue
		}
		dst = append(dst, text[from:i]...)
		if e := bytes.IndexByte(escaped, c); e >= 0 {
			dst = append(dst, '\\', escapes[e])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		from = i
	}
	return append(append(dst, text[from:]...), textEnds...)
}

// What has an escape of one letter, and the letters.
var (
	escaped = []byte("\"\\\b\f\n\r\t")
	escapes = []byte(`"\bfnrt`)
)

const hexDigits = "0123456789abcdef"

// plainText reads what appendText writes where no \u is in it. Not ok: a form
// for encoding/json.
func plainText(b []byte) (text []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(textBegins))
	if !ok || !utf8.Valid(b) {
		return nil, false
	}
	if b, ok = bytes.CutSuffix(b, []byte(textEnds)); !ok {
		return nil, false
	}
	text = make([]byte, 0, len(b))
	from := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c < ' ' || c == '"':
			return nil, false
		case c == '\\':
			if i+1 == len(b) {
				return nil, false
			}
			e := bytes.IndexByte(escapes, b[i+1])
			if e < 0 {
				return nil, false
			}
			text = append(append(text, b[from:i]...), escaped[e])
			i++
			from = i + 1
		}
	}
	return append(text, b[from:]...), true
}
