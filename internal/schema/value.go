package schema

import (
	"bytes"
	"encoding/json"
)

// valueOf builds the value of JSON that is known to be valid, with numbers as
// they are written. [json.Decoder] can do so too, and takes twice as long: it
// copies its input, and every call's input is read here.
func valueOf(b []byte) any {
	r := &reading{b}
	return r.value()
}

// reading is what is left to be read.
type reading struct{ rest []byte }

// next is the first character that is not white space; it stays.
func (r *reading) next() byte {
	r.rest = bytes.TrimLeft(r.rest, " \t\r\n")
	return r.rest[0]
}

// skip takes the next character.
func (r *reading) skip() byte {
	c := r.next()
	r.rest = r.rest[1:]
	return c
}

func (r *reading) take(n int) []byte {
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reading) value() any {
	switch r.next() {
	case '{':
		return r.object()
	case '[':
		return r.array()
	case '"':
		return r.text()
	case 't':
		r.take(len("true"))
		return true
	case 'f':
		r.take(len("false"))
		return false
	case 'n':
		r.take(len("null"))
		return nil
	}
	return json.Number(r.number())
}

func (r *reading) number() []byte {
	end := bytes.IndexAny(r.rest, " \t\r\n,]}")
	if end < 0 {
		end = len(r.rest)
	}
	return r.take(end)
}

func (r *reading) object() map[string]any {
	r.skip()
	m := make(map[string]any)
	if r.next() == '}' {
		r.skip()
		return m
	}
	for {
		r.next()
		key := r.text()
		r.skip() // the colon
		m[key] = r.value()
		if r.skip() == '}' {
			return m
		}
	}
}

func (r *reading) array() []any {
	r.skip()
	list := []any{}
	if r.next() == ']' {
		r.skip()
		return list
	}
	for {
		list = append(list, r.value())
		if r.skip() == ']' {
			return list
		}
	}
}

// plainText reads a string that says every character as itself, as most do; of
// another it reads nothing.
func (r *reading) plainText() ([]byte, bool) {
	end := 1 + bytes.IndexByte(r.rest[1:], '"')
	if bytes.IndexByte(r.rest[:end], '\\') >= 0 {
		return nil, false
	}
	return r.take(end + 1)[1:end], true
}

func (r *reading) text() string {
	if text, ok := r.plainText(); ok {
		return string(text)
	}
	for i := 1; ; i++ {
		i += bytes.IndexAny(r.rest[i:], `"\`)
		if r.rest[i] == '\\' {
			i++
			continue
		}
		var s string
		_ = json.Unmarshal(r.take(i+1), &s) // it is valid
		return s
	}
}
