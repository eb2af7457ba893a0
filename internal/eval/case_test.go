package eval

import (
	"encoding/json"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
	"mulligan/pkg/messages"
)

const declaredTools = `{"name":"feed","server":"zoo","parameters":{"type":"object"},"annotations":{"idempotentHint":true}}
{"name":"look","server":"srv/1","parameters":{"type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true}}
{"name":"rename","server":"srv/1"}
`

// A case is what the service would make of the failure.
func TestNewCase(t *testing.T) {
	schemas, err := ReadSchemas(strings.NewReader(declaredTools))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		domain, tool string
		effect       messages.Effect
		schema       bool
		tools        string
	}{
		{"zoo", "feed", messages.Idempotent, true, "feed"},
		{"zoo", "other", messages.Unsafe, false, "feed"},
		{"zoo", "srv/1/look", messages.ReadOnly, true, "srv/1/look srv/1/rename"},
		{"zoo", "srv/1/rename", messages.Unsafe, false, "srv/1/look srv/1/rename"},
		{"zoo", "srv/2/look", messages.Unsafe, false, "feed"},
		{"den", "feed", messages.Unsafe, false, ""},
	} {
		call := corpus.Call{Domain: tc.domain, Tool: tc.tool, Input: json.RawMessage(`{}`), IsError: true, ErrorText: "no"}
		c := newCase(call, schemas.around(call))
		var names []string
		for _, s := range c.Tools {
			names = append(names, s.Name)
		}
		if c.Effect != tc.effect || (c.Schema != nil) != tc.schema || strings.Join(names, " ") != tc.tools {
			t.Errorf("%s of %s: effect %s, schema %s, tools %q", tc.tool, tc.domain, c.Effect, c.Schema, names)
		}
		if c.Code != messages.CodeToolError || !c.Executed || c.Ambiguous || c.Error != "no" || string(c.Input) != "{}" || c.Context.Attempt != 0 || c.Context.MaxAttempts != messages.MaxRetries {
			t.Errorf("case is %+v", c)
		}
	}
}

func TestNewCaseOfStrangeInput(t *testing.T) {
	c := newCase(corpus.Call{Tool: "a", Input: json.RawMessage(`"{\"b\":"`)}, nil)
	if string(c.Input) != `{"b":` || c.Code != messages.CodeInvalidArguments || c.Executed {
		t.Errorf("a text became %+v", c)
	}
	c = newCase(corpus.Call{Tool: "a", Input: json.RawMessage(`{"b":1}`), InputCut: true}, nil)
	if !c.InputCut {
		t.Error("an input that was recorded in part is shown as whole")
	}
	long := json.RawMessage(`{"b":"` + strings.Repeat("x", messages.MaxInline) + `"}`)
	c = newCase(corpus.Call{Tool: "a", Input: long, IsError: true, ErrorText: strings.Repeat("é", maxText)}, nil)
	if len(c.Input) != messages.MaxInline || !c.InputCut || len(c.Error) > maxText+len("…") || !strings.HasSuffix(c.Error, "é…") {
		t.Errorf("%d bytes of input, cut %t; %d bytes of error", len(c.Input), c.InputCut, len(c.Error))
	}
}
