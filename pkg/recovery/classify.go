package recovery

import (
	"fmt"
	"strings"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// Class says whether a correction mends the form of a call or its substance.
type Class string

// The classes of S3.7.
const (
	Form      Class = "form"      // type, name of a parameter, format, case of a listed value, punctuation
	Substance Class = "substance" // which object, how much, to whom
)

// Classify judges a correction, whoever proposed it (S3.7), and says why. It
// compares the input as it was with the corrected one in the light of the
// schema of the tool that will run; what it cannot prove to be mere form is
// substance. A correction that changes nothing by machine is form.
func Classify(c Case, corr messages.Correction) (Class, string) {
	switch corr.Type {
	case messages.InputFix:
		return classifyInput(c, c.Schema, corr.ModifiedInput)
	case messages.ToolChange:
		return classifyTool(c, corr)
	}
	return Form, "nothing is changed by machine"
}

func classifyInput(c Case, raw, fixed []byte) (Class, string) {
	if len(fixed) == 0 {
		return Form, "the input is not changed"
	}
	if c.InputCut {
		return Substance, "the input was not seen whole"
	}
	new, err := form.Decode(fixed)
	if err != nil {
		return Substance, "the corrected input is not JSON"
	}
	var at schema.Node
	if s, err := schema.Compile(raw); err == nil {
		at = s.Root()
	}
	old, err := form.Decode(c.Input)
	if err != nil {
		exact, ok := exactly(string(c.Input))
		if !ok {
			return classifyRepair(string(c.Input), new)
		}
		old = exact
	}
	why := form.Substance(old, new, at, c.Error)
	if why == "" || form.Substance(inner(c.Tool, old), new, at, c.Error) == "" {
		return Form, "only types, names or notation change"
	}
	return Substance, why
}

// exactly reads a text that is no JSON and has one meaning only.
func exactly(text string) (any, bool) {
	core, ok := form.Core(text)
	if !ok {
		return nil, false
	}
	v, ok := form.Relaxed(core)
	return v, ok
}

// inner is the object in a string, in a list of one or in a whole call; v if
// there is none.
func inner(tool string, v any) any {
	switch x := v.(type) {
	case string:
		if o, err := form.Decode([]byte(x)); err == nil {
			return inner(tool, o)
		}
	case []any:
		if len(x) == 1 {
			return inner(tool, x[0])
		}
	case map[string]any:
		if args, ok := form.Unwrap(tool, x); ok {
			return args
		}
	}
	return v
}

func classifyRepair(text string, new any) (Class, string) {
	core, ok := form.Core(text)
	switch {
	case !ok:
		return Substance, "the arguments were not written to their end, or more is said after them"
	case !form.Faithful(core, new):
		return Substance, "the corrected input does not hold the same content as the text that was not JSON"
	}
	return Form, "only punctuation changes"
}

// classifyTool: a tool of the same name in another notation is form; any other
// tool does something else.
func classifyTool(c Case, corr messages.Correction) (Class, string) {
	if corr.AlternativeTool == nil || *corr.AlternativeTool == c.Tool {
		return Form, "the tool is not changed"
	}
	to := *corr.AlternativeTool
	if !sameTool(to, c.Tool) {
		return Substance, fmt.Sprintf("the tool changes from %q to %q", c.Tool, to)
	}
	spec, _ := c.Lookup(to)
	if class, why := classifyInput(c, spec.Schema, corr.ModifiedInput); class == Substance {
		return class, why
	}
	return Form, "the same tool in another notation"
}

// sameTool: one name in two notations, or one of them without its server's.
func sameTool(a, b string) bool {
	if form.Fold(a) == form.Fold(b) {
		return true
	}
	baseA, baseB := baseName(a), baseName(b)
	return (baseA == a || baseB == b) && form.Fold(baseA) == form.Fold(baseB)
}

// baseName is a tool's name without that of its server.
func baseName(tool string) string {
	for _, sep := range []string{"/", "__", ":"} {
		if i := strings.LastIndex(tool, sep); i >= 0 {
			tool = tool[i+len(sep):]
		}
	}
	return tool
}

// target is the tool that would run with the correction, and its effect; one
// that is not known counts as unsafe (S7.1).
func target(c Case, corr messages.Correction) (string, messages.Effect) {
	if corr.Type == messages.ToolChange && corr.AlternativeTool != nil {
		spec, _ := c.Lookup(*corr.AlternativeTool)
		return *corr.AlternativeTool, spec.WithDefaults().Effect
	}
	if c.Effect == "" {
		return c.Tool, messages.Unsafe
	}
	return c.Tool, c.Effect
}
