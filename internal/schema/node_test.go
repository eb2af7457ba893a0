package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
)

func TestNodeLooksThroughTheSchema(t *testing.T) {
	root := mustCompile(t, `{
		"type":"object","required":["id"],"additionalProperties":false,
		"properties":{
			"id":{"type":"string"},
			"n":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},
			"state":{"$ref":"#/$defs/state"},
			"to":{"allOf":[{"$ref":"#/$defs/address"},{"required":["zip"]}]},
			"list":{"type":"array","items":{"type":"integer"}},
			"pair":{"prefixItems":[{"type":"string"},{"type":"number"}],"items":false},
			"kind":{"oneOf":[{"const":"a","title":"A"},{"const":"b"}]},
			"either":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},
			"map":{"type":"object","additionalProperties":{"type":"boolean"}}},
		"$defs":{"state":{"type":"string","enum":["open","closed"]},"address":{"type":"object","properties":{"zip":{"type":"string"}}}}}`).Root()
	for _, c := range []struct{ what, got, want string }{
		{"names", fmt.Sprint(root.PropertyNames()), "[either id kind list map n pair state to]"},
		{"required", fmt.Sprint(root.Required()), "[id]"},
		{"closed", fmt.Sprint(root.Closed()), "true"},
		{"types of n", fmt.Sprint(root.Property("n").Types()), "[integer]"},
		{"null for n", fmt.Sprint(root.Property("n").Nullable()), "true"},
		{"null for id", fmt.Sprint(root.Property("id").Nullable()), "false"},
		{"enum by ref", fmt.Sprint(root.Property("state").Enum()), "[open closed]"},
		{"enum by const", fmt.Sprint(root.Property("kind").Enum()), "[a b]"},
		{"through allOf", fmt.Sprint(root.Property("to").Property("zip").Types()), "[string]"},
		{"required through allOf", fmt.Sprint(root.Property("to").Required()), "[zip]"},
		{"items", fmt.Sprint(root.Property("list").Item(3).Types()), "[integer]"},
		{"tuple", fmt.Sprint(root.Property("pair").Item(1).Types()), "[number]"},
		{"either", fmt.Sprint(root.Property("either").Types()), "[array string]"},
		{"map", fmt.Sprint(root.Property("map").Property("x").Types()), "[boolean]"},
		{"path", fmt.Sprint(root.At([]string{"list", "0"}).Types()), "[integer]"},
		{"unknown", fmt.Sprint(root.At([]string{"nothing", "0"}).Known()), "false"},
		{"allows", fmt.Sprint(root.Property("n").Allows(json.Number("3")), root.Property("n").Allows("3")), "true false"},
		{"zero node", fmt.Sprint(Node{}.Types(), Node{}.Enum(), Node{}.PropertyNames(), Node{}.Item(0).Known(), Node{}.Allows("x")), "[] [] [] false true"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}

func TestNodeOfASchemaThatRefersToItself(t *testing.T) {
	for _, schema := range []string{
		`{"anyOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#"}}}`,
		`{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}`,
		`{"oneOf":[{"properties":{"a":{"$ref":"#"}}},{"type":"null"}]}`,
	} {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			continue
		}
		n := s.Root()
		for range 3 {
			_, _, _, _, _ = n.Types(), n.Enum(), n.PropertyNames(), n.Required(), n.Closed()
			n = n.Property("a")
		}
		_ = s.Validate([]byte(`{"a":{"a":1}}`))
	}
}

// FuzzSchema: whatever the schema and the input, nothing panics, and the text
// of an error is bounded and valid UTF-8. So are time and memory.
func FuzzSchema(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":"1"}`)
	f.Add(`{"anyOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"enum":[1,null]}}}`, `{"a":[1e400]}`)
	f.Add(`{"$ref":"#"}`, `{}`)
	for _, s := range hard() {
		f.Add(s, `{"a":{"a":1}}`)
	}
	f.Fuzz(func(t *testing.T, schema, input string) {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			return
		}
		fuzztest.Bounded(t, len(schema), func() {
			n := s.Root()
			for _, name := range append(n.PropertyNames(), "x") {
				p := n.Property(name)
				_, _, _, _ = p.Types(), p.Enum(), p.Item(0).Types(), p.Nullable()
			}
		})
		fuzztest.Bounded(t, len(schema)+len(input), func() {
			if err := s.Validate([]byte(input)); err != nil {
				if text := err.Error(); len(text) > 32<<10 || strings.ToValidUTF8(text, "") != text {
					t.Fatalf("text of %d bytes: %q", len(text), text)
				}
			}
		})
	})
}
