package expression_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/expr-lang/expr"

	"mulligan/internal/expression"
)

type env struct {
	expression.Functions
	Tool string                         `expr:"tool"`
	Any  map[string]any                 `expr:"any"`
	Read func() (map[string]any, error) `expr:"read_input"`
}

func run(t *testing.T, text string, v env, steps int) (any, error) {
	t.Helper()
	e, err := expression.Compile(text, env{}, expression.Lazy("input", "read_input"))
	if err != nil {
		t.Fatal(err)
	}
	w := expression.NewWork(steps)
	v.Functions = e.Functions(w)
	return e.Run(v, w)
}

func TestExpressionsSeeTheirEnv(t *testing.T) {
	v := env{Tool: "pay", Any: map[string]any{"n": 3}}
	for text, want := range map[string]any{
		`tool == "pay"`:                     true,
		`any.n + 1`:                         4,
		`any.none`:                          nil,
		`tool matches "^p"`:                 true,
		`match(tool, "(a).")[1]`:            "a",
		`number("12") + number("0.5")`:      12.5,
		`any.n matches "x"`:                 false,
		`lower("ABC") in ["abc"] && !false`: true,
	} {
		if got, err := run(t, text, v, 1<<20); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", text, got, err, want)
		}
	}
}

// What is lazy is asked for where an evaluation comes to it, and its error is
// that of the evaluation.
func TestLazyNamesAreAskedForWhereTheyMatter(t *testing.T) {
	asked := 0
	v := env{Tool: "pay", Read: func() (map[string]any, error) {
		asked++
		return nil, errors.New("it is too large")
	}}
	if got, err := run(t, `tool == "other" && input.amount > 5`, v, 1); err != nil || got != false || asked != 0 {
		t.Error(got, err, asked)
	}
	if _, err := run(t, `tool == "pay" && input.amount > 5`, v, 1); err == nil || !strings.Contains(err.Error(), "too large") || asked != 1 {
		t.Error(err, asked)
	}
	v.Read = func() (map[string]any, error) { return map[string]any{"amount": 6, "input": 1}, nil }
	if got, err := run(t, `input.amount > 5 && input["input"] == 1`, v, 1); err != nil || got != true {
		t.Error(got, err)
	}
}

func TestExpressionsAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "is empty",
		strings.Repeat("1+", 1200) + "1": "2401 bytes long",
		strings.Repeat("1+", 300) + "1":  "node",
		"let x = 1; x == 1":              "let is not available",
		"all([1], # > 0)":                "loops are not available",
		"1 in 1..9":                      "ranges are not available",
		"tool matches any.n":             "must be written out",
		`tool matches "("`:               "missing closing",
		`tool matches "(a{100}){100}"`:   "",
		`tool matches "(a{30}){30}(b{30}){30}(c{30}){30}"`: "instructions",
		`repeat("a", 99999)`: "unknown name repeat",
		`nope == 1`:          "unknown name nope",
		`tool ==`:            "unexpected token",
	} {
		_, err := expression.Compile(text, env{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	long := env{Tool: strings.Repeat("a", 10_000)}
	for _, text := range []string{`tool matches "b$"`, `match(tool, "b$") == nil`} {
		if _, err := run(t, text, long, 1000); err == nil || !strings.Contains(err.Error(), "too much work") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := run(t, `1 % any.n`, env{Any: map[string]any{"n": 0}}, 1); err == nil {
		t.Error("a division by zero has a value")
	}
}

func TestTypesAreChecked(t *testing.T) {
	if _, err := expression.Compile("tool", env{}, expr.AsBool()); err == nil || !strings.Contains(err.Error(), "bool") {
		t.Error(err)
	}
}

func TestUsesNamesWhatIsUsed(t *testing.T) {
	e, err := expression.Compile(`tool == "input"`, env{}, expression.Lazy("input", "read_input"))
	if err != nil || !e.Uses("tool") || e.Uses("read_input") || e.Uses("input") {
		t.Error(e, err)
	}
	e, err = expression.Compile(`input.a == 1`, env{}, expression.Lazy("input", "read_input"))
	if err != nil || !e.Uses("read_input") && !e.Uses("input") {
		t.Error(e, err)
	}
}

// Nothing is rounded: what a number cannot hold stays a text.
func TestNumbersAreExact(t *testing.T) {
	if got, err := expression.Number(" 42 "); got != 42 || err != nil {
		t.Error(got, err)
	}
	for s, want := range map[string]any{"-7": -7, "0.10": 0.1, "1.50e3": 1500.0, "-0.0": math.Copysign(0, -1), "0e99999999999": 0.0, "100000000000000000000": 1e20, "0.000123": 0.000123} {
		if got, err := expression.Number(s); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", s, got, err, want)
		}
	}
	for _, x := range []any{"12345678901234567890123", "one", "1e999", "1e-999", "1e99999999999", "0.1000000000000000055511151231257827", "01", "+1", "0x10", "", " ", "Infinity", "1_0", true, nil} {
		if got, err := expression.Number(x); err == nil {
			t.Errorf("%v is %v", x, got)
		}
	}
}
