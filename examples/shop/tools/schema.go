package tools

import (
	"encoding/json"

	"mulligan/examples/shop/pyval"
)

// param is one argument of a tool. All arguments of all tools are required.
type param struct {
	name   string
	schema schema
}

// schema is a JSON Schema whose keys keep their order.
type schema struct{ dict *pyval.Dict }

func typed(name string) schema {
	d := &pyval.Dict{}
	d.Set("type", pyval.Str(name))
	return schema{d}
}

func text(description string) schema   { return typed("string").described(description) }
func number(description string) schema { return typed("number").described(description) }
func whole(description string) schema  { return typed("integer").described(description) }

func (s schema) described(description string) schema {
	s.dict.Set("description", pyval.Str(description))
	return s
}

func oneOf(description string, values ...string) schema {
	s := text(description)
	s.dict.Set("enum", texts(values))
	return s
}

func listOf(description string, items schema) schema {
	s := typed("array").described(description)
	s.dict.Set("items", items.dict)
	return s
}

func object(params ...param) schema {
	properties := &pyval.Dict{}
	required := make([]string, 0, len(params))
	for _, p := range params {
		properties.Set(p.name, p.schema.dict)
		required = append(required, p.name)
	}
	s := typed("object")
	s.dict.Set("properties", properties)
	s.dict.Set("required", texts(required))
	return s
}

func texts(values []string) *pyval.List {
	l := pyval.NewList()
	for _, v := range values {
		l.Items = append(l.Items, pyval.Str(v))
	}
	return l
}

func (s schema) encode() json.RawMessage { return json.RawMessage(pyval.Dumps(s.dict)) }
