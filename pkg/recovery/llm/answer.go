package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
)

const (
	maxAnswerText = 8 << 10 // of each text of an answer, in bytes
	maxOperations = 32      // of a patch
)

// read makes an analysis of what the model wrote. An answer that is not whole
// and exact is an error: nothing is guessed on top of it (S9.4).
func (q *question) read(text string, f format) (messages.FailureAnalysis, error) {
	var a messages.FailureAnalysis
	m, err := objectIn(text)
	if err != nil {
		return a, err
	}
	if err := exactly(m, analysisFields); err != nil {
		return a, err
	}
	err = errors.Join(
		textOf(m, "root_cause", &a.RootCause), textOf(m, "context", &a.Context),
		decode(m, "is_recoverable", &a.IsRecoverable), decode(m, "severity", &a.Severity),
	)
	switch {
	case err != nil:
		return a, err
	case strings.TrimSpace(a.RootCause) == "":
		return a, errors.New("root_cause is empty")
	case string(m["correction"]) == "null":
		return a, nil
	}
	if a.Correction, err = q.correction(m["correction"], f); err != nil {
		return a, fmt.Errorf("correction: %w", err)
	}
	return q.keepSecrets(a), nil
}

// objectIn finds the object of an answer: the whole text, or what is left
// without thoughts, a fence and words around it.
func objectIn(text string) (map[string]json.RawMessage, error) {
	if _, after, ok := strings.Cut(text, "</think>"); ok {
		text = after
	}
	var m map[string]json.RawMessage
	err := json.Unmarshal([]byte(text), &m)
	if err == nil && m != nil {
		return m, nil
	}
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return nil, fmt.Errorf("the answer holds no JSON object: %s", quote(text))
	}
	if err := json.Unmarshal([]byte(text[from:to+1]), &m); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return m, nil
}

// exactly these keys, none besides.
func exactly(m map[string]json.RawMessage, keys []string) error {
	for _, k := range keys {
		if m[k] == nil {
			return fmt.Errorf("the answer has no %s", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(keys, k) {
			return fmt.Errorf("the answer has a %s, which there is not", quote(k))
		}
	}
	return nil
}

func decode(m map[string]json.RawMessage, key string, dst any) error {
	if string(m[key]) == "null" {
		return fmt.Errorf("%s is null", key)
	}
	if err := json.Unmarshal(m[key], dst); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func textOf(m map[string]json.RawMessage, key string, dst *string) error {
	if err := decode(m, key, dst); err != nil {
		return err
	}
	if len(*dst) > maxAnswerText {
		return fmt.Errorf("%s is %d bytes long, the limit is %d", key, len(*dst), maxAnswerText)
	}
	return nil
}

func optional(m map[string]json.RawMessage, key string, dst **string) error {
	if string(m[key]) == "null" {
		return nil
	}
	*dst = new(string)
	return textOf(m, key, *dst)
}

func (q *question) correction(raw json.RawMessage, f format) (*messages.Correction, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, errors.New("it is neither null nor an object")
	}
	if err := exactly(m, correctionFields); err != nil {
		return nil, err
	}
	c := &messages.Correction{}
	err := errors.Join(
		textOf(m, "description", &c.Description), optional(m, "guidance", &c.Guidance), decode(m, "correction_type", &c.Type),
		optional(m, "alternative_tool", &c.AlternativeTool),
	)
	switch {
	case err != nil:
		return nil, err
	case c.Description == "":
		return nil, errors.New("description is empty")
	case !slices.Contains(q.types(), c.Type):
		return nil, fmt.Errorf("correction_type %s cannot be proposed here", c.Type)
	}
	if err := q.tool(c); err != nil {
		return nil, err
	}
	if c.Type != messages.InputFix && c.Type != messages.ToolChange {
		return c, nil // an input would not be looked at (S1.6)
	}
	c.ModifiedInput, err = q.proposed(m["modified_input"], c.Type, f)
	return c, err
}

// tool: a tool_change names one of the tools that were named, and nothing else
// names any.
func (q *question) tool(c *messages.Correction) error {
	if c.Type != messages.ToolChange {
		c.AlternativeTool = nil
		return nil
	}
	if c.AlternativeTool == nil {
		return errors.New("tool_change without an alternative_tool")
	}
	if !slices.Contains(q.tools, *c.AlternativeTool) {
		return fmt.Errorf("alternative_tool %s is none of the tools that may be used", quote(*c.AlternativeTool))
	}
	return nil
}

// proposed is the input of a correction in whichever form it was written: an
// object, an object as JSON in a string, a patch. nil for null.
func (q *question) proposed(raw json.RawMessage, t messages.CorrectionType, f format) (json.RawMessage, error) {
	v, err := form.Decode(raw)
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok {
		if v, err = form.Decode([]byte(text)); err != nil {
			return nil, fmt.Errorf("modified_input is no JSON in a string: %w", err)
		}
	}
	switch x := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if f == embedded && q.strict != nil && t == messages.InputFix {
			v = q.strict.strip(x)
		}
	case []any:
		if t != messages.InputFix || q.input == nil {
			return nil, errors.New("modified_input is a list, and there is no input that it could be a patch of")
		}
		if v, err = q.patch(x); err != nil {
			return nil, fmt.Errorf("modified_input cannot be applied as a patch: %w", err)
		}
	default:
		return nil, errors.New("modified_input is no object")
	}
	if !q.whole && t == messages.InputFix {
		return nil, errors.New("modified_input is given for an input that was not shown whole")
	}
	b, err := form.Encode(v)
	if err == nil && len(b) > messages.MaxInline {
		err = fmt.Errorf("modified_input is %d bytes long, the limit is %d", len(b), messages.MaxInline)
	}
	return b, err
}

// patch applies operations to the input as it was shown.
func (q *question) patch(operations []any) (any, error) {
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("%d operations, the limit is %d", len(operations), maxOperations)
	}
	for _, o := range operations {
		m, ok := o.(map[string]any)
		if !ok {
			return nil, errors.New("an operation is no object")
		}
		if m["from"] == nil {
			delete(m, "from")
		}
		switch text, written := m["value"].(string); {
		case m["op"] == "remove" || m["op"] == "move" || m["op"] == "copy":
			delete(m, "value")
		case written: // JSON in a string; a bare text is meant as it is
			if v, err := form.Decode([]byte(text)); err == nil {
				m["value"] = v
			}
		}
	}
	b, err := form.Encode(operations)
	if err != nil {
		return nil, err
	}
	p, err := jsonpatch.DecodePatch(b)
	if err != nil {
		return nil, err
	}
	input, err := form.Encode(q.input)
	if err != nil {
		return nil, err
	}
	opts := jsonpatch.NewApplyOptions()
	opts.SupportNegativeIndices, opts.AccumulatedCopySizeLimit = false, messages.MaxInline
	if input, err = p.ApplyWithOptions(input, opts); err != nil {
		return nil, err
	}
	var m map[string]any
	if v, err := form.Decode(input); err == nil {
		m, _ = v.(map[string]any)
	}
	if m == nil {
		return nil, errors.New("what it leaves is no object")
	}
	return m, nil
}

// keepSecrets puts withheld values back where they were. If that cannot be done
// without doubt there is no correction, and without one no hope, since the
// model gave it hope only together.
func (q *question) keepSecrets(a messages.FailureAnalysis) messages.FailureAnalysis {
	c := a.Correction
	if len(c.ModifiedInput) == 0 {
		return a
	}
	v, err := form.Decode(c.ModifiedInput)
	if err == nil {
		var ok bool
		if v, ok = q.hidden.restore(v, ""); ok {
			c.ModifiedInput, err = form.Encode(v)
			if err == nil {
				return a
			}
		}
	}
	a.IsRecoverable = false
	a.Correction = &messages.Correction{Type: messages.ApproachChange, Description: c.Description, Guidance: c.Guidance}
	a.Context = strings.TrimLeft(a.Context+"\nthe correction was dropped: it moves a value that is withheld from models", "\n")
	return a
}

// fault is whose the failure is, by what would mend it (S8.2).
func fault(a messages.FailureAnalysis) messages.Fault {
	switch {
	case a.Correction == nil && (a.IsRecoverable || a.Severity == messages.Critical):
		return messages.FaultTool
	case a.Correction == nil || a.Correction.Type == messages.Escalate:
		return ""
	}
	return messages.FaultCall
}

// quote shows the beginning of a text of the endpoint in one line.
func quote(s string) string { return oneLine(cut(s, 200)) }
