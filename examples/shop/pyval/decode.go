package pyval

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of the decoder. Python has the second; the first stands for its
// recursion limit, so that a hostile text cannot exhaust the stack.
const (
	maxDepth     = 500
	maxIntDigits = 4300
)

// Decode reads one JSON text. Keys keep their order; of a repeated key the
// first place and the last value stay. Invalid UTF-8 becomes U+FFFD, an escaped
// lone surrogate stays what it is. An error names the byte where reading
// stopped. Nesting deeper than 500 and integers of more than 4300 digits are
// errors.
func Decode(text []byte) (Value, error) {
	d := decoder{text: text}
	v, err := d.value(0)
	if err == nil {
		d.space()
		if d.pos < len(text) {
			err = errors.New("more text after the JSON value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("JSON, byte %d: %w", d.pos, err)
	}
	return v, nil
}

type decoder struct {
	text []byte
	pos  int
}

func (d *decoder) value(depth int) (Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	d.space()
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		s, err := d.str()
		return Str(s), err
	case c == '-' || isDigit(c):
		return d.number()
	default:
		return d.literal()
	}
}

func (d *decoder) object(depth int) (Value, error) {
	d.pos++
	dict := &Dict{}
	if d.space(); d.take('}') {
		return dict, nil
	}
	for {
		if d.space(); d.peek() != '"' {
			return nil, errors.New("an object key in double quotes is missing")
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.space(); !d.take(':') {
			return nil, errors.New("':' is missing after an object key")
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		dict.Set(key, v)
		d.space()
		switch {
		case d.take(','):
		case d.take('}'):
			return dict, nil
		default:
			return nil, errors.New("',' or '}' is missing in an object")
		}
	}
}

func (d *decoder) array(depth int) (Value, error) {
	d.pos++
	list := &List{Items: []Value{}}
	if d.space(); d.take(']') {
		return list, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
		d.space()
		switch {
		case d.take(','):
		case d.take(']'):
			return list, nil
		default:
			return nil, errors.New("',' or ']' is missing in an array")
		}
	}
}

func (d *decoder) literal() (Value, error) {
	for _, l := range []struct {
		text  string
		value Value
	}{{"true", Bool(true)}, {"false", Bool(false)}, {"null", None{}}} {
		if end := d.pos + len(l.text); end <= len(d.text) && string(d.text[d.pos:end]) == l.text {
			d.pos = end
			return l.value, nil
		}
	}
	return nil, errors.New("a JSON value is missing")
}

func (d *decoder) number() (Value, error) {
	start := d.pos
	d.take('-')
	if !d.take('0') && d.digits() == 0 {
		return nil, errors.New("a digit is missing in a number")
	}
	whole := true
	if d.take('.') {
		whole = false
		if d.digits() == 0 {
			return nil, errors.New("a digit is missing after the point of a number")
		}
	}
	if d.take('e') || d.take('E') {
		whole = false
		if !d.take('+') {
			d.take('-')
		}
		if d.digits() == 0 {
			return nil, errors.New("a digit is missing in the exponent of a number")
		}
	}
	return parseNumber(string(d.text[start:d.pos]), whole)
}

func parseNumber(text string, whole bool) (Value, error) {
	if !whole {
		// The error can only be a value out of range, which Python reads as an
		// infinity or as zero; so does ParseFloat.
		f, _ := strconv.ParseFloat(text, 64)
		return Float(f), nil
	}
	if len(strings.TrimPrefix(text, "-")) > maxIntDigits {
		return nil, fmt.Errorf("an integer of more than %d digits", maxIntDigits)
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, fmt.Errorf("%q is no integer", text)
	}
	return Int{n}, nil
}

func (d *decoder) str() (string, error) {
	d.pos++
	var out []byte
	for {
		if d.pos >= len(d.text) {
			return "", errors.New("a string does not end")
		}
		switch c := d.text[d.pos]; {
		case c == '"':
			d.pos++
			return string(out), nil
		case c == '\\':
			var err error
			if out, err = d.escape(out); err != nil {
				return "", err
			}
		case c < 0x20:
			return "", errors.New("a control character in a string")
		default:
			r, size := utf8.DecodeRune(d.text[d.pos:])
			d.pos += size
			out = utf8.AppendRune(out, r)
		}
	}
}

// escape reads the escape at pos and appends what it stands for.
func (d *decoder) escape(out []byte) ([]byte, error) {
	d.pos++
	c := d.peek()
	d.pos++
	switch c {
	case '"', '\\', '/':
		return append(out, c), nil
	case 'b':
		return append(out, '\b'), nil
	case 'f':
		return append(out, '\f'), nil
	case 'n':
		return append(out, '\n'), nil
	case 'r':
		return append(out, '\r'), nil
	case 't':
		return append(out, '\t'), nil
	case 'u':
		r, ok := d.hex4()
		if !ok {
			return nil, errors.New("four hexadecimal digits are missing after \\u")
		}
		return appendPoint(out, d.pair(r)), nil
	default:
		return nil, errors.New("an unknown escape in a string")
	}
}

// pair joins a high surrogate with the escaped low one that follows it.
func (d *decoder) pair(high rune) rune {
	if high < 0xD800 || high > 0xDBFF || d.peek() != '\\' {
		return high
	}
	back := d.pos
	d.pos++
	if d.take('u') {
		if low, ok := d.hex4(); ok && low >= 0xDC00 && low <= 0xDFFF {
			return utf16.DecodeRune(high, low)
		}
	}
	d.pos = back
	return high
}

func (d *decoder) hex4() (rune, bool) {
	if d.pos+4 > len(d.text) {
		return 0, false
	}
	var r rune
	for _, c := range d.text[d.pos : d.pos+4] {
		digit := hexDigit(c)
		if digit < 0 {
			return 0, false
		}
		r = r<<4 | digit
	}
	d.pos += 4
	return r, true
}

func hexDigit(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	default:
		return -1
	}
}

func (d *decoder) space() {
	for d.pos < len(d.text) {
		switch d.text[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) digits() (n int) {
	for isDigit(d.peek()) {
		d.pos++
		n++
	}
	return n
}

func (d *decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.pos++
	return true
}

// peek returns the byte at pos, and 0 (which JSON never holds) at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.text) {
		return d.text[d.pos]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
