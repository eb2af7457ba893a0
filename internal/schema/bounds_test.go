package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// within fails when fn takes longer than any bound of this package lets it; the
// unbounded work would take years, or more memory than there is.
func within(t *testing.T, name string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is still at work after %v", name, time.Since(begun))
	}
}

// fan is a chain of definitions each of which refers to the next n times.
func fan(keyword string, links, n int, last string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range links {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"},`, i+1)
		fmt.Fprintf(&b, `"d%d":{%q:[%s]},`, i, keyword, strings.TrimSuffix(strings.Repeat(next, n), ","))
	}
	fmt.Fprintf(&b, `"d%d":%s}}`, links, last)
	return b.String()
}

func TestSchemaThatIsTooMuchWorkIsRefused(t *testing.T) {
	for name, schema := range map[string]string{
		"all of all":    fan("allOf", 40, 2, `{"type":"object"}`),
		"any of any":    fan("anyOf", 40, 2, `{"required":["z"]}`),
		"one of one":    fan("oneOf", 12, 12, `{"type":"object"}`),
		"types of many": `{"properties":{"a":` + fan("anyOf", 12, 30, `{"type":"string"}`)[1:],
	} {
		within(t, name, func() {
			s, err := Compile(json.RawMessage(schema))
			if err == nil {
				_ = s.Root().Types()
			} else if !strings.Contains(err.Error(), "too much work") && !strings.Contains(err.Error(), "schema") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if _, err := Compile(json.RawMessage(fan("allOf", 40, 2, `{}`))); err == nil || !strings.Contains(err.Error(), "too much work to check even {}") {
		t.Errorf("got %v", err)
	}
}

func TestSchemaThatNeverEndsIsRefused(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		`{"properties":{"x":{"allOf":[{"type":"object"},{"$ref":"#/properties/x"}]}}}`,
	} {
		if _, err := Compile(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), "refers to itself without end") {
			t.Errorf("%s: %v", schema, err)
		}
	}
	for _, schema := range []string{
		`{"properties":{"x":{"$ref":"#"}}}`,
		`{"properties":{"x":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"allOf":[{"required":["y"]},{"required":["z"]}]}`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object"}}}`,
	} {
		if _, err := Compile(json.RawMessage(schema)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// A schema of two forms that both hold others of their kind, as query
// languages have, takes twice the work for each level of the input.
const query = `{"$ref":"#/$defs/q","$defs":{"q":{"anyOf":[
	{"type":"object","properties":{"not":{"$ref":"#/$defs/q"}},"required":["not","x"]},
	{"type":"object","properties":{"not":{"$ref":"#/$defs/q"}},"required":["not"]},
	{"type":"object","properties":{"is":{"type":"string"}},"required":["is"],"additionalProperties":false}]}}}`

func nested(depth int) []byte {
	return []byte(strings.Repeat(`{"not":`, depth) + `{"is":"x"}` + strings.Repeat(`}`, depth))
}

func TestDeepInputOfARecursiveSchemaEnds(t *testing.T) {
	s := mustCompile(t, query)
	if err := s.Validate(nested(8)); err != nil {
		t.Errorf("a reasonable query: %v", err)
	}
	within(t, "a deep query", func() {
		err := s.Validate(nested(200))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "cannot be checked: that takes too many steps") {
			t.Errorf("a query that nobody can check: %v", err)
		}
		if s.Root().Allows(value200(t)) {
			t.Error("it is allowed all the same")
		}
	})
	if err := s.Validate(nested(3)); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func value200(t *testing.T) any {
	v, err := decode(nested(200))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What a wrong input costs does not grow with how often it is wrong.
func TestInputThatIsWrongEverywhereIsCheap(t *testing.T) {
	const n = 300_000
	list := `{"a":[` + strings.Repeat("1,", n) + `1]}`
	var object strings.Builder
	object.WriteString(`{"a":{`)
	for i := range n / 4 {
		fmt.Fprintf(&object, `"%d":1,`, i)
	}
	object.WriteString(`"z":1}}`)
	for _, tc := range []struct{ name, schema, input string }{
		{"items", `{"properties":{"a":{"items":{"type":"string"}}}}`, list},
		{"items of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":{"minimum":5}}}}`, list},
		{"additional items", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{}],"additionalItems":{"minimum":5}}}}`, list},
		{"items of many forms", `{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{"minimum":4},{"minimum":5}]}}}}`, list},
		{"contains", `{"properties":{"a":{"contains":{"type":"string"}}}}`, list},
		{"unevaluated items", `{"properties":{"a":{"unevaluatedItems":false}}}`, list},
		{"additional properties", `{"properties":{"a":{"additionalProperties":{"type":"string"}}}}`, object.String()},
		{"no additional properties", `{"properties":{"a":{"additionalProperties":false}}}`, object.String()},
		{"pattern properties", `{"properties":{"a":{"patternProperties":{"^[0-9]":{"type":"string"}}}}}`, object.String()},
		{"property names", `{"properties":{"a":{"propertyNames":{"maxLength":0}}}}`, object.String()},
		{"unevaluated properties", `{"properties":{"a":{"unevaluatedProperties":false}}}`, object.String()},
	} {
		s := mustCompile(t, tc.schema)
		v, err := decode([]byte(tc.input))
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = s.check(v, []byte(tc.input))
		text := fmt.Sprint(err)
		runtime.ReadMemStats(&after)
		if err == nil || len(text) > 16<<10 {
			t.Errorf("%s: text of %d bytes", tc.name, len(text))
		}
		// Unbounded, most take 300 MB and more.
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 150 {
			t.Errorf("%s: %d MB", tc.name, mb)
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	long := `{"a":"` + strings.Repeat("a", 2<<20) + `!"}`
	for _, pattern := range []string{`^(a+)+$`, `^((a{1,30}){1,30}){1,30}$`, `^(.{0,900}){0,900}$`, strings.Repeat(`(a|b|c|d|e|aa|ab)*`, 500)} {
		within(t, pattern, func() {
			s := mustCompile(t, `{"properties":{"a":{"pattern":"`+pattern+`"}}}`)
			_ = s.Validate([]byte(long))
		})
	}
	many := strings.TrimSuffix(strings.Repeat(`{"pattern":"(`+strings.Repeat("abcdefgh", 30)+`){900}"},`, 400), ",")
	within(t, "many patterns", func() { mustCompile(t, `{"allOf":[`+many+`]}`) })
	s := mustCompile(t, `{"properties":{"a":{"pattern":"^[a-z]{2,64}$"}}}`)
	if s.Validate([]byte(`{"a":"A"}`)) == nil || s.Validate([]byte(`{"a":"ab"}`)) != nil {
		t.Error("a usual pattern is not checked")
	}
}

func TestBytesOfACharacterAreNotTakenForCharacters(t *testing.T) {
	err := mustCompile(t, `{}`).Validate([]byte(`{“a”: 1}`))
	if err == nil || !strings.Contains(err.Error(), "invalid character '“' looking for") {
		t.Errorf("got %v", err)
	}
}

// A schema that counts and stops says of every input what the library says.
func TestBoundsChangeNoVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draft := rapid.SampledFrom([]string{
			"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
			"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#",
		}).Draw(t, "draft")
		schema := map[string]any{"$schema": draft, "properties": map[string]any{"a": drawSchema(t, 3)}}
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(raw)
		if err != nil || s.Trivial() {
			t.Skip()
		}
		input, err := json.Marshal(map[string]any{"a": drawValue(t, 3)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := decode(input)
		if err != nil {
			t.Fatal(err)
		}
		want := s.compiled.Validate(v) == nil
		if got := s.Validate(input) == nil; got != want {
			t.Fatalf("schema %s\ninput %s\nfits: %v, the library says %v", raw, input, got, want)
		}
		if got := s.Root().Allows(v); got != want {
			t.Fatalf("schema %s\ninput %s\nallowed: %v, the library says %v", raw, input, got, want)
		}
	})
}

func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 5).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom([]any{
			map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"minimum": 2},
			map[string]any{"enum": []any{1, "x"}}, map[string]any{"pattern": "^x"}, map[string]any{"type": "array"}, map[string]any{"minLength": 2},
		}).Draw(t, "schema")
	}
	s := map[string]any{}
	sub := func() any { return drawSchema(t, depth-1) }
	subs := func() any { return []any{sub(), sub()} }
	bounds := func() any { return rapid.IntRange(0, 3).Draw(t, "bound") }
	for _, keyword := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"items", "tuple", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "properties", "patternProperties", "additionalProperties",
		"closed", "propertyNames", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "noUnevaluated",
		"dependentSchemas", "dependencies", "uniqueItems",
	}), 1, 4, rapid.ID[string]).Draw(t, "keywords") {
		switch keyword {
		case "tuple":
			s["items"] = subs()
		case "prefixItems", "anyOf", "oneOf", "allOf":
			s[keyword] = subs()
		case "minContains", "maxContains":
			s[keyword] = bounds()
		case "properties", "dependentSchemas", "dependencies":
			s[keyword] = map[string]any{"x": sub(), "y": sub()}
		case "patternProperties":
			s[keyword] = map[string]any{"^x": sub(), "y$": sub()}
		case "closed":
			s["additionalProperties"] = false
		case "noUnevaluated":
			s["unevaluatedProperties"], s["unevaluatedItems"] = false, false
		case "uniqueItems":
			s[keyword] = true
		default:
			s[keyword] = sub()
		}
	}
	return s
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]any{"x", "xy", "", nil, true}).Draw(t, "value")
	case 1, 2:
		return rapid.IntRange(0, 4).Draw(t, "number")
	case 3:
		var list []any
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1))
		}
		return append([]any{}, list...)
	}
	object := map[string]any{}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "xy", "z"}), rapid.ID[string]).Draw(t, "names") {
		object[name] = drawValue(t, depth-1)
	}
	return object
}
