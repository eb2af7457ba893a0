package tool

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
)

type arguments struct {
	Text  string           `json:"text"`
	Count int64            `json:"count"`
	Few   uint8            `json:"few"`
	Share float64          `json:"share"`
	List  []int            `json:"list"`
	Named map[string]int32 `json:"named"`
	Any   any              `json:"any"`
}

// Arguments are read as encoding/json reads them, and where a whole number is
// written otherwise, as that number; else the error names the tool and shows
// little of them.
func FuzzDecodeInput(f *testing.F) {
	for _, s := range []string{
		`{"text":"1e2","count":1e2,"few":2.0,"share":0.1,"list":[1.0e1,-0.0],"named":{"a":3.0},"any":1e400}`, `{"count":1.5}`, `{"count":1e999999999}`, `{"count":9223372036854775808}`, `null`, `[]`, `{"a`,
		`{"few":-0e5}`, `{"text":"\"1.0","count":10000000000000000000000e-20}`, `{"count":-1e0,"text":"` + strings.Repeat("x", 3000) + `"`, `{"count":0.` + strings.Repeat("0", 3000) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var got, plain arguments
		var err error
		fuzztest.Bounded(t, len(input), func() { got = arguments{}; err = decodeInput(input, &got) })
		if err != nil {
			text := argumentError("the tool", input, err).Error()
			if len(text) > 8*maxEcho || !strings.Contains(text, "the tool") {
				t.Fatalf("an error of %d bytes: %.300q", len(text), text)
			}
			return
		}
		if json.Unmarshal(input, &plain) == nil {
			if !reflect.DeepEqual(got, plain) {
				t.Fatalf("%q is %+v, encoding/json has %+v", input, got, plain)
			}
			return
		}
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(input, &raw); err != nil {
			t.Fatalf("%q was taken: %v", input, err)
		}
		for name, have := range map[string]int64{"count": got.Count, "few": int64(got.Few)} {
			if n := string(raw[name]); n != "" && n != "null" && !alsoFolded(raw, name) {
				if want, ok := new(big.Rat).SetString(n); !ok || want.Cmp(new(big.Rat).SetInt64(have)) != 0 {
					t.Fatalf("%s %s became %d", name, n, have)
				}
			}
		}
	})
}

// alsoFolded: encoding/json takes a name in another case for the same.
func alsoFolded(raw map[string]json.RawMessage, name string) bool {
	for k := range raw {
		if k != name && strings.EqualFold(k, name) {
			return true
		}
	}
	return false
}
