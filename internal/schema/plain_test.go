package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The schemas of most tools are plain, and their inputs are told to fit without
// the library; others are left to it.
func TestPlainSchemas(t *testing.T) {
	order := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","title":"Order","properties":{
		"id":{"type":"string","description":"as printed"},"n":{"type":"integer","default":1},"price":{"type":["number","null"]},
		"how":{"enum":["air","sea"]},"tags":{"type":"array","items":{"type":"string"}},
		"to":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},
		"required":["id","n"],"additionalProperties":false}`
	for _, c := range []struct {
		schema, input string
		plain, fits   bool
	}{
		{order, `{"id":"a","n":1}`, true, true},
		{order, ` { "n" : -3 , "id" : "" , "price" : null , "how":"air", "tags":["x", "y"], "to":{"city":"Bonn","zip":[1,{"a":true}]} } `, true, true},
		{order, `{"id":"a","n":1,"price":1.5e3,"tags":[]}`, true, true},
		{order, `{"id":"a","id":"b","n":2}`, true, true},
		{order, `{"id":"a"}`, false, false},
		{order, `{"id":"a","n":1.5}`, false, false},
		{order, `{"id":"a","n":1.0}`, false, true}, // the library knows that it is whole
		{order, `{"id":"a\n","n":1}`, false, true}, // it reads escapes
		{order, `{"id":"a","\u006e":1}`, false, true},
		{order, `{"id":1,"n":1}`, false, false},
		{order, `{"id":"a","n":1,"more":1}`, false, false},
		{order, `{"id":"a","n":1,"how":"rail"}`, false, false},
		{order, `{"id":"a","n":1,"how":1}`, false, false},
		{order, `{"id":"a","n":1,"tags":["x",1]}`, false, false},
		{order, `{"id":"a","n":1,"to":{}}`, false, false},
		{order, `{"id":"a","n":1,"to":[]}`, false, false},
		{order, `{"id":"a","n":12345678901234567890}`, false, true},
		{order, `{"id":"a","n":1`, false, false},
		{order, `[]`, false, false},
		{order, "{\"id\":\"\xff\",\"n\":1}", false, false},
		{`{"properties":{"a":true}}`, `{"a":[{}],"b":1e9}`, true, true},
		{`{"properties":{"a":{"minLength":2}}}`, `{"a":"xx"}`, false, true},
		{`{"properties":{"a":{"minLength":2}}}`, `{"a":"x"}`, false, false},
		{`{"patternProperties":{"a":false},"additionalProperties":true}`, `{"a":1}`, false, false},
		{`{"additionalProperties":{"type":"string"}}`, `{"a":1}`, false, false},
		{`{"properties":{"a":{"enum":[1]}}}`, `{"a":1}`, false, true},
	} {
		s, err := Compile(json.RawMessage(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.fitsPlainly([]byte(c.input), false); got != c.plain {
			t.Errorf("%s: said at once: %v", c.input, got)
		}
		err = s.Validate([]byte(c.input))
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", c.input, err)
		}
		sameWithoutPlain(t, s, c.input, err)
	}
}

// What is said to fit at once fits by the library too.
func TestPlainSchemasAgreeWithTheLibrary(t *testing.T) {
	names := []string{"a", "b", "c"}
	kinds := []string{"object", "array", "string", "number", "integer", "boolean", "null"}
	var schemaOf func(t *rapid.T, depth int) string
	schemaOf = func(t *rapid.T, depth int) string {
		var parts []string
		add := func(format string, args ...any) {
			if rapid.Bool().Draw(t, "has") {
				parts = append(parts, fmt.Sprintf(format, args...))
			}
		}
		add(`"type":%q`, rapid.SampledFrom(kinds).Draw(t, "type"))
		add(`"required":[%q]`, rapid.SampledFrom(names).Draw(t, "required"))
		add(`"additionalProperties":%v`, rapid.Bool().Draw(t, "open"))
		add(`"minItems":1`)
		if depth > 0 {
			add(`"properties":{%q:%s,"c":%s}`, rapid.SampledFrom(names[:2]).Draw(t, "property"), schemaOf(t, depth-1), schemaOf(t, depth-1))
			add(`"items":%s`, schemaOf(t, depth-1))
		} else {
			add(`"enum":["x","y"]`)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	var valueOf func(t *rapid.T, depth int) string
	valueOf = func(t *rapid.T, depth int) string {
		leaves := []string{`"x"`, `"z"`, `"\u0078"`, "1", "1.0", "-2.5", "1e2", "true", "false", "null", "[]", "{}"}
		if depth == 0 || rapid.Bool().Draw(t, "leaf") {
			return rapid.SampledFrom(leaves).Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "array") {
			return "[" + valueOf(t, depth-1) + ", " + valueOf(t, depth-1) + "]"
		}
		key := func() string { return rapid.SampledFrom(names).Draw(t, "key") }
		return fmt.Sprintf(`{%q:%s,%q: %s}`, key(), valueOf(t, depth-1), key(), valueOf(t, depth-1))
	}
	rapid.Check(t, func(rt *rapid.T) {
		s, err := Compile(json.RawMessage(schemaOf(rt, 2)))
		if err != nil {
			rt.Skip(err.Error())
		}
		input := valueOf(rt, 3)
		if s.fitsPlainly([]byte(input), false) {
			sameWithoutPlain(t, s, input, nil)
		}
	})
}
