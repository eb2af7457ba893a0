package expression_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"mulligan/internal/expression"
	"mulligan/internal/fuzztest"
)

// Whatever an operator writes is an error that can be shown, or an expression
// that ends within its bounds for whatever input, and gives the same again.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`tool == "pay" && input.a > 1`, `match(string(input), "(a*)*b")[1] == "a"`, `input["a"]["b"]()`, `any?.x ?? len(tool) / 0`, `number(input.a) > 2 ?? false`,
		`tool matches "x{1,999}{1,99}"`, `[1,2,3][input.a:]`, `{"a": tool}.a`, `1..1000000000`, `let x = 1; x`, `all(input, {# > 1})`, `"` + strings.Repeat("a", 1900) + `" matches "(a|b|c)*d"`,
		`string(string(string(input)))`, `input + input`, `tool + tool + tool + tool`, `input.a ? 1 : "x"`, `-9223372036854775808 / -1`, `2 ** 3 ** 400`, `$env`, `int("9e99")`, `tool[1:2]`,
		`keys(input)`, `round(1e400)`, `min(input.a, "x")`, `trimPrefix(tool, "p")`, strings.Repeat("(", 500), strings.Repeat("!", 1500) + "true", strings.Repeat("-", 1500) + "1",
	} {
		f.Add(text, `{"a":[1,{"b":"aab"}],"n":1e999}`)
	}
	f.Fuzz(func(t *testing.T, text, input string) {
		object, err := expression.Object([]byte(input))
		if err != nil {
			object = map[string]any{"a": input}
		}
		v := env{Tool: input, Any: object, Read: func() (map[string]any, error) { return object, nil }}
		fuzztest.Bounded(t, len(text)+len(input), func() {
			e, err := expression.Compile(text, env{}, expression.Lazy("input", "read_input"))
			if err != nil {
				told(t, err)
				return
			}
			got, err := evaluate(e, v)
			told(t, err)
			again, err2 := evaluate(e, v)
			if (err == nil) != (err2 == nil) || err == nil && fmt.Sprint(got) != fmt.Sprint(again) && !isFunc(got) {
				t.Fatalf("%s gives %v, %v and then %v, %v", text, got, err, again, err2)
			}
		})
	})
}

// told: the compiler shows the line that it cannot read, of at most 2000 bytes.
func told(t *testing.T, err error) {
	t.Helper()
	if err != nil && len(err.Error()) > 3*fuzztest.MaxError {
		t.Fatalf("an error of %d bytes: %.300s", len(err.Error()), err)
	}
}

func isFunc(v any) bool { return v != nil && reflect.TypeOf(v).Kind() == reflect.Func }

func evaluate(e *expression.Expression, v env) (any, error) {
	w := expression.NewWork(1 << 24)
	v.Functions = e.Functions(w)
	return e.Run(v, w)
}

// A number is read exactly, or not at all.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"12", "-0", "1e2", "0.1", "9007199254740993", "1e400", "1e-400", "0e999999999999", "0x10", " 1 ", "1_000", "Inf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := expression.Number(s)
		fuzztest.Told(t, err)
		if err != nil {
			return
		}
		n := json.Number(strings.TrimSpace(s))
		if mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e"); len(exponent) > 5 && strings.Trim(mantissa, "-0.") == "" {
			return // nothing, however many noughts it has, and too many for a fraction
		}
		want, ok := new(big.Rat).SetString(string(n))
		if !ok {
			t.Fatalf("%q is %v", s, got)
		}
		var have *big.Rat
		switch x := got.(type) {
		case int:
			have = new(big.Rat).SetInt64(int64(x))
		case float64:
			have = new(big.Rat).SetFloat64(x)
		}
		// The decimal that a float is shown as stands for it.
		if x, isFloat := got.(float64); isFloat {
			have, _ = new(big.Rat).SetString(fmt.Sprint(x))
		}
		if have == nil || have.Cmp(want) != 0 {
			t.Fatalf("%q is %v", s, got)
		}
	})
}

func TestKeysComeInTheSameOrderEachTime(t *testing.T) {
	many := make(map[string]any)
	for k := range strings.SplitSeq("q w e r t z u i o p a s d f g h j k l y x c v b n m", " ") {
		many[k] = 1
	}
	for text, want := range map[string]any{`keys(any)[0]`: "a", `last(keys(any))`: "z", `len(keys(any))`: 26, `"q" in keys(any)`: true} {
		if got, err := run(t, text, env{Any: many}, 1); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := run(t, `keys(tool)`, env{}, 1); err == nil || !strings.Contains(err.Error(), "keys of string") {
		t.Error(got, err)
	}
}
