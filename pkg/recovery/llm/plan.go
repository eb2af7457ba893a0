package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"mulligan/internal/form"
)

// Bounds of a schema that is rewritten; a larger one is shown as text alone.
const (
	maxStrict     = 24 << 10
	maxPlanDepth  = 8
	maxPlanPlaces = 300
)

// plan is a place in a schema as far as a strict schema can say it.
type plan struct {
	kind     string // object, array, any (one of branches), or the type of a scalar
	enum     []any  // of a scalar; nil for all values
	props    map[string]*plan
	optional map[string]bool
	item     *plan
	branches []*plan // at most one object and one array among them
}

func planOf(schema json.RawMessage) (*plan, bool) {
	if len(schema) == 0 || len(schema) > maxStrict {
		return nil, false
	}
	v, err := form.Decode(schema)
	root, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, false
	}
	pl := planner{root: root}
	p, ok := pl.place(root, 0)
	return p, ok && p.kind == "object"
}

type planner struct {
	root   map[string]any
	places int
}

// narrowing are the keywords that only narrow or describe.
var narrowing = words(`$schema $id $comment $defs definitions title description default examples example deprecated readOnly
	writeOnly format pattern minLength maxLength contentEncoding contentMediaType minimum maximum exclusiveMinimum exclusiveMaximum
	multipleOf minItems maxItems uniqueItems minProperties maxProperties dependentRequired not`)

// structural are the keywords that a plan is made of.
var structural = words(`type enum const properties required additionalProperties items anyOf oneOf allOf $ref`)

func words(s string) map[string]bool {
	out := make(map[string]bool)
	for w := range strings.FieldsSeq(s) {
		out[w] = true
	}
	return out
}

func (pl *planner) place(v any, depth int) (*plan, bool) {
	m, ok := v.(map[string]any)
	if pl.places++; !ok || depth > maxPlanDepth || pl.places > maxPlanPlaces {
		return nil, false
	}
	for k := range m {
		if !narrowing[k] && !structural[k] && !strings.HasPrefix(k, "x-") {
			return nil, false
		}
	}
	if ref, ok := m["$ref"]; ok {
		return pl.follow(m, ref, depth)
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := m[k]; ok && !onlyRequires(list) {
			return pl.combined(m, k, list, depth)
		}
	}
	if values, ok := m["const"]; ok {
		return scalars([]any{values})
	}
	if values, ok := m["enum"].([]any); ok {
		return scalars(values)
	}
	return pl.typed(m, depth)
}

// follow resolves a reference within the schema. Depth ends one without end.
func (pl *planner) follow(m map[string]any, ref any, depth int) (*plan, bool) {
	text, _ := ref.(string)
	rest, ok := strings.CutPrefix(text, "#/")
	if !ok || has(m, "type", "enum", "const", "properties", "items", "anyOf", "oneOf", "allOf") {
		return nil, false
	}
	var at any = pl.root
	for token := range strings.SplitSeq(rest, "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		in, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		at = in[token]
	}
	return pl.place(at, depth+1)
}

func has(m map[string]any, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := m[k]; return ok })
}

// onlyRequires: branches that say which keys belong together, and no more.
func onlyRequires(list any) bool {
	branches, _ := list.([]any)
	for _, b := range branches {
		m, ok := b.(map[string]any)
		if _, requires := m["required"]; !ok || !requires || len(m) != 1 {
			return false
		}
	}
	return len(branches) > 0
}

// combined: one of several, or all of one. The branches must differ in their
// JSON type as far as they have inner places, so that a value tells its branch.
func (pl *planner) combined(m map[string]any, keyword string, list any, depth int) (*plan, bool) {
	branches, _ := list.([]any)
	if len(branches) == 0 || keyword == "allOf" && len(branches) > 1 || has(m, "properties", "items", "enum", "const", "required", "additionalProperties") {
		return nil, false
	}
	for _, other := range []string{"anyOf", "oneOf", "allOf"} {
		if other != keyword && has(m, other) {
			return nil, false
		}
	}
	out := &plan{kind: "any"}
	for _, b := range branches {
		p, ok := pl.place(b, depth+1)
		if !ok {
			return nil, false
		}
		out.add(p)
	}
	if out.count("object") > 1 || out.count("array") > 1 {
		return nil, false
	}
	if len(out.branches) == 1 {
		return out.branches[0], true
	}
	return out, true
}

func (p *plan) add(b *plan) {
	if b.kind == "any" {
		p.branches = append(p.branches, b.branches...)
		return
	}
	p.branches = append(p.branches, b)
}

func (p *plan) count(kind string) int {
	n := 0
	for _, b := range p.branches {
		if b.kind == kind {
			n++
		}
	}
	return n
}

// scalars: listed values, each type a branch of its own.
func scalars(values []any) (*plan, bool) {
	byKind := map[string]*plan{}
	out := &plan{kind: "any"}
	for _, v := range values {
		kind := scalarKind(v)
		if kind == "" {
			return nil, false
		}
		if byKind[kind] == nil {
			byKind[kind] = &plan{kind: kind}
			out.branches = append(out.branches, byKind[kind])
		}
		byKind[kind].enum = append(byKind[kind].enum, v)
	}
	switch len(out.branches) {
	case 0:
		return nil, false
	case 1:
		return out.branches[0], true
	}
	return out, true
}

func scalarKind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	}
	return ""
}

// typed: the types that are named, each a branch of its own. None means any
// value, unless the keywords of an object say what it is.
func (pl *planner) typed(m map[string]any, depth int) (*plan, bool) {
	var types []any
	switch t := m["type"].(type) {
	case string:
		types = []any{t}
	case []any:
		types = t
	case nil:
		if !has(m, "properties") {
			return nil, false
		}
		types = []any{"object"} // anything else is refused by the schema of an input, or by whoever checks
		if depth > 0 {
			return nil, false
		}
	}
	out := &plan{kind: "any"}
	for _, t := range types {
		p, ok := pl.ofType(m, t, depth)
		if !ok {
			return nil, false
		}
		out.add(p)
	}
	switch len(out.branches) {
	case 0:
		return nil, false
	case 1:
		return out.branches[0], true
	}
	return out, true
}

func (pl *planner) ofType(m map[string]any, t any, depth int) (*plan, bool) {
	switch t {
	case "string", "number", "integer", "boolean", "null":
		return &plan{kind: t.(string)}, true
	case "array":
		item, ok := pl.place(m["items"], depth+1)
		return &plan{kind: "array", item: item}, ok
	case "object":
		return pl.object(m, depth)
	}
	return nil, false
}

// object: its keys must all be named. One that says nothing of others is taken
// for closed, which is what the authors of tools mean.
func (pl *planner) object(m map[string]any, depth int) (*plan, bool) {
	props, named := m["properties"].(map[string]any)
	if open, ok := m["additionalProperties"]; ok && open != false || !ok && !named {
		return nil, false
	}
	p := &plan{kind: "object", props: make(map[string]*plan), optional: make(map[string]bool)}
	for k, v := range props {
		at, ok := pl.place(v, depth+1)
		if !ok {
			return nil, false
		}
		p.props[k], p.optional[k] = at, true
		if at.nullable() && !saysNull(v) && !requires(m, k) {
			return nil, false // null and absent would look the same and may mean different things
		}
	}
	required, _ := m["required"].([]any)
	for _, r := range required {
		name, _ := r.(string)
		if p.props[name] == nil {
			return nil, false
		}
		delete(p.optional, name)
	}
	return p, true
}

func requires(m map[string]any, key string) bool {
	list, _ := m["required"].([]any)
	return slices.Contains(list, any(key))
}

// saysNull: the default is null, so that absent means the same.
func saysNull(v any) bool {
	m, _ := v.(map[string]any)
	d, ok := m["default"]
	return ok && d == nil
}
