package pyval_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mulligan/examples/shop/pyval"
)

func decode(t *testing.T, text string) pyval.Value {
	t.Helper()
	v, err := pyval.Decode([]byte(text))
	if err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return v
}

// What Python prints for json.dumps(json.loads(text)).
func TestDumpsAsPython(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"b":1,"a":[true,false,null],"b":2}`, `{"b": 2, "a": [true, false, null]}`},
		{`[]`, `[]`},
		{`{}`, `{}`},
		{` [ 1 , 2 ] `, `[1, 2]`},
		{`[1.0, 10, 1e5, 1.50, -0.0, -0]`, `[1.0, 10, 100000.0, 1.5, -0.0, 0]`},
		{`[1e16, 1e15, 123456789012345680.0, 0.0001, 0.00001]`, `[1e+16, 1000000000000000.0, 1.2345678901234568e+17, 0.0001, 1e-05]`},
		{`[1e999, -1e999, 1e-999]`, `[Infinity, -Infinity, 0.0]`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`"Zürich 🛗"`, `"Z\u00fcrich \ud83d\uded7"`},
		{`"\ud83d\uded7 \ud83d x \udc00 \ud83d\ud83d\uded7"`, `"\ud83d\uded7 \ud83d x \udc00 \ud83d\ud83d\uded7"`},
		{`"\"\\\/\b\f\n\r\t\u0000\u001f\u007f<>&'"`, `"\"\\/\b\f\n\r\t\u0000\u001f\u007f<>&'"`},
		{"\"\xff\"", `"\ufffd"`},
	} {
		if got := pyval.Dumps(decode(t, c.text)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `[`, `[1,]`, `{"a":1,}`, `{a:1}`, `{'a':1}`, `{"a" 1}`, `{"a":}`, `{1:1}`,
		`01`, `1.`, `.5`, `1e`, `+1`, `-`, `--1`, `1 2`, `nul`, `NaN`, `Infinity`, `tru`, `[1 2]`,
		`"`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", `"a`, `{"a":1`, `//`,
		strings.Repeat("[", 600) + strings.Repeat("]", 600),
		strings.Repeat("9", 4301),
	} {
		if v, err := pyval.Decode([]byte(text)); err == nil {
			t.Errorf("%.40q was read as %s", text, pyval.Dumps(v))
		}
	}
}

func TestDecodeSaysWhere(t *testing.T) {
	_, err := pyval.Decode([]byte(`{"a": [1, x]}`))
	if err == nil || !strings.Contains(err.Error(), "byte 10") {
		t.Errorf("the error names no place: %v", err)
	}
}

// Whatever encoding/json takes is taken, with the same meaning, and nothing
// else is; what is printed reads back as it was.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null]}`, `"\ud83d"`, `[1e5]`, `-0`, "\"\xed\xa0\x80\"", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := pyval.Decode(text)
		var theirs any
		theirErr := json.Unmarshal(text, &theirs)
		if (err == nil) != (theirErr == nil) {
			if strings.Contains(string(text), "e") || strings.Contains(string(text), "E") || len(text) > 400 {
				return // out of range for one of them, or beyond our limits
			}
			t.Fatalf("ours: %v, encoding/json: %v", err, theirErr)
		}
		if err != nil {
			return
		}
		printed := pyval.Dumps(v)
		again, err := pyval.Decode([]byte(printed))
		if strings.Contains(printed, "Infinity") {
			return
		}
		if err != nil || pyval.Dumps(again) != printed {
			t.Fatalf("%s reads back as %v, %v", printed, again, err)
		}
		var back any
		if err := json.Unmarshal([]byte(printed), &back); err != nil || !reflect.DeepEqual(back, theirs) {
			t.Fatalf("%s is %v, encoding/json had %v (%v)", printed, back, theirs, err)
		}
	})
}
