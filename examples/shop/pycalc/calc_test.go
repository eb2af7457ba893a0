package pycalc_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mulligan/examples/shop/pycalc"
)

func answer(expression string) string {
	got, err := pycalc.Calculate(expression)
	if err != nil {
		return "Error: " + err.Error()
	}
	return got
}

// The file holds what Python 3.11 answers: sums and products, faults of
// grammar, and values that are no number.
func TestAnswersOfPython(t *testing.T) {
	file, err := os.Open("testdata/python311.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var want struct{ Expression, Answer string }
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		n++
		if got := answer(want.Expression); got != want.Answer {
			t.Errorf("%q: got %q, Python says %q", want.Expression, got, want.Answer)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if n < 400 {
		t.Errorf("only %d expressions were compared", n)
	}
}

func TestCostIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ expression, want string }{
		"too long":       {strings.Repeat("1+", pycalc.MaxLength), "Error: expression too long"},
		"huge power":     {"9**9**9**9", "Error: int too large to convert to float"},
		"huge product":   {"(2**99999)*(2**99999)", "Error: int too large to convert to float"},
		"many signs":     {strings.Repeat("-", pycalc.MaxLength-1) + "1", "-1.0"},
		"deep nesting":   {strings.Repeat("(", 300), "Error: too many nested parentheses (<string>, line 1)"},
		"power of one":   {"(-1)**99999999999999999999", "-1.0"},
		"huge but small": {"10**400//10**399", "10.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(c.expression); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever the expression, there is an answer that a tool can give.
func FuzzCalculate(f *testing.F) {
	for _, s := range []string{"1+1", "2**0.5", "(1 2", "...()", "1//0", "-(*3)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if strings.Trim(expression, pycalc.Alphabet) != "" {
			return
		}
		if got := answer(expression); got == "" {
			t.Errorf("%q has no answer", expression)
		}
	})
}
