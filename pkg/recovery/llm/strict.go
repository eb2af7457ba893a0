package llm

import (
	"encoding/json"
	"maps"
	"slices"

	"mulligan/internal/form"
)

// Strictify rewrites the schema of a tool for endpoints that force an answer
// into a schema: they want every object closed and all of its keys required. A
// key that may be left out becomes required and nullable; [Strip] takes such
// nulls out again. What only narrows a value (patterns, formats, bounds) is left
// out, since not every endpoint takes it: an answer that fits is always checked
// against the schema itself.
//
// ok is false where the rewritten schema could not say what the original can:
// objects with keys that are not named, tuples, recursion, keys that may be null
// as well as absent, keywords that are not known here.
func Strictify(schema json.RawMessage) (strict json.RawMessage, ok bool) {
	p, ok := planOf(schema)
	if !ok {
		return nil, false
	}
	out, err := form.Encode(p.strict(false))
	if err != nil || len(out) > maxStrict {
		return nil, false
	}
	return out, true
}

// Strip takes the nulls out of an instance of the strict schema that stand for
// keys which are absent. What the schema does not know stays as it is; an
// instance that is not JSON is an error. If the schema cannot be made strict
// nothing is taken out.
func Strip(schema, instance json.RawMessage) (json.RawMessage, error) {
	v, err := form.Decode(instance)
	if err != nil {
		return nil, err
	}
	if p, ok := planOf(schema); ok {
		v = p.strip(v)
	}
	return form.Encode(v)
}

func (p *plan) nullable() bool { return p.kind == "null" || p.count("null") > 0 }

// strict writes the place as a schema; absent: null must be allowed too.
func (p *plan) strict(absent bool) map[string]any {
	absent = absent && !p.nullable()
	if p.kind == "any" || absent && (p.kind == "object" || p.kind == "array" || p.enum != nil) {
		return p.either(absent)
	}
	out := map[string]any{"type": p.kind}
	if absent {
		out["type"] = []any{p.kind, "null"}
	}
	switch {
	case p.enum != nil:
		out["enum"] = p.enum
	case p.kind == "array":
		out["items"] = p.item.strict(false)
	case p.kind == "object":
		props := make(map[string]any, len(p.props))
		for k, at := range p.props {
			props[k] = at.strict(p.optional[k])
		}
		out["properties"], out["additionalProperties"] = props, false
		out["required"] = append([]string{}, slices.Sorted(maps.Keys(p.props))...) // [], not null, for none
	}
	return out
}

func (p *plan) either(absent bool) map[string]any {
	branches := p.branches
	if p.kind != "any" {
		branches = []*plan{p}
	}
	var list []any
	for _, b := range branches {
		list = append(list, b.strict(false))
	}
	if absent {
		list = append(list, map[string]any{"type": "null"})
	}
	return map[string]any{"anyOf": list}
}

// strip takes out the nulls that stand for keys which are absent.
func (p *plan) strip(v any) any {
	switch x := v.(type) {
	case map[string]any:
		p = p.branch("object")
		if p == nil {
			return v
		}
		for k, at := range p.props {
			switch inner, there := x[k]; {
			case there && inner == nil && p.optional[k]:
				delete(x, k)
			case there:
				x[k] = at.strip(inner)
			}
		}
	case []any:
		if p = p.branch("array"); p == nil {
			return v
		}
		for i := range x {
			x[i] = p.item.strip(x[i])
		}
	}
	return v
}

func (p *plan) branch(kind string) *plan {
	if p.kind == kind {
		return p
	}
	for _, b := range p.branches {
		if b.kind == kind {
			return b
		}
	}
	return nil
}
