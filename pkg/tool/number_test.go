package tool

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestWholeNumbersAreReadHoweverTheyAreWritten(t *testing.T) {
	type input struct {
		N int64             `json:"n"`
		U uint8             `json:"u,omitempty"`
		F float64           `json:"f,omitempty"`
		S string            `json:"s,omitempty"`
		L []int             `json:"l,omitempty"`
		M map[string]uint64 `json:"m,omitempty"`
	}
	for text, want := range map[string]int64{
		`{"n":5.0}`: 5, `{"n":1e3}`: 1000, `{"n":-2.50E+1}`: -25, `{"n":0.0}`: 0, `{"n":-0e5}`: 0, `{"n":9007199254740993.0}`: 9007199254740993,
		`{"n":9223372036854775807.00}`: 9223372036854775807, `{"n":1200e-2,"u":3.0,"f":1.5,"s":"1.0 and \"2e1\"","l":[1.0,2],"m":{"1e1":1e1}}`: 12,
	} {
		var in input
		if err := decodeInput([]byte(text), &in); err != nil || in.N != want {
			t.Errorf("%s: %d, %v", text, in.N, err)
		}
		if in.S != "" && (in.S != `1.0 and "2e1"` || in.M["1e1"] != 10 || in.F != 1.5 || in.U != 3 || in.L[0] != 1) {
			t.Errorf("%s: %+v", text, in)
		}
	}
	for _, text := range []string{`{"n":0.5}`, `{"n":1e-3}`, `{"n":1e400}`, `{"n":9223372036854775808.0}`, `{"n":1e99999999999999999999}`, `{"u":256.0}`, `{"n":"5.0"}`} {
		if err := decodeInput([]byte(text), new(input)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// Whatever is written anew has the value that it had.
func TestPlainIntegersChangeNoValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.StringMatching(`-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		got := plainInteger(n)
		before, ok := new(big.Rat).SetString(n)
		after, ok2 := new(big.Rat).SetString(got)
		if !ok || !ok2 || before.Cmp(after) != 0 {
			t.Fatalf("%s became %s", n, got)
		}
		text := []byte(`{"a\"1.0":[` + n + `,"` + n + `\\",true]}`)
		if !json.Valid(plainIntegers(text)) {
			t.Fatalf("%s became %s", text, plainIntegers(text))
		}
	})
}
