package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Object reads a JSON object whose numbers can be counted with, see [Counted].
func Object(b []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: more text follows the value")
	}
	m, ok := Counted(v).(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return m, nil
}

// Counted gives the numbers of a decoded value types that can be counted with.
// One that these cannot hold becomes a text, so that nothing is rounded.
func Counted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = Counted(x)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = Counted(x)
		}
		return l
	case json.Number:
		if n, err := Number(string(v)); err == nil {
			return n
		}
		return string(v)
	}
	return v
}

// Number reads a number of a text, exactly or not at all; a number is itself.
func Number(x any) (any, error) {
	s, ok := x.(string)
	if !ok {
		switch x.(type) {
		case int, float64:
			return x, nil
		}
		return nil, fmt.Errorf("number of %T", x)
	}
	s = strings.TrimSpace(s)
	if !isNumber(s) {
		return nil, fmt.Errorf("%q is not a number", clip(s))
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) != decimalOf(s) {
		return nil, fmt.Errorf("%q has too many digits", clip(s))
	}
	return f, nil
}

// isNumber says whether s is one as JSON writes it.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// decimal is the amount of a number: its digits, without zeros around them, and
// where the point stands before the first. It is not that of [mulligan/internal/form],
// which knows schemas too: workers link this package, and stay small.
type decimal struct {
	digits string
	point  string // empty for an exponent that no float has
}

func decimalOf(number string) decimal {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	if digits == "" {
		return decimal{"0", "0"}
	}
	e := 0
	if exponent != "" {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil {
			return decimal{digits, ""}
		}
	}
	return decimal{strings.TrimRight(digits, "0"), strconv.Itoa(e + len(whole) - (len(all) - len(digits)))}
}
