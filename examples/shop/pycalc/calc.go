// Package pycalc answers the shop's calculate tool: the value of an arithmetic
// expression as Python 3.11 evaluates it, as a float rounded to two places, and
// Python's error texts where it has none.
package pycalc

import (
	"mulligan/examples/shop/pyval"
)

// Alphabet holds the characters that an expression may consist of.
const Alphabet = "0123456789+-*/(). "

// MaxLength is the length in bytes from which an expression is refused. Python
// has no such limit; here it bounds what one call may cost.
const MaxLength = 4096

// Calculate returns the printed result of an expression of characters of
// [Alphabet]. The error is what Python raises, as a *pyval.Error.
func Calculate(expression string) (string, error) {
	if len(expression) > MaxLength {
		return "", &pyval.Error{Text: "expression too long"}
	}
	root, err := parse(expression)
	if err != nil {
		return "", err
	}
	v, err := root.eval()
	if err != nil {
		return "", err
	}
	if o, ok := v.(opaque); ok {
		return "", failf("float() argument must be a string or a real number, not '%s'", o)
	}
	f, err := pyval.ToFloat(v.(pyval.Value))
	if err != nil {
		return "", err
	}
	return pyval.Text(pyval.Round2(pyval.Float(f))), nil
}
