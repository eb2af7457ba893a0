package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"mulligan/internal/excerpt"
)

// isComparable says whether a number may be compared exactly. The library turns
// it into a fraction of whole numbers: 1e999999 would become one of a million
// digits, and a larger exponent a nil pointer.
func isComparable(n json.Number) bool {
	const maxDigits, maxExponent = 1000, 1000
	s := string(n)
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	if len(mantissa) > maxDigits {
		return false
	}
	if exponent == "" {
		return true
	}
	e, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	return err == nil && e >= -maxExponent && e <= maxExponent
}

// checkNumbers finds the first number that cannot be compared, in any order.
func checkNumbers(v any) *Violation {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if found := checkNumbers(child); found != nil {
				return found.below(k)
			}
		}
	case []any:
		for i, child := range v {
			if found := checkNumbers(child); found != nil {
				return found.below(strconv.Itoa(i))
			}
		}
	case json.Number:
		if !isComparable(v) {
			return &Violation{Keyword: "number", Text: "the number " + excerpt.Of(v.String(), 40) + " is too large or too long"}
		}
	}
	return nil
}

func (v *Violation) below(token string) *Violation {
	v.Path = append([]string{token}, v.Path...)
	return v
}
