package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strings"
)

var errTrailing = errors.New("more text follows the JSON value")

// Decode reads one JSON value and keeps its numbers as written.
func Decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	return v, nil
}

// Encode writes a value of Decode: keys sorted, nothing escaped for HTML,
// numbers as they were read.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// Copy is a value of Decode that shares nothing with v.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = Copy(x)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = Copy(x)
		}
		return l
	}
	return v
}

// Canonical writes a number so that equal ones are equal texts, whatever their
// size: an integer without leading or trailing zeros, and a power of ten.
// Nothing is rounded. 1.0, 1 and 10e-1 are "1"; 100 is "1e2".
func Canonical(n json.Number) string {
	s := string(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], strings.TrimPrefix(s[i+1:], "+")
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	power := new(big.Int)
	if exponent != "" {
		if len(exponent) > 400 { // beyond what any number needs; keep it as text
			return string(n)
		}
		power.SetString(exponent, 10)
	}
	power.Sub(power, big.NewInt(int64(len(fraction))))
	short := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(short))))
	if power.Sign() == 0 {
		return sign + short
	}
	return sign + short + "e" + power.String()
}

// IsNumber says whether s, as it is, is a number of JSON: no sign +, no
// leading zeros, no separators.
func IsNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return json.Valid([]byte(s))
}

// Equal compares values of Decode; numbers by their worth.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, x := range a {
			y, ok := b[k]
			if !ok || !Equal(x, y) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && Canonical(a) == Canonical(b)
	}
	return a == b
}
