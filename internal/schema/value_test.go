package schema

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decoded is what encoding/json makes of it.
func decoded(t interface{ Fatal(...any) }, b []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestValueOfIsThatOfTheDecoder(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, ` { } `, ` [ ] `, `null`, `true`, `false`, `0`, ` -1.5e+10 `, `""`, `"a\\"`, `"\\"`, `"\\\""`, `"\ud83d\ude00 \ud83d x"`, `"\u0000"`,
		`{"a":[1,2.50,{"b":null}],"c" : "x,]}" , "a":false}`, "[\t1 ,\r\n2\n]", `{"":{"":[[[]]]},"\"":1}`, `[9007199254740993,1E400,-0]`,
	} {
		if diff := cmp.Diff(decoded(t, []byte(s)), valueOf([]byte(s))); diff != "" {
			t.Errorf("%s: %s", s, diff)
		}
	}
}

func TestValueOfAnything(t *testing.T) {
	leaf := rapid.OneOf(rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	value := rapid.OneOf(leaf, rapid.SliceOfN(leaf, 0, 5).AsAny(), rapid.MapOfN(rapid.String(), rapid.SliceOfN(leaf, 0, 3), 0, 5).AsAny())
	rapid.Check(t, func(t *rapid.T) {
		b, err := json.MarshalIndent(value.Draw(t, "value"), rapid.SampledFrom([]string{"", " "}).Draw(t, "prefix"), rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, b), valueOf(b)); diff != "" {
			t.Errorf("%s: %s", b, diff)
		}
	})
}
