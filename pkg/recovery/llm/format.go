package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
)

// schemaName is that of the structured answer (S9.3).
const schemaName = "failure_analysis"

// format is how an answer is made to have its form, the strictest first. Not
// every endpoint takes every one, nor keeps to what it takes, so that an answer
// is checked all the same.
type format int

const (
	embedded format = iota // a strict schema that holds that of the tool
	fixed                  // a strict schema, a proposed input as text or patch
	object                 // any JSON object
	plain                  // any text
)

func (f format) String() string {
	return []string{"json_schema with the tool's schema", "json_schema", "json_object", "text"}[f]
}

// Names of the fields, reasons before decisions: a model that has to decide
// first finds reasons for what it said.
var (
	analysisFields   = []string{"root_cause", "context", "is_recoverable", "severity", "correction"}
	correctionFields = []string{"description", "guidance", "correction_type", "alternative_tool", "modified_input"}
)

// responseFormat is what the request says of it.
func (q *question) responseFormat(f format) *openai.ChatCompletionResponseFormat {
	switch f {
	case embedded, fixed:
		return &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: schemaName, Strict: true, Schema: q.schema(f)},
		}
	case object:
		return &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	case plain:
	}
	return nil
}

// schema is that of the answer. Keys stand in the order in which they are to be
// written, so it is put together by hand.
func (q *question) schema(f format) json.RawMessage {
	correction := closed(correctionFields, []string{
		`{"type":"string"}`,
		`{"type":["string","null"]}`,
		fmt.Sprintf(`{"type":"string","enum":%s}`, oneLine(q.types())),
		q.alternatives(),
		q.modifiedInput(f),
	})
	return json.RawMessage(closed(analysisFields, []string{
		`{"type":"string"}`,
		`{"type":"string"}`,
		`{"type":"boolean"}`,
		`{"type":"string","enum":["low","medium","high","critical"]}`,
		`{"anyOf":[` + correction + `,{"type":"null"}]}`,
	}))
}

func closed(keys, schemas []string) string {
	var props []string
	for i, k := range keys {
		props = append(props, oneLine(k)+":"+schemas[i])
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`, strings.Join(props, ","), oneLine(keys))
}

// types are the corrections that can be proposed: an input that was not seen
// cannot be fixed, and without tools there is none to change to.
func (q *question) types() []messages.CorrectionType {
	types := []messages.CorrectionType{messages.InputFix, messages.ToolChange, messages.PrerequisiteFix, messages.ApproachChange, messages.Escalate}
	return slices.DeleteFunc(types, func(t messages.CorrectionType) bool {
		return t == messages.InputFix && !q.whole || t == messages.ToolChange && len(q.tools) == 0
	})
}

func (q *question) alternatives() string {
	if len(q.tools) == 0 {
		return `{"type":"null"}`
	}
	return fmt.Sprintf(`{"anyOf":[{"type":"string","enum":%s},{"type":"null"}]}`, oneLine(q.tools))
}

// patchSchema: a value of any kind has no strict schema, so it is JSON in a string.
const patchSchema = `{"anyOf":[{"type":"array","items":{"type":"object","properties":{"op":{"type":"string","enum":["add","remove","replace","move","copy","test"]},` +
	`"path":{"type":"string"},"from":{"type":["string","null"]},"value":{"type":["string","null"]}},"required":["op","path","from","value"],"additionalProperties":false}},{"type":"null"}]}`

func (q *question) modifiedInput(f format) string {
	switch {
	case !q.whole:
		return `{"type":"null"}`
	case f == embedded && q.strict != nil:
		b, err := form.Encode(q.strict.strict(true))
		if err == nil {
			return string(b)
		}
	case q.patched():
		return patchSchema
	}
	return `{"type":["string","null"]}`
}

// describe tells the model how to answer, also where a schema forces it: an
// endpoint may take the schema and not keep to it.
func (q *question) describe(f format) string {
	var b strings.Builder
	b.WriteString("Answer with one JSON object and nothing else, with exactly these keys in this order: ")
	b.WriteString(`root_cause (text), context (text, may be empty), is_recoverable (true or false), severity ("low", "medium", "high" or "critical"), correction (null or an object). `)
	b.WriteString("A correction has exactly these keys in this order: description (text), guidance (text for the agent, or null), correction_type (")
	for i, t := range q.types() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", t)
	}
	b.WriteString("), alternative_tool (for tool_change one of the other tools that are named, else null), modified_input (")
	b.WriteString(q.describeInput(f))
	b.WriteString(").")
	return b.String()
}

func (q *question) describeInput(f format) string {
	switch {
	case !q.whole:
		return "null, since you are not shown the whole input"
	case q.patched():
		return `for input_fix a JSON patch of the input, as RFC 6902 has it: a list of objects with op, path, from and value; value is JSON in a string, from and value are null where the operation has none; else null`
	case f == fixed:
		return "for input_fix the whole corrected input as JSON in a string, else null"
	case f == embedded:
		return "for input_fix the whole corrected input, where null stands for what is left out; else null"
	}
	return "for input_fix the whole corrected input as a JSON object, else null"
}
