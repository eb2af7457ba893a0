package schema

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// arm makes s and all that is reached from it count its steps, and stop
// looking at a place where enough has failed. What fits and what does not
// stays the same.
func (c *checker) arm(s *jsonschema.Schema) {
	if s == nil || c.at[s.Location] == s {
		return
	}
	c.at[s.Location] = s
	for _, child := range children(s) {
		c.arm(child)
	}
	if s.Bool != nil {
		return
	}
	c.count(s)
	c.boundItems(s)
	c.boundProperties(s)
	s.UnevaluatedItems = c.costly(s.UnevaluatedItems)
	s.UnevaluatedProperties = c.costly(s.UnevaluatedProperties)
}

// count hooks into the format of s, which is asked about every value that has
// the right type, before anything below s is looked at.
func (c *checker) count(s *jsonschema.Schema) {
	f := jsonschema.Format{Validate: func(any) error { return nil }}
	if s.Format != nil {
		f = *s.Format
	}
	validate := f.Validate
	f.Validate = func(v any) error {
		c.spend(1)
		return validate(v)
	}
	s.Format = &f
}

// children are the schemas that are directly part of s or referred to by it.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	out := inPlace(s)
	out = append(out, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	out = append(out, s.PrefixItems...)
	out = slices.AppendSeq(out, maps.Values(s.Properties))
	out = slices.AppendSeq(out, maps.Values(s.PatternProperties))
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch v := v.(type) {
		case *jsonschema.Schema:
			out = append(out, v)
		case []*jsonschema.Schema:
			out = append(out, v...)
		}
	}
	return out
}

// inPlace are the children of s that look at the same value as s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	out = append(out, always(s)...)
	out = append(out, s.AnyOf...)
	out = append(out, s.OneOf...)
	out = slices.AppendSeq(out, maps.Values(s.DependentSchemas))
	for _, d := range s.Dependencies {
		if d, ok := d.(*jsonschema.Schema); ok {
			out = append(out, d)
		}
	}
	return out
}

// always are those of them that are looked at in any case.
func always(s *jsonschema.Schema) []*jsonschema.Schema {
	return append([]*jsonschema.Schema{s.Ref}, s.AllOf...)
}

// endless finds a schema that comes back to itself without having gone deeper
// into the value: no check of it ever ends.
func endless(root *jsonschema.Schema) *jsonschema.Schema {
	const visiting, done = 1, 2
	state := make(map[*jsonschema.Schema]int)
	var found *jsonschema.Schema
	var follow, visit func(s *jsonschema.Schema)
	follow = func(s *jsonschema.Schema) {
		switch {
		case s == nil || state[s] == done || found != nil:
			return
		case state[s] == visiting:
			found = s
			return
		}
		state[s] = visiting
		for _, next := range always(s) {
			follow(next)
		}
		state[s] = done
	}
	seen := make(map[*jsonschema.Schema]bool)
	visit = func(s *jsonschema.Schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		follow(s)
		for _, child := range children(s) {
			visit(child)
		}
	}
	visit(root)
	return found
}

// costly stands in for a schema of what nothing else has looked at. The library
// gathers each failure of it, so each costs as many steps as bound them.
func (c *checker) costly(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil || s.Bool != nil && *s.Bool {
		return s
	}
	return &jsonschema.Schema{DraftVersion: s.DraftVersion, Location: s.Location, Format: &jsonschema.Format{Validate: func(v any) error {
		err := s.Validate(v)
		if err != nil {
			c.spend(failureSteps)
		}
		return err
	}}}
}

// boundItems takes over the keywords that look at each element.
func (c *checker) boundItems(s *jsonschema.Schema) {
	b := elements{checker: c, contains: s.Contains, least: s.MinContains, most: s.MaxContains, marks: s.DraftVersion >= 2020}
	s.Contains = nil
	switch items := s.Items.(type) {
	case *jsonschema.Schema: // additionalItems then means nothing
		b.items, s.Items, s.AdditionalItems = items, nil, nil
	case []*jsonschema.Schema:
		b.from = len(items)
	}
	if rest, ok := s.AdditionalItems.(*jsonschema.Schema); ok && s.DraftVersion < 2020 {
		b.items, s.AdditionalItems = rest, nil
	}
	if s.Items2020 != nil {
		b.items, b.from, s.Items2020 = s.Items2020, len(s.PrefixItems), nil
	}
	if b.items != nil || b.contains != nil {
		s.Extensions = append(s.Extensions, &b)
	}
}

// elements are the keywords about each element of an array.
type elements struct {
	*checker
	items       *jsonschema.Schema
	from        int // the first element that items is about
	contains    *jsonschema.Schema
	least, most *int // of those that fit contains
	marks       bool // what fits contains counts as looked at
}

func (e *elements) Validate(ctx *jsonschema.ValidatorContext, v any) {
	list, ok := v.([]any)
	if !ok {
		return
	}
	if e.items != nil {
		failed := 0
		for i := e.from; i < len(list) && !e.enough(failed); i++ {
			if err := ctx.Validate(e.items, list[i], []string{strconv.Itoa(i)}); err != nil {
				ctx.AddErr(err)
				failed++
				e.failing++
			}
		}
	}
	if e.contains != nil {
		e.validateContains(ctx, list)
	}
}

func (e *elements) validateContains(ctx *jsonschema.ValidatorContext, list []any) {
	var fit []int
	for i, item := range list {
		if ctx.Validate(e.contains, item, []string{strconv.Itoa(i)}) != nil {
			continue
		}
		fit = append(fit, i)
		if e.marks {
			ctx.EvaluatedItem(i)
		}
	}
	switch {
	case e.least != nil && len(fit) < *e.least:
		ctx.AddError(&kind.MinContains{Got: fit, Want: *e.least})
	case e.least == nil && len(fit) == 0:
		ctx.AddError(&kind.Contains{})
	}
	if e.most != nil && len(fit) > *e.most {
		ctx.AddError(&kind.MaxContains{Got: fit, Want: *e.most})
	}
}

// boundProperties takes over the keywords that look at properties which the
// schema does not name.
func (c *checker) boundProperties(s *jsonschema.Schema) {
	b := properties{checker: c, patterns: s.PatternProperties, named: s.Properties, names: s.PropertyNames}
	anything := new(true)
	if len(s.PatternProperties) > 0 {
		// They stay, since what they match is not additional, and look at nothing.
		s.PatternProperties = make(map[jsonschema.Regexp]*jsonschema.Schema, len(b.patterns))
		for re := range b.patterns {
			s.PatternProperties[re] = &jsonschema.Schema{Bool: anything}
		}
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		b.additional, s.AdditionalProperties = additional, nil
	}
	if s.DraftVersion == 4 {
		b.names = nil // it came later
	}
	s.PropertyNames = nil
	if len(b.patterns) > 0 || b.additional != nil || b.names != nil {
		s.Extensions = append(s.Extensions, &b)
	}
}

// properties are the keywords about the properties of an object.
type properties struct {
	*checker
	named      map[string]*jsonschema.Schema
	patterns   map[jsonschema.Regexp]*jsonschema.Schema
	additional *jsonschema.Schema // of those that are neither named nor matched
	names      *jsonschema.Schema // of the names themselves
}

func (p *properties) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	failed := 0
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if p.enough(failed) {
			return
		}
		n := p.property(ctx, name, object[name]) + p.name(ctx, name)
		failed += n
		p.failing += n
	}
}

// property returns how many keywords the property breaks.
func (p *properties) property(ctx *jsonschema.ValidatorContext, name string, value any) (failed int) {
	_, known := p.named[name]
	check := func(s *jsonschema.Schema) {
		if err := ctx.Validate(s, value, []string{name}); err != nil {
			ctx.AddErr(err)
			failed++
		}
	}
	for re, s := range p.patterns {
		if re.MatchString(name) {
			known = true
			check(s)
		}
	}
	if !known && p.additional != nil {
		check(p.additional)
	}
	return failed
}

func (p *properties) name(ctx *jsonschema.ValidatorContext, name string) (failed int) {
	if p.names == nil {
		return 0
	}
	err := p.names.Validate(name)
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return 0
	}
	broken.InstanceLocation = slices.Clone(ctx.ValueLocation())
	broken.ErrorKind = &kind.PropertyNames{Property: name}
	ctx.AddErr(broken)
	return 1
}
