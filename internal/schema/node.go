package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Node is a place in a schema that can be asked what it allows. It looks
// through references and allOf, and through anyOf and oneOf where only one
// branch is for something else than null. The zero Node allows anything and
// knows nothing. What a Node does not know, Validate still checks.
type Node struct {
	s  *jsonschema.Schema
	of *Schema // that s is a part of
}

func (n Node) part(s *jsonschema.Schema) Node { return Node{s, n.of} }

// Bounds of what is looked through at one place; a schema may refer to itself.
const (
	maxHops  = 16   // references and branches, one within the other
	maxParts = 64   // schemas that all hold
	maxAsked = 1000 // places that are asked for their types to answer for one
)

// Known says whether the schema says anything about this place.
func (n Node) Known() bool { return n.s != nil && (n.s.Bool == nil || !*n.s.Bool) }

// parts are the schemas that all hold at this place.
func (n Node) parts() []*jsonschema.Schema {
	var out []*jsonschema.Schema
	var add func(s *jsonschema.Schema, hops int)
	add = func(s *jsonschema.Schema, hops int) {
		if s == nil || hops > maxHops || len(out) == maxParts || slices.Contains(out, s) {
			return
		}
		out = append(out, s)
		add(s.Ref, hops+1)
		for _, a := range s.AllOf {
			add(a, hops+1)
		}
		add(onlyBranch(s.AnyOf), hops+1)
		add(onlyBranch(s.OneOf), hops+1)
	}
	add(n.s, 0)
	return out
}

// onlyBranch is the one branch that is not for null, nil if there are more.
func onlyBranch(branches []*jsonschema.Schema) *jsonschema.Schema {
	var only *jsonschema.Schema
	for _, b := range branches {
		if b.Types != nil && slices.Equal(b.Types.ToStrings(), []string{"null"}) {
			continue
		}
		if only != nil {
			return nil
		}
		only = b
	}
	return only
}

// Types are the JSON types that are allowed here, sorted; none when any is.
func (n Node) Types() []string { return n.types(maxHops, new(int)) }

func (n Node) types(hops int, asked *int) []string {
	if *asked++; hops == 0 || *asked > maxAsked {
		return nil
	}
	var out []string
	for _, p := range n.parts() {
		if p.Types == nil || p.Types.IsEmpty() {
			continue
		}
		if t := p.Types.ToStrings(); len(out) == 0 || len(t) < len(out) {
			out = t
		}
	}
	if len(out) == 0 {
		out = n.branchTypes(hops-1, asked)
	}
	out = slices.Clone(out)
	slices.Sort(out)
	return slices.Compact(out)
}

// branchTypes is the union over the branches, none if one allows any type.
func (n Node) branchTypes(hops int, asked *int) []string {
	for _, p := range n.parts() {
		branches := p.AnyOf
		if len(branches) == 0 {
			branches = p.OneOf
		}
		var out []string
		for _, b := range branches {
			t := n.part(b).types(hops, asked)
			if len(t) == 0 {
				out = nil
				break
			}
			out = append(out, t...)
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Nullable says whether null is allowed here.
func (n Node) Nullable() bool { return n.Allows(nil) }

// Enum are the values that are allowed here, in the schema's order; none when
// they are not listed. Numbers are json.Number.
func (n Node) Enum() []any {
	for _, p := range n.parts() {
		if p.Enum != nil {
			return p.Enum.Values
		}
		if p.Const != nil {
			return []any{*p.Const}
		}
	}
	for _, p := range n.parts() {
		if values := constBranches(p.AnyOf); values != nil {
			return values
		}
		if values := constBranches(p.OneOf); values != nil {
			return values
		}
	}
	return nil
}

// constBranches reads an enum that is written as one const for each branch.
func constBranches(branches []*jsonschema.Schema) []any {
	var out []any
	for _, b := range branches {
		switch {
		case b.Const != nil:
			out = append(out, *b.Const)
		case b.Enum != nil:
			out = append(out, b.Enum.Values...)
		default:
			return nil
		}
	}
	return out
}

// Property is the place of a property; the zero Node when nothing is said about it.
func (n Node) Property(name string) Node {
	for _, p := range n.parts() {
		if c, ok := p.Properties[name]; ok {
			return n.part(c)
		}
	}
	for _, p := range n.parts() {
		for re, c := range p.PatternProperties {
			if re.MatchString(name) {
				return n.part(c)
			}
		}
		if c, ok := p.AdditionalProperties.(*jsonschema.Schema); ok {
			return n.part(c)
		}
	}
	return Node{}
}

// PropertyNames are the properties that the schema names, sorted.
func (n Node) PropertyNames() []string {
	var out []string
	for _, p := range n.parts() {
		for name := range p.Properties {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Required are the properties that must be there, sorted.
func (n Node) Required() []string {
	var out []string
	for _, p := range n.parts() {
		out = append(out, p.Required...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Closed says that properties which are not named are refused.
func (n Node) Closed() bool {
	for _, p := range n.parts() {
		if allowed, ok := p.AdditionalProperties.(bool); ok && !allowed {
			return true
		}
		if u := p.UnevaluatedProperties; u != nil && u.Bool != nil && !*u.Bool {
			return true
		}
	}
	return false
}

// Item is the place of element i of an array.
func (n Node) Item(i int) Node {
	for _, p := range n.parts() {
		if i < len(p.PrefixItems) {
			return n.part(p.PrefixItems[i])
		}
		if p.Items2020 != nil {
			return n.part(p.Items2020)
		}
		switch items := p.Items.(type) {
		case *jsonschema.Schema:
			return n.part(items)
		case []*jsonschema.Schema:
			if i < len(items) {
				return n.part(items[i])
			}
			if rest, ok := p.AdditionalItems.(*jsonschema.Schema); ok {
				return n.part(rest)
			}
		}
	}
	return Node{}
}

// At follows a path of property names and indices from n.
func (n Node) At(path []string) Node {
	for _, t := range path {
		if !n.Known() {
			return Node{}
		}
		if i, err := strconv.Atoi(t); err == nil && len(n.PropertyNames()) == 0 {
			n = n.Item(i)
			continue
		}
		n = n.Property(t)
	}
	return n
}

// Allows says whether v, decoded with json.Number, fits this place.
func (n Node) Allows(v any) bool {
	if n.s == nil {
		return true
	}
	if checkNumbers(v) != nil {
		return false
	}
	_, err := n.of.fits(n.s, v, weight(v))
	return err == nil
}

// Description is what the schema says about the place in words.
func (n Node) Description() string {
	for _, p := range n.parts() {
		if p.Description != "" {
			return p.Description
		}
	}
	return ""
}
