package pycalc

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"mulligan/examples/shop/pyval"
)

// Python's tokenizer gives up on parentheses nested deeper than this.
const maxNesting = 200

// token is a number, an operator, or the end of the expression.
type token struct {
	// text is the operator, "number", "..." or "end".
	text  string
	value pyval.Value
	// level counts the parentheses that are open where the token stands.
	level int
}

const (
	tokNumber   = "number"
	tokEllipsis = "..."
	tokEnd      = "end"
)

func failf(format string, args ...any) error {
	return &pyval.Error{Text: fmt.Sprintf(format, args...)}
}

func syntaxError(text string) error { return failf("%s (<string>, line 1)", text) }

// lex cuts an expression into tokens. Python reports what its tokenizer refuses
// before any fault of grammar, even if the latter stands further left.
func lex(s string) ([]token, error) {
	var out []token
	level := 0
	for {
		s = strings.TrimLeft(s, " ")
		if s == "" {
			return append(out, token{text: tokEnd, level: level}), nil
		}
		t, size, err := next(s)
		if err != nil {
			return nil, err
		}
		s = s[size:]
		if level, err = nest(level, t.text); err != nil {
			return nil, err
		}
		t.level = level
		out = append(out, t)
	}
}

func nest(level int, text string) (int, error) {
	switch {
	case text == "(" && level >= maxNesting-1:
		return 0, syntaxError("too many nested parentheses")
	case text == "(":
		return level + 1, nil
	case text == ")" && level == 0:
		return 0, syntaxError("unmatched ')'")
	case text == ")":
		return level - 1, nil
	default:
		return level, nil
	}
}

func next(s string) (token, int, error) {
	if isDigit(s, 0) || s[0] == '.' && isDigit(s, 1) {
		return number(s)
	}
	for _, op := range []string{tokEllipsis, "**", "//"} {
		if strings.HasPrefix(s, op) {
			return token{text: op}, len(op), nil
		}
	}
	return token{text: s[:1]}, 1, nil
}

func number(s string) (token, int, error) {
	whole := digits(s, 0)
	end := whole
	if end < len(s) && s[end] == '.' {
		end = digits(s, end+1)
		// The error can only be a value out of range, which Python reads as an
		// infinity; so does ParseFloat.
		f, _ := strconv.ParseFloat(s[:end], 64)
		return token{text: tokNumber, value: pyval.Float(f)}, end, nil
	}
	if s[0] == '0' && strings.Trim(s[:whole], "0") != "" {
		return token{}, 0, syntaxError("leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers")
	}
	n, ok := new(big.Int).SetString(s[:whole], 10)
	if !ok {
		return token{}, 0, syntaxError("invalid syntax")
	}
	return token{text: tokNumber, value: pyval.BigInt(n)}, whole, nil
}

// digits returns the place after the digits that start at from.
func digits(s string, from int) int {
	for isDigit(s, from) {
		from++
	}
	return from
}

func isDigit(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
