package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
)

// hard are schemas that are small and could cost much.
func hard() []string {
	deep := func(open, inner, shut string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&doubling, `"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"a30":{"type":"string"}}}`)
	var many strings.Builder
	for i := range 4000 {
		many.WriteString(`"p` + strconv.Itoa(i) + `":{},`)
	}
	return []string{
		doubling.String(), deep(`{"properties":{"a":`, `{}`, `}}`, 40), deep(`{"items":`, `{}`, `}`, 99), deep(`{"not":`, `{}`, `}`, 99),
		`{"pattern":"` + strings.Repeat("(a*)*", 200) + `b","properties":{"a":{"pattern":"^(a+)+$"}}}`, `{"properties":{"a":{"pattern":"((a{1,99}){1,99}){1,99}"}}}`,
		`{"properties":{` + many.String() + `"z":{}}}`, `{"enum":[` + strings.Repeat("1,", 20_000) + `{}]}`, `{"properties":{"a":{"multipleOf":1e-999}}}`, `{"minProperties":1e999}`,
		`{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/x"},`, 500) + `{}],"$defs":{"x":{"anyOf":[` + strings.Repeat(`{"required":["q"]},`, 500) + `{}]}}}`,
		`{"properties":{"a":{"uniqueItems":true}}}`, `{"$dynamicRef":"#m","$dynamicAnchor":"m"}`, `{"$ref":"file:///etc/passwd"}`, `{"$schema":"http://127.0.0.1:1/x"}`, `{"$id":"http://x/","$ref":"y"}`,
	}
}

// FuzzCompile: a schema is refused in a text that can be shown, or what it
// says of an input can be followed: each place that is named is in the input,
// and the same is said again.
func FuzzCompile(f *testing.F) {
	inputs := []string{`{"a":"` + strings.Repeat("a", 10_000) + `!"}`, `{"a":[` + strings.Repeat(`{"a":[1]},`, 3000) + `1]}`, strings.Repeat(`{"a":`, 3000) + `1` + strings.Repeat(`}`, 3000), `{`}
	for i, s := range hard() {
		f.Add(s, inputs[i%len(inputs)])
	}
	f.Fuzz(func(t *testing.T, schema, input string) {
		var s *Schema
		var err error
		fuzztest.Bounded(t, len(schema), func() { s, err = Compile(json.RawMessage(schema)) })
		if err != nil {
			if len(err.Error()) > 32<<10 {
				t.Fatalf("an error of %d bytes: %.300s", len(err.Error()), err)
			}
			return
		}
		fuzztest.Bounded(t, len(schema)+len(input), func() { err = s.Validate([]byte(input)) })
		sameWithoutPlain(t, s, input, err)
		var misfit *Error
		if err != nil && !errors.As(err, &misfit) {
			t.Fatalf("%T: %v", err, err)
		}
		if err == nil {
			if v, err := decode([]byte(input)); err != nil || typeName(v) != "an object" {
				t.Fatalf("%.100q fits, and is no object", input)
			}
			return
		}
		places(t, input, misfit)
		if again := s.Validate([]byte(input)); again == nil || again.Error() != err.Error() && !misfit.Stopped && misfit.More == 0 {
			t.Fatalf("said first\n%v\nand then\n%v", err, again)
		}
	})
}

// sameWithoutPlain checks that the library says the same of an input.
func sameWithoutPlain(t *testing.T, s *Schema, input string, said error) {
	t.Helper()
	library := &Schema{source: s.source, compiled: s.compiled}
	if err := library.Validate([]byte(input)); said == nil && err != nil {
		t.Fatalf("%.200q fits %.300s, and the library says: %v", input, s.source, err)
	}
}

// places checks that every violation is about a value of the input.
func places(t *testing.T, input string, e *Error) {
	t.Helper()
	for _, v := range e.Violations {
		at, err := decode([]byte(input))
		for _, step := range v.Path {
			switch x := at.(type) {
			case map[string]any:
				inner, there := x[step]
				if !there {
					err = errors.New("there is none")
				}
				at = inner
			case []any:
				i, aerr := strconv.Atoi(step)
				if aerr != nil || i < 0 || i >= len(x) {
					t.Fatalf("%s of a list of %d", v.Pointer(), len(x))
				}
				at = x[i]
			default:
				err = errors.New("there is none")
			}
		}
		if err != nil || v.Text == "" {
			t.Fatalf("%q: %q, %v", v.Pointer(), v.Text, err)
		}
	}
}
