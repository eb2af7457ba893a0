package rules

import (
	"errors"
	"fmt"
	"strings"

	jsonrepair "github.com/RealAlexandreAI/json-repair"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// MaxRepair is the size in bytes up to which malformed JSON is repaired.
const MaxRepair = 64 << 10

// notJSON repairs arguments that are no JSON object. Content that was cut off
// is never guessed, and neither is which of several objects was meant.
func notJSON(s *sight) *verdict {
	if s.value != nil || s.InputCut || s.Code != messages.CodeInvalidArguments {
		return nil
	}
	v, done, why := repair(s.Tool, s.Input)
	if v != nil {
		v, more := mend(s, v)
		if got := s.propose("the arguments were not a JSON object", v, append(done, more...)); got != nil {
			return got
		}
		why = "repaired, they would not fit the schema: " + misfitOf(s, v)
	}
	return &verdict{cause: "the arguments are not a JSON object", severity: messages.Medium, fault: messages.FaultCall,
		guidance: "Write the arguments again as one JSON object; " + why + "."}
}

// repair makes an object of a text, or says why not.
func repair(tool string, input []byte) (v map[string]any, done []change, why string) {
	if len(input) > MaxRepair {
		return nil, nil, fmt.Sprintf("they are %d bytes long, and only %d are repaired", len(input), MaxRepair)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(input), "\uFEFF"))
	if text == "" {
		return nil, nil, "they are empty, write {} for none"
	}
	if v, done := decoded(tool, text); v != nil {
		if len(done) == 0 { // it was no JSON before
			done = []change{{"json-object-in-text", "a mark or blanks that JSON does not know were left out"}}
		}
		return v, done, ""
	}
	core, ok := form.Core(text)
	if !ok {
		return nil, nil, reasonOf(text)
	}
	if v, _ := decoded(tool, core); v != nil {
		return v, []change{{"json-object-in-text", "the text around the JSON object was left out"}}, ""
	}
	if rest, ok := strings.CutPrefix(core, "{}"); ok { // some streams begin with an empty object
		if v, _ := decoded(tool, strings.TrimSpace(rest)); v != nil {
			return v, []change{{"json-object-in-text", "an empty object before the arguments was left out"}}, ""
		}
	}
	return repaired(tool, core)
}

var malformed = change{"json-syntax", "the JSON was malformed and only its punctuation was mended"}

func repaired(tool, core string) (map[string]any, []change, string) {
	var got any
	if m, ok := form.Relaxed(core); ok {
		got = m
	} else {
		fixed, err := jsonrepair.RepairJSON(core)
		if err != nil {
			return nil, nil, "they cannot be read"
		}
		if got, err = form.Decode([]byte(fixed)); err != nil {
			return nil, nil, "they cannot be read"
		}
		if !form.Faithful(core, got) {
			return nil, nil, "they can be read in more than one way"
		}
	}
	v, done := unwrapped(tool, got)
	if v == nil {
		return nil, nil, "they are not an object"
	}
	return v, append([]change{malformed}, done...), ""
}

// decoded reads a text that is JSON: an object, one in a string, or one in a list.
func decoded(tool, text string) (map[string]any, []change) {
	got, err := form.Decode([]byte(text))
	if err != nil {
		return nil, nil
	}
	return unwrapped(tool, got)
}

func unwrapped(tool string, got any) (map[string]any, []change) {
	switch x := got.(type) {
	case map[string]any:
		if inner, ok := form.Unwrap(tool, x); ok {
			return inner, []change{{"whole-call", "only the arguments belong there, not the name of the tool"}}
		}
		return x, nil
	case string:
		inner, err := form.Decode([]byte(x))
		if m, ok := inner.(map[string]any); err == nil && ok {
			return m, []change{{"json-in-string", "the JSON object was written as a string"}}
		}
	case []any:
		if len(x) == 1 {
			if m, ok := x[0].(map[string]any); ok {
				return m, []change{{"list-of-one", "the JSON object was written as a list of one"}}
			}
		}
	}
	return nil, nil
}

// reasonOf tells the model what is wrong with a text that has no whole object.
func reasonOf(text string) string {
	switch {
	case !strings.Contains(text, "{"):
		return "they hold no JSON object"
	case strings.LastIndexByte(text, '}') > strings.IndexByte(text, '{') && strings.HasSuffix(strings.TrimRight(text, " \n`"), "}"):
		return "they hold several objects or end too early"
	case strings.Contains(text, "}"):
		return "they end too early, or more text follows them"
	}
	return "they end too early"
}

func misfitOf(s *sight, v map[string]any) string {
	b, err := form.Encode(v)
	if err != nil {
		return err.Error()
	}
	return firstViolation(s.schema.Validate(b))
}

func firstViolation(err error) string {
	e := asSchemaError(err)
	if e == nil || len(e.Violations) == 0 {
		return "they do not fit"
	}
	return strings.TrimSpace(e.Violations[0].Pointer() + " " + e.Violations[0].Text)
}

func asSchemaError(err error) *schema.Error {
	var e *schema.Error
	errors.As(err, &e)
	return e
}
