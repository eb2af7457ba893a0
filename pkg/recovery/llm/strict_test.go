package llm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/recovery/llm"
)

func TestStrictify(t *testing.T) {
	obj := func(props string, more string) string {
		return `{"type":"object","properties":{` + props + `}` + more + `}`
	}
	strict := func(props, required string) string {
		return `{"additionalProperties":false,"properties":{` + props + `},"required":[` + required + `],"type":"object"}`
	}
	for name, c := range map[string]struct{ schema, want string }{
		"required":             {obj(`"a":{"type":"string","minLength":3,"pattern":"^x","description":"d"}`, `,"required":["a"]`), strict(`"a":{"type":"string"}`, `"a"`)},
		"optional":             {obj(`"a":{"type":"integer","minimum":3}`, ``), strict(`"a":{"type":["integer","null"]}`, `"a"`)},
		"optional list":        {obj(`"a":{"type":"array","items":{"type":"string"}}`, ``), strict(`"a":{"anyOf":[{"items":{"type":"string"},"type":"array"},{"type":"null"}]}`, `"a"`)},
		"optional enum":        {obj(`"a":{"enum":["x",1,2]}`, ``), strict(`"a":{"anyOf":[{"enum":["x"],"type":"string"},{"enum":[1,2],"type":"number"},{"type":"null"}]}`, `"a"`)},
		"nullable, required":   {obj(`"a":{"type":["string","null"]}`, `,"required":["a"]`), strict(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, `"a"`)},
		"null by default":      {obj(`"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}`, ``), strict(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, `"a"`)},
		"a reference":          {obj(`"a":{"$ref":"#/$defs/x"}`, `,"required":["a"],"$defs":{"x":{"type":"boolean"}}`), strict(`"a":{"type":"boolean"}`, `"a"`)},
		"allOf of one":         {obj(`"a":{"allOf":[{"type":"number"}]}`, `,"required":["a"]`), strict(`"a":{"type":"number"}`, `"a"`)},
		"keys go together":     {obj(`"a":{"type":"string"}`, `,"anyOf":[{"required":["a"]}]`), strict(`"a":{"type":["string","null"]}`, `"a"`)},
		"nothing":              {`{"type":"object","additionalProperties":false}`, strict(``, ``)},
		"no type at the root":  {`{"properties":{"a":{"const":"x"}},"required":["a"]}`, strict(`"a":{"enum":["x"],"type":"string"}`, `"a"`)},
		"nullable and absent":  {obj(`"a":{"type":["string","null"]}`, ``), ""},
		"open":                 {obj(`"a":{"type":"string"}`, `,"additionalProperties":true`), ""},
		"a map":                {`{"type":"object","additionalProperties":{"type":"string"}}`, ""},
		"free":                 {`{"type":"object"}`, ""},
		"anything":             {obj(`"a":{}`, ``), ""},
		"anything, in short":   {obj(`"a":true`, ``), ""},
		"names by pattern":     {obj(`"a":{"type":"string"}`, `,"patternProperties":{"^x":{"type":"string"}}`), ""},
		"a tuple":              {obj(`"a":{"type":"array","prefixItems":[{"type":"string"}]}`, ``), ""},
		"an old tuple":         {obj(`"a":{"type":"array","items":[{"type":"string"}]}`, ``), ""},
		"a list of anything":   {obj(`"a":{"type":"array"}`, ``), ""},
		"two kinds of objects": {obj(`"a":{"oneOf":[`+obj(`"x":{"type":"string"}`, ``)+`,`+obj(`"y":{"type":"string"}`, ``)+`]}`, ``), ""},
		"conditions":           {obj(`"a":{"type":"string"}`, `,"if":{"required":["a"]},"then":{"required":["b"]}`), ""},
		"a keyword of later":   {obj(`"a":{"type":"string"}`, `,"unevaluatedProperties":false`), ""},
		"without end":          {obj(`"a":{"$ref":"#"}`, ``), ""},
		"recursion":            {obj(`"a":{"$ref":"#/$defs/x"}`, `,"$defs":{"x":{"type":"object","properties":{"b":{"$ref":"#/$defs/x"}}}}`), ""},
		"a missing reference":  {obj(`"a":{"$ref":"#/$defs/y"}`, ``), ""},
		"elsewhere":            {obj(`"a":{"$ref":"http://x/y"}`, ``), ""},
		"required, not named":  {obj(`"a":{"type":"string"}`, `,"required":["b"]`), ""},
		"no object":            {`{"type":"string"}`, ""},
		"no JSON":              {`{`, ""},
		"none":                 {``, ""},
	} {
		got, ok := llm.Strictify(json.RawMessage(c.schema))
		if ok != (c.want != "") || ok && string(got) != c.want {
			t.Errorf("%s: %s, %v", name, got, ok)
		}
	}
}

func TestStrip(t *testing.T) {
	const s = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["string","null"]},"c":{"anyOf":[{"type":"null"},{"type":"object","properties":{"d":{"type":"string"}}}]},
		"e":{"type":"array","items":{"type":"object","properties":{"f":{"type":"string"}}}}},"required":["b","c"]}`
	for instance, want := range map[string]string{
		`{"a":null,"b":null,"c":null,"e":null}`:                `{"b":null,"c":null}`,
		`{"a":"x","b":"y","c":{"d":null},"e":[{"f":null},{}]}`: `{"a":"x","b":"y","c":{},"e":[{},{}]}`,
		`{"unknown":null,"n":9007199254740993,"e":[null,1]}`:   `{"e":[null,1],"n":9007199254740993,"unknown":null}`,
		`[{"a":null}]`: `[{"a":null}]`,
		`null`:         `null`,
	} {
		got, err := llm.Strip(json.RawMessage(s), json.RawMessage(instance))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", instance, got, err)
		}
	}
	if _, err := llm.Strip(json.RawMessage(s), json.RawMessage(`{`)); err == nil {
		t.Error("what is not JSON was read")
	}
	if got, err := llm.Strip(json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"a":null}`)); err != nil || string(got) != `{"a":null}` {
		t.Errorf("%s, %v", got, err)
	}
}

// sample is a schema, a value that fits it, and that value as a strict schema
// wants it.
type sample struct{ schema, value, strict any }

func drawSample(t *rapid.T, depth int) sample {
	kinds := []string{"string", "integer", "number", "boolean", "enum", "nullable", "ref"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "either")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "object":
		return drawObject(t, depth)
	case "array":
		item := drawSample(t, depth-1)
		n := rapid.IntRange(0, 2).Draw(t, "elements")
		values, stricts := []any{}, []any{}
		for range n {
			values, stricts = append(values, item.value), append(stricts, item.strict)
		}
		return sample{map[string]any{"type": "array", "items": item.schema, "maxItems": 5}, values, stricts}
	case "either":
		o := drawObject(t, depth-1)
		return sample{map[string]any{"anyOf": []any{map[string]any{"type": "string"}, o.schema, map[string]any{"type": "array", "items": map[string]any{"type": "integer"}}}}, o.value, o.strict}
	case "nullable":
		return sample{map[string]any{"type": []any{"string", "null"}}, nil, nil}
	case "enum":
		return sample{map[string]any{"enum": []any{"x", 7.0, true}}, 7.0, 7.0}
	case "ref":
		return sample{map[string]any{"$ref": "#/$defs/text"}, "t", "t"}
	case "integer":
		return sample{map[string]any{"type": kind, "minimum": 1}, 5.0, 5.0}
	case "number":
		return sample{map[string]any{"type": kind}, 2.5, 2.5}
	case "boolean":
		return sample{map[string]any{"type": kind, "default": false}, true, true}
	}
	return sample{map[string]any{"type": "string", "minLength": 1, "description": "d"}, "s", "s"}
}

func drawObject(t *rapid.T, depth int) sample {
	props, value, strict := map[string]any{}, map[string]any{}, map[string]any{}
	required := []any{}
	for i := range rapid.IntRange(0, 3).Draw(t, "properties") {
		key := fmt.Sprintf("p%d", i)
		inner := drawSample(t, max(depth-1, 0))
		props[key] = inner.schema
		_, nullable := inner.schema.(map[string]any)["type"].([]any)
		switch {
		case nullable || rapid.Bool().Draw(t, "required"):
			required = append(required, key)
			value[key], strict[key] = inner.value, inner.strict
		case rapid.Bool().Draw(t, "there"):
			value[key], strict[key] = inner.value, inner.strict
		default:
			strict[key] = nil
		}
	}
	s := map[string]any{"type": "object", "properties": props, "required": required}
	if rapid.Bool().Draw(t, "closed") {
		s["additionalProperties"] = false
	}
	return sample{s, value, strict}
}

// What the schema of a tool allows, the strict one can say, and stripped it is
// the same again.
func TestStrictifyLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawObject(t, 3)
		s.schema.(map[string]any)["$defs"] = map[string]any{"text": map[string]any{"type": "string"}}
		raw := json.RawMessage(encode(s.schema))
		strict, ok := llm.Strictify(raw)
		if !ok {
			t.Fatalf("cannot be made strict: %s", raw)
		}
		onlyStrict(t, strict)
		for _, v := range []struct {
			schema json.RawMessage
			value  any
		}{{raw, s.value}, {strict, s.strict}} {
			c, err := schema.Compile(v.schema)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Validate([]byte(encode(v.value))); err != nil {
				t.Fatalf("%s does not fit %s: %v", encode(v.value), v.schema, err)
			}
		}
		got, err := llm.Strip(raw, json.RawMessage(encode(s.strict)))
		if err != nil || !equalJSON(string(got), encode(s.value)) {
			t.Fatalf("%s of %s, want %s, schema %s", got, encode(s.strict), encode(s.value), raw)
		}
	})
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// onlyStrict: every object is closed and requires its keys, and no keyword is
// used that endpoints refuse.
func onlyStrict(t fataler, raw json.RawMessage) {
	t.Helper()
	v, err := form.Decode(raw)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var check func(v any)
	check = func(v any) {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("a place that is no schema: %v in %s", v, raw)
		}
		for k := range m {
			if !slices.Contains([]string{"type", "enum", "properties", "required", "additionalProperties", "items", "anyOf"}, k) {
				t.Fatalf("keyword %s in %s", k, raw)
			}
		}
		if list, ok := m["anyOf"].([]any); ok {
			for _, b := range list {
				check(b)
			}
			return
		}
		if m["type"] == "array" {
			check(m["items"])
		}
		if m["type"] != "object" {
			return
		}
		props := m["properties"].(map[string]any)
		var names []any
		for _, k := range slices.Sorted(maps.Keys(props)) {
			names = append(names, k)
			check(props[k])
		}
		if m["additionalProperties"] != false || !slices.Equal(names, m["required"].([]any)) {
			t.Fatalf("an open object, or a key that may be left out: %s", raw)
		}
	}
	check(v)
}

func FuzzStrictify(f *testing.F) {
	for _, s := range []string{flights, `{}`, `{"type":["object","null"],"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"properties":{"a":{"const":null},"b":{"enum":[[]]}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{"type":"object","properties":{}}},{"type":"null"}]}}}`} {
		f.Add([]byte(s), []byte(`{"a":null,"to":null,"x":[{"a":null}]}`))
	}
	f.Fuzz(func(t *testing.T, raw, instance []byte) {
		strict, ok := llm.Strictify(raw)
		if ok {
			onlyStrict(t, strict)
		}
		got, err := llm.Strip(raw, instance)
		if err != nil {
			return
		}
		twice, err := llm.Strip(raw, got)
		if err != nil || string(twice) != string(got) {
			t.Fatalf("%s became %s, %v", got, twice, err)
		}
	})
}
