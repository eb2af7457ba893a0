package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func mustCompile(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("compile %s: %v", schema, err)
	}
	return s
}

func TestTrivialSchemasAllowAnyObject(t *testing.T) {
	for _, schema := range []string{"", "null", "{}", "true", `{"type":"object"}`, ` {"type":"object","properties":{}} `,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","title":"t","required":[],"additionalProperties":true}`} {
		s := mustCompile(t, schema)
		if !s.Trivial() {
			t.Errorf("%s is not taken as trivial", schema)
		}
		for _, in := range []string{`{}`, " {\"a\":[1]}\n"} {
			if err := s.Validate([]byte(in)); err != nil {
				t.Errorf("schema %q, input %q: %v", schema, in, err)
			}
		}
		for _, in := range []string{``, ` `, `[]`, `"x"`, `null`, `1`, `{`, `{"a":1}}`, `{"a":1} {}`, "{\"a\":\"\xff\"}", `{'a':1}`} {
			if err := s.Validate([]byte(in)); err == nil {
				t.Errorf("schema %q takes %q", schema, in)
			}
		}
	}
	for _, schema := range []string{`{"type":"object","properties":{"a":{}}}`, `{"minProperties":1}`, `{"additionalProperties":false}`, `false`} {
		if s, err := Compile(json.RawMessage(schema)); err == nil && s.Trivial() {
			t.Errorf("%s is taken as trivial", schema)
		}
	}
}

func TestCompileSaysWhatIsWrongWithASchema(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 60) + `{}` + strings.Repeat(`}}`, 60)
	wide := `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxNodes+1), ",") + `]}`
	for _, c := range []struct{ schema, says string }{
		{`{`, "not JSON"},
		{`{"type":"object"} x`, "not JSON"},
		{`{"type":"objekt"}`, "schema"},
		{`[]`, "schema"},
		{`{"type":"string"}`, "allows only string"},
		{`{"type":["array","null"]}`, "allows only array or null"},
		{`{"properties":{"a":{"$ref":"http://example.com/x.json"}}}`, "references to other documents are refused"},
		{`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "references to other documents are refused"},
		{`{"properties":{"a":{"$ref":"other.json#/a"}}}`, "references to other documents are refused"},
		{`{"$schema":"https://example.com/meta","type":"object"}`, "references to other documents are refused"},
		{`{"properties":{"a":{"$ref":"#/$defs/nothing"}}}`, "$defs/nothing"},
		{`{"$id":"https://example.com/a","$dynamicRef":"#n","$defs":{"b":{"$id":"b","$dynamicAnchor":"n"}}}`, "dynamic references"},
		{deep, "deeper than 100"},
		{wide, "more than 4096"},
		{`{"properties":{"a":{"maximum":1e999999}}}`, "too large"},
		{`{"title":"` + strings.Repeat("x", MaxSize) + `"}`, "limit"},
	} {
		_, err := Compile(json.RawMessage(c.schema))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80s: got %v, want …%s…", c.schema, err, c.says)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%.80s: error of %d bytes", c.schema, len(err.Error()))
		}
	}
}

func TestEveryDraftIsRead(t *testing.T) {
	for _, c := range []struct{ name, schema, good, bad string }{
		{"2020", `{"properties":{"a":{"prefixItems":[{"type":"integer"}]}}}`, `{"a":[1,"x"]}`, `{"a":["x"]}`},
		{"draft 7 tuple, unnamed", `{"properties":{"a":{"items":[{"type":"integer"}],"additionalItems":false}}}`, `{"a":[1]}`, `{"a":[1,2]}`},
		{"draft 4 bound, unnamed", `{"properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":2}`, `{"a":1}`},
		{"draft 4 named", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"maximum":1,"exclusiveMaximum":true}}}`, `{"a":0}`, `{"a":1}`},
		{"draft 6", `{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"a":{"exclusiveMinimum":1}}}`, `{"a":2}`, `{"a":1}`},
		{"2019", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"dependentRequired":{"x":["y"]}}}}`, `{"a":{"x":1,"y":1}}`, `{"a":{"x":1}}`},
		{"definitions", `{"properties":{"a":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"integer"}}}`, `{"a":1}`, `{"a":"1"}`},
		{"own id", `{"$id":"https://example.com/tool.json","properties":{"a":{"$ref":"tool.json#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`, `{"a":1}`, `{"a":"1"}`},
		{"recursive", `{"properties":{"a":{"$ref":"#"},"n":{"type":"integer"}}}`, `{"a":{"a":{"n":1}}}`, `{"a":{"a":{"n":"1"}}}`},
		{"look-ahead is not checked", `{"properties":{"a":{"pattern":"^(?=x)"},"b":{"type":"string"}}}`, `{"a":"y"}`, `{"b":1}`},
	} {
		s := mustCompile(t, c.schema)
		if err := s.Validate([]byte(c.good)); err != nil {
			t.Errorf("%s: %s is refused: %v", c.name, c.good, err)
		}
		if err := s.Validate([]byte(c.bad)); err == nil {
			t.Errorf("%s: %s is taken", c.name, c.bad)
		}
	}
}

func TestNumbersBeyondFloatsSurvive(t *testing.T) {
	s := mustCompile(t, `{"properties":{"id":{"type":"integer","maximum":9007199254740993},"e":{"enum":[9007199254740993]}}}`)
	if err := s.Validate([]byte(`{"id":9007199254740993,"e":9007199254740993}`)); err != nil {
		t.Error(err)
	}
	for _, in := range []string{`{"id":9007199254740994}`, `{"e":9007199254740992}`, `{"id":1e999999999}`, `{"id":` + strings.Repeat("9", 5000) + `}`} {
		within(t, in[:min(60, len(in))], func() {
			if err := s.Validate([]byte(in)); err == nil {
				t.Errorf("%.60s is taken", in)
			}
		})
	}
}

// The texts of the row "arguments" of the table in S6: what is wrong and
// where, the schema only when the JSON did not parse, an echo of at most 800
// characters.
func TestS6_T6_ArgumentsTexts(t *testing.T) {
	s := mustCompile(t, `{"type":"object","properties":{"order_id":{"type":"string"},"n":{"type":["integer","null"]},
		"reason":{"enum":["late","broken"]},"items":{"type":"array","items":{"type":"object","properties":{"q/x":{"type":"integer","minimum":1}}}},
		"to":{"anyOf":[{"type":"object","required":["zip"]},{"type":"null"}]},"any":{"anyOf":[{"type":"string"},{"type":"integer"}]}},
		"required":["order_id"],"additionalProperties":false}`)
	for _, c := range []struct {
		name, in string
		kind     Kind
		says     []string
		not      []string
	}{
		{"missing", `{"n":1}`, Misfit, []string{`- missing property "order_id"`, `Received: {"n":1}`}, []string{`"type"`}},
		{"type", `{"order_id":"x","n":"3"}`, Misfit, []string{"- /n: must be null or integer, got string"}, nil},
		{"enum", `{"order_id":"x","reason":"Late"}`, Misfit, []string{`- /reason: must be one of "late", "broken", not "Late"`}, nil},
		{"unexpected", `{"order_id":"x","orderid":1}`, Misfit, []string{`property "orderid" not allowed; known are "any", "items", "n", "order_id"`}, nil},
		{"nested", `{"order_id":"x","items":[{},{"q/x":0}]}`, Misfit, []string{"- /items/1/q~1x: "}, nil},
		{"branch that was meant", `{"order_id":"x","to":{}}`, Misfit, []string{`- /to: missing property "zip"`}, []string{"null"}},
		{"branches by type", `{"order_id":"x","any":[]}`, Misfit, []string{"- /any: must be string or integer, got array"}, nil},
		{"several", `{"n":"x","reason":1}`, Misfit, []string{"- missing", "- /n:", "- /reason:"}, nil},
		{"not an object", `["order_id"]`, NotObject, []string{"must be a JSON object, not an array", `Received: ["order_id"]`}, []string{"schema"}},
		{"null", `null`, NotObject, []string{"not null"}, nil},
		{"cut off", `{"order_id":"x`, NotJSON, []string{"end at byte 14", "cut off", `fits this schema: {"type":"object"`, `Received: {"order_id":"x`}, nil},
		{"syntax", `{"order_id":'x'}`, NotJSON, []string{"at byte 13", "schema"}, nil},
		{"trailing", `{"order_id":"x"} and so on`, NotJSON, []string{"more text follows"}, nil},
		{"empty", ``, NotJSON, []string{"they are empty"}, nil},
		{"bytes", "{\"order_id\":\"\xff\"}", NotJSON, []string{"byte 13 (0xff) is not UTF-8"}, nil},
	} {
		err := s.Validate([]byte(c.in))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Kind != c.kind {
			t.Errorf("%s: kind %d, want %d", c.name, e.Kind, c.kind)
		}
		for _, w := range c.says {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, err)
			}
		}
		for _, w := range c.not {
			if strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q in\n%s", c.name, w, err)
			}
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	s := mustCompile(t, `{"properties":{"a":{"type":"array","items":{"type":"integer"}},"e":{"enum":["`+strings.Repeat("x", 9000)+`"]}}}`)
	many := `{"e":1,"a":[` + strings.TrimSuffix(strings.Repeat(`"é",`, 5000), ",") + `]}`
	err := s.Validate([]byte(many))
	var e *Error
	if !errors.As(err, &e) || len(e.Violations) != maxViolations || e.More != maxFailing+1-maxViolations || !e.Stopped {
		t.Fatalf("%d violations, %d more, stopped %v", len(e.Violations), e.More, e.Stopped)
	}
	if !strings.Contains(err.Error(), "/a/0: must be integer, got string\n- /a/1: must be integer") || !strings.Contains(err.Error(), "- and at least 41 more") {
		t.Errorf("not in the order of the elements, or all too sure:\n%s", err)
	}
	_, received, _ := strings.Cut(err.Error(), "Received: ")
	received, _, _ = strings.Cut(received, "…")
	if n := len([]rune(received)); n != MaxEcho {
		t.Errorf("echo of %d characters", n)
	}
	if len(err.Error()) > 16<<10 {
		t.Errorf("text of %d bytes", len(err.Error()))
	}
	err = s.Validate([]byte(strings.Repeat("\xff", 1<<20)))
	if len(err.Error()) > 16<<10 {
		t.Errorf("text of %d bytes", len(err.Error()))
	}
}

func TestCacheIsConcurrentAndBounded(t *testing.T) {
	var c Cache
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				raw := fmt.Sprintf(`{"properties":{"p%d":{"type":"integer"}}}`, (i+j)%50)
				s, err := c.Compile(json.RawMessage(raw))
				if err != nil || s.Validate(fmt.Appendf(nil, `{"p%d":"x"}`, (i+j)%50)) == nil {
					t.Errorf("%s: %v", raw, err)
				}
			}
		})
	}
	wg.Wait()
	a, _ := c.Compile(json.RawMessage(`{"minProperties":1}`))
	b, _ := c.Compile(json.RawMessage(`{"minProperties":1}`))
	if a != b {
		t.Error("compiled twice")
	}
	if _, err := c.Compile(json.RawMessage(`{`)); err == nil {
		t.Error("no error")
	}
	if _, err := c.Compile(json.RawMessage(`{`)); err == nil {
		t.Error("the error was forgotten")
	}
	for i := range cacheSize + 10 {
		_, _ = c.Compile(fmt.Appendf(nil, `{"title":"%d"}`, i))
	}
	if len(c.m) > cacheSize {
		t.Errorf("holds %d", len(c.m))
	}
}

func TestLargestSchemaCompilesInTime(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"properties":{`)
	for i := range maxNodes - 4 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"x":1}`, i)
	}
	b.WriteString(`}}`)
	if b.Len() > MaxSize {
		t.Fatalf("%d bytes", b.Len())
	}
	within(t, "the largest schema", func() { mustCompile(t, b.String()) })
}

func BenchmarkValidate(b *testing.B) {
	in := []byte(`{"order_id":"W123","items":["1","2","3"],"note":"` + strings.Repeat("x", 900) + `"}`)
	for name, schema := range map[string]string{"trivial": `{}`, "typical": `{"type":"object","properties":{"order_id":{"type":"string"},"items":{"type":"array","items":{"type":"string"}}},"required":["order_id"]}`} {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Validate(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
