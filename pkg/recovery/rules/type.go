package rules

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mulligan/internal/form"
	"mulligan/internal/schema"
)

// typeComplaint is a way to say that a value has the wrong type: which group
// holds the path to it or the value itself, and which the type that is wanted.
type typeComplaint struct {
	phrase
	path, value, want int
}

const typeName = `(integer|int|number|float|double|string|str|boolean|bool|array|list|object|dict(?:ionary)?)`

var wrongTypes = []typeComplaint{
	// pydantic 2 and 1
	{says(`(?mi)^([\w.]{1,100})\n\s+Input should be a valid ` + typeName), 1, 0, 2},
	{says(`(?mi)^([\w.]{1,100})\n\s+(?:value is not a valid |)` + typeName + `(?: type expected)?(?: \(| *$)`), 1, 0, 2},
	// zod 3 and 4
	{says(`"expected": *"(\w+)",\s*"received": *"\w+",\s*"path": *\[\s*([^\]]{1,100}?)\s*\]`), 2, 0, 1},
	{says(`"expected": *"(\w+)",\s*"code": *"invalid_type",\s*"path": *\[\s*([^\]]{1,100}?)\s*\]`), 2, 0, 1},
	// FastAPI
	{says(`"loc": *\[\s*([^\]]{1,100}?)\s*\],\s*"msg": *"Input should be a valid ` + typeName), 1, 0, 2},
	// ajv
	{says(`(?:\bdata|"instancePath": *"|^|[\s'"])[/.]([\w./]{1,100})['"]?,? (?:[^\n{}]{0,200}"message": *")?must be ` + typeName + `\b`), 1, 0, 2},
	// Go
	{says(`cannot unmarshal \w+ into Go struct field (?:[A-Z]\w*\.)?([\w.]{1,100}) of type \*?([\w.\[\]]{1,40})`), 1, 0, 2},
	// jsonschema, serde
	{says(`('[^'\n]{0,80}'|-?\d[\d.]*|None|True|False) is not of type '(\w+)'`), 0, 1, 2},
	{says(`invalid type: (?:string|integer|floating point|boolean) (["` + "`" + `][^"` + "`" + `\n]{0,80}["` + "`" + `]), expected (?:an? )?(\w+)`), 0, 1, 2},
	// the schema packages of Go, AWS, Django
	{says(`at '/([\w/]{1,100})': got \w+, want (\w+)`), 1, 0, 2},
	{says(`/properties/([\w/]{1,100}): type: [^\n]{1,200}? has type "\w+", want "(\w+)"`), 1, 0, 2},
	{says(`Invalid type for parameter ([\w.\[\]]{1,100}), value: [^\n]{0,200}?, valid types: <class '(\w+)'`), 1, 0, 2},
	{says(`"(\w{1,60})": *\[\s*"A valid (integer|number|boolean|string) is required`), 1, 0, 2},
	// plain words
	{says(`(?i)(?:^|[\s"':` + "`" + `])['"` + "`" + `]?(\w{1,60})['"` + "`" + `]? (?:parameter |argument |field |value )?(?:must|should) be (?:of type )?(?:an? )?(?:valid )?['"` + "`" + `]?` + typeName + `\b`), 1, 0, 2},
	{says(`(?i)(?:invalid )?type (?:for|of) (?:parameter |argument |field )?['"` + "`" + `](\w{1,60})['"` + "`" + `][:,.;]? (?:expected|must be|should be) (?:an? )?` + typeName + `\b`), 1, 0, 2},
}

// coerceNamed gives the value that an error names the type that it wants.
func coerceNamed(s *sight, v map[string]any) []change {
	var done []change
	for _, c := range wrongTypes {
		for _, m := range c.findAll(s.said, maxNamed) {
			path := placeOf(v, c, m)
			at := typeAt(s.schema.Root().At(path), jsonType(m[c.want]))
			if path == nil || !at.Known() {
				continue
			}
			done = append(done, replace(v, path, func(old any) (any, *change) {
				if at.Allows(old) || old == nil && c.path > 0 {
					return nil, nil
				}
				return coerce(old, at, path)
			})...)
		}
	}
	return done
}

// placeOf finds the value that is meant, nil if that is not clear.
func placeOf(v map[string]any, c typeComplaint, m []string) []string {
	if c.path > 0 {
		return placeAt(v, splitPath(m[c.path]))
	}
	path, n := onlyLeaf(v, func(x any) bool { return saidAs(x, m[c.value]) })
	if n != 1 {
		return nil
	}
	return path
}

// placeAt follows a path that may begin with the name of the whole, or be the
// name alone of what lies deeper.
func placeAt(v map[string]any, path []string) []string {
	if find(v, path) == nil { // the path is one of the schema
		path = slices.DeleteFunc(path, func(t string) bool { return t == "properties" })
	}
	for len(path) > 1 && find(v, path) == nil && slices.Contains([]string{"body", "query", "params", "arguments", "args", "input", "data"}, path[0]) {
		path = path[1:]
	}
	if len(path) == 0 || find(v, path) != nil {
		return path
	}
	if len(path) > 1 {
		return nil
	}
	var found [][]string
	eachPlace(v, nil, func(at []string) {
		if at[len(at)-1] == path[0] {
			found = append(found, slices.Clone(at))
		}
	})
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// eachPlace visits the path of every property.
func eachPlace(v any, at []string, fn func([]string)) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(x) {
			here := append(slices.Clone(at), k)
			fn(here)
			eachPlace(x[k], here, fn)
		}
	case []any:
		for i, e := range x {
			eachPlace(e, append(at, strconv.Itoa(i)), fn)
		}
	}
}

// saidAs: a scalar as Python or Rust would print it.
func saidAs(x any, said string) bool {
	switch x := x.(type) {
	case nil:
		return said == "None"
	case bool:
		return said == map[bool]string{true: "True", false: "False"}[x] || said == "`"+strconv.FormatBool(x)+"`"
	case json.Number:
		return form.Canonical(x) == form.Canonical(json.Number(strings.Trim(said, "`"))) && form.IsNumber(strings.Trim(said, "`"))
	case string:
		return said == "'"+x+"'" || said == `"`+x+`"`
	}
	return false
}

// jsonType is the type of JSON that a framework means; "" for none.
func jsonType(name string) string {
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "[]"):
		return "array"
	case slices.Contains([]string{"integer", "int", "int32", "int64", "uint", "uint32", "uint64", "i32", "i64", "u32", "u64", "usize", "long"}, name):
		return "integer"
	case slices.Contains([]string{"number", "float", "float32", "float64", "f32", "f64", "double", "decimal"}, name):
		return "number"
	case slices.Contains([]string{"string", "str", "text"}, name):
		return "string"
	case slices.Contains([]string{"boolean", "bool"}, name):
		return "boolean"
	case slices.Contains([]string{"array", "list", "sequence", "tuple", "slice"}, name):
		return "array"
	case slices.Contains([]string{"object", "dict", "dictionary", "map", "mapping", "struct"}, name):
		return "object"
	}
	return ""
}

// typeAt is a place of the type: that of the schema, if it says so, since it
// says more.
func typeAt(at schema.Node, want string) schema.Node {
	if at.Known() && slices.Contains(at.Types(), want) {
		return at
	}
	return bareTypes()[want]
}

// bareTypes are places that want a type and no more.
var bareTypes = sync.OnceValue(func() map[string]schema.Node {
	nodes := map[string]schema.Node{}
	for _, t := range []string{"integer", "number", "string", "boolean", "array", "object"} {
		if s, err := schema.Compile([]byte(`{"properties":{"x":{"type":"` + t + `"}}}`)); err == nil {
			nodes[t] = s.Root().Property("x")
		}
	}
	return nodes
})
