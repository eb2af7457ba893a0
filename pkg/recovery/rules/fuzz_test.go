package rules_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mulligan/internal/form"
	"mulligan/internal/fuzztest"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// damages are what models do to JSON without taking anything from it.
var damages = []func(string) string{
	func(s string) string { return "```json\n" + s + "\n```" },
	func(s string) string { return "Here are the arguments: " + s },
	func(s string) string { return strings.Replace(s, "}", ",}", 1) },
	func(s string) string { return strings.TrimSuffix(s, "}") },
	func(s string) string { return strings.Replace(s, `"`, "", 2) },
	func(s string) string { return strings.ReplaceAll(s, `"`, `'`) },
	func(s string) string { return strings.Replace(s, `":`, `" `, 1) },
	func(s string) string { return strings.Replace(s, `,"`, ` "`, 1) },
	func(s string) string { return strings.ReplaceAll(s, `"`, `\"`) },
	func(s string) string { b, _ := form.Encode(s); return string(b) },
	func(s string) string { return "[" + s + "]" },
	func(s string) string { return s + s },
	func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "true", "True"), "null", "None")
	},
	func(s string) string { return s + "}" },
	func(s string) string { return s[:len(s)/2] },
}

// Arguments that were damaged come back as they were meant, or not at all.
func FuzzRepair(f *testing.F) {
	for i := range damages {
		f.Add(`{"a":"it's \"so\"","b":[1,2.50,{"c":null}],"d":true,"e":"x, y: z"}`, byte(i))
		f.Add(`{"text":"{\"a\": 1}, {b}","n":9007199254740993}`, byte(i))
	}
	r := rules.New()
	f.Fuzz(func(t *testing.T, text string, how byte) {
		v, err := form.Decode([]byte(text))
		meant, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		plain, err := form.Encode(meant)
		if err != nil {
			t.Fatal(err)
		}
		raw := damages[int(how)%len(damages)](string(plain))
		if v, err := form.Decode([]byte(raw)); err == nil { // the damage hit a text, and made another of it
			if m, ok := v.(map[string]any); ok {
				meant = m
			}
		}
		var got recovery.Reflection
		fuzztest.Bounded(t, len(raw), func() {
			got, err = r.Analyse(t.Context(), recovery.Case{Tool: "t", Effect: messages.Unsafe, Input: []byte(raw), Code: messages.CodeInvalidArguments, Error: "not JSON"})
		})
		if err != nil || got.Correction == nil || len(got.Correction.ModifiedInput) == 0 {
			return
		}
		read, err := form.Decode(got.Correction.ModifiedInput)
		if err != nil {
			t.Fatalf("%q became %q: %v", raw, got.Correction.ModifiedInput, err)
		}
		if want := wordsOf(raw); !slices.Equal(wordsOf(string(got.Correction.ModifiedInput)), want) && !isWhole(meant) {
			t.Fatalf("%q became %q, of other words", raw, got.Correction.ModifiedInput)
		}
		if m, ok := read.(map[string]any); !ok || !form.Equal(m, meant) && !isWhole(meant) && int(how)%len(damages) < 4 {
			t.Fatalf("%q became %q, meant was %q", raw, got.Correction.ModifiedInput, plain)
		}
	})
}

// wordsOf are the runs of letters and digits of a text, without what a repair
// may drop or write otherwise.
func wordsOf(text string) []string {
	text = strings.NewReplacer("Here are the arguments: ", "", "```json", "", "True", "true", "None", "null").Replace(text)
	return strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+-.", r)
	})
}

// isWhole: arguments that look like a whole call are taken out of it, and
// escapes make words look other than they are.
func isWhole(v map[string]any) bool {
	b, _ := form.Encode(v)
	return strings.Contains(string(b), `\`) || len(v) <= 4 && slices.ContainsFunc(sortedNames(v), func(name string) bool {
		return slices.Contains([]string{"arguments", "args", "input", "parameters", "params", "function", "tool", "name"}, strings.ToLower(name))
	})
}

func sortedNames(v map[string]any) []string {
	var names []string
	for k := range v {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// Whatever the schema, the input and what a tool said: what is proposed is an
// object that fits, another than failed, and a machine changes no substance of
// an unsafe call.
func FuzzMend(f *testing.F) {
	for _, row := range rows() {
		f.Add(orderSchema, row.input, row.text, string(row.code))
	}
	f.Add(`{"properties":{"a":{"type":"integer"}}}`, `{"a":"1"}`, "", "invalid_arguments")
	f.Add(`{"properties":{"a":{"$ref":"#"}},"additionalProperties":false}`, `{"A":{"a ":{}}}`, "unexpected property A", "tool_error")
	f.Add(`{"properties":{"day":{"format":"date"},"n":{"maximum":5}},"required":["day"]}`, `{"day":"1 March 2026","n":7}`, "n must be at most 5", "tool_error")
	r := rules.New()
	f.Fuzz(func(t *testing.T, schemaText, input, text, code string) {
		c := recovery.Case{Tool: "t", Schema: json.RawMessage(schemaText), Effect: messages.Unsafe, Input: []byte(input), Code: messages.Code(code), Error: text, Executed: code != "invalid_arguments"}
		s, err := schema.Compile(c.Schema)
		if err != nil {
			return
		}
		var got recovery.Reflection
		fuzztest.Bounded(t, len(schemaText)+len(input)+len(text), func() { got, err = r.Analyse(t.Context(), c) })
		if err != nil {
			var re *messages.ReflectionError
			if !errors.As(err, &re) {
				t.Fatal(err)
			}
			return
		}
		if !utf8.ValidString(got.RootCause) && utf8.ValidString(input+text+schemaText) {
			t.Fatalf("the cause is %q", got.RootCause)
		}
		fix := got.Correction
		if fix == nil || fix.Type != messages.InputFix {
			return
		}
		if err := s.Validate(fix.ModifiedInput); err != nil {
			t.Fatalf("%s does not fit: %v", fix.ModifiedInput, err)
		}
		was, err := form.Decode([]byte(input))
		if err != nil {
			return
		}
		is, err := form.Decode(fix.ModifiedInput)
		if err != nil || form.Equal(was, is) {
			t.Fatalf("%q was proposed in place of %q, %v", fix.ModifiedInput, input, err)
		}
	})
}
