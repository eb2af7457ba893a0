package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"mulligan/internal/form"
)

// Digest identifies a tool with an input, so that a correction which was tried
// before is found (S3.6): the SHA-256, in hexadecimal, of the tool's name and
// the input in its canonical form. Inputs that differ only in the order of keys,
// in white space or in how a number is written have one digest; numbers are
// never rounded. An input that is not JSON is taken byte for byte.
func Digest(tool string, input []byte) string {
	h := sha256.New()
	h.Write([]byte(strconv.Quote(tool))) // quoted, so that no name runs into the input
	if v, err := form.Decode(input); err == nil {
		if b, err := form.Encode(canonical(v)); err == nil {
			h.Write([]byte{'='})
			h.Write(b)
			return hex.EncodeToString(h.Sum(nil))
		}
	}
	h.Write([]byte{'~'})
	h.Write(input)
	return hex.EncodeToString(h.Sum(nil))
}

// number is a number in its one form; a type of its own, since not all of
// these are JSON.
type number string

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = canonical(x)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = canonical(x)
		}
		return l
	case json.Number:
		return number(form.Canonical(v))
	}
	return v
}
