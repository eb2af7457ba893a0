package eval

import (
	"encoding/json"
	"strings"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// maxText bounds in bytes what a reflector is shown of an error, as the service
// does.
const maxText = 64 << 10

// newCase shows a failure to a reflector as the service would, had the call
// been made through a pool: its first attempt, executed, and failed with a
// definite error of the tool.
//
// Arguments that are a JSON string are the text that a model wrote in place of
// an object. Mulligan gives such a text to no tool, so that nothing was executed.
func newCase(c corpus.Call, tools []messages.ToolSpec) recovery.Case {
	out := recovery.Case{
		Tool: c.Tool, Effect: messages.Unsafe, Input: c.Input, InputCut: c.InputCut,
		Code: messages.CodeToolError, Executed: true, Error: cut(c.Want()), Tools: tools,
		Context: messages.ReflectionContext{MaxAttempts: messages.MaxRetries},
	}
	if spec, ok := out.Lookup(c.Tool); ok {
		out.Schema, out.Effect = spec.Schema, spec.Effect
	}
	var text string
	if len(c.Input) > 0 && c.Input[0] == '"' && json.Unmarshal(c.Input, &text) == nil {
		out.Input, out.Code, out.Executed = []byte(text), messages.CodeInvalidArguments, false
	}
	if len(out.Input) > messages.MaxInline {
		out.Input, out.InputCut = out.Input[:messages.MaxInline], true
	}
	return out
}

func cut(s string) string {
	return strings.ToValidUTF8(excerpt.Of(s, maxText), "\uFFFD")
}
