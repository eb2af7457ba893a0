package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mulligan/internal/form"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// mistake spoils one argument of a call that succeeded, and is what a tool says
// of it; no text means that the call was never made, since it breaks the schema.
type mistake struct {
	name  string
	spoil func(k string, v any) (string, any) // another name, another value; "" drops it
	text  string                              // %s is the name
	least float64                             // share that is undone at least
}

func mistakes() []mistake {
	rename := func(to func(string) string) func(string, any) (string, any) {
		return func(k string, v any) (string, any) { return to(k), v }
	}
	change := func(to func(any) any) func(string, any) (string, any) {
		return func(k string, v any) (string, any) { return k, to(v) }
	}
	ofText := func(to func(string) string) func(string, any) (string, any) {
		return change(func(v any) any {
			if s, ok := v.(string); ok {
				return to(s)
			}
			return v
		})
	}
	return []mistake{
		{"camel case", rename(camel), "", 0.9},
		{"camel case, missed", rename(camel), "1 validation error\n%s\n  Field required [type=missing]", 0.9},
		{"last word", rename(lastWord), "'%s' is a required property", 0.9},
		{"text for a number", change(numberAsText), "", 1},
		{"text for a number, complained of", change(numberAsText), "%s must be a number", 1},
		{"one for a list", change(oneOfList), "", 1},
		{"JSON for a list", change(listAsJSON), "", 1},
		{"no mark", ofText(func(s string) string { return strings.TrimLeft(s, "#") }), "not found", 0.9},
		{"capitals", ofText(strings.ToUpper), "not found", 0.2},
		{"another id", ofText(func(s string) string { return s + "7" }), "%s not found", 0},
		{"a letter less", ofText(func(s string) string { return s[:len(s)/2] + s[min(len(s), len(s)/2+1):] }), "", 0},
		{"left out", rename(func(string) string { return "" }), "'%s' is a required property", 0},
		{"another name", rename(func(string) string { return "zzz" }), "'%s' is a required property", 0},
	}
}

func camel(s string) string {
	parts := strings.Split(s, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func lastWord(s string) string { return s[strings.LastIndex(s, "_")+1:] }

func numberAsText(v any) any {
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	return v
}

func oneOfList(v any) any {
	if l, ok := v.([]any); ok && len(l) == 1 {
		return l[0]
	}
	return v
}

func listAsJSON(v any) any {
	if l, ok := v.([]any); ok {
		b, err := json.Marshal(l)
		if err == nil {
			return string(b)
		}
	}
	return v
}

// Mistakes that are made on purpose in recorded calls that succeeded are
// undone, or left alone: nothing else may come out.
func TestMistakesInRecordedCalls(t *testing.T) {
	schemaOf := schemasOf(t)
	r := rules.New()
	made, undone := map[string]int{}, map[string]int{}
	calls := 0
	for _, f := range corpus[recorded](t, "tool_calls.jsonl") {
		input, fits := successful(f, schemaOf(f))
		if calls++; !fits || calls%8 != 0 {
			continue
		}
		for _, k := range slices.Sorted(keysOf(input)) {
			for _, m := range mistakes() {
				tool, right := tryMistake(t, r, f, schemaOf(f), input, k, m)
				made[m.name] += tool
				undone[m.name] += right
			}
		}
	}
	for _, m := range mistakes() {
		t.Logf("%s: %d of %d undone", m.name, undone[m.name], made[m.name])
		if made[m.name] < 10 || share(undone[m.name], made[m.name]) < m.least {
			t.Errorf("%s: only %d of %d are undone", m.name, undone[m.name], made[m.name])
		}
	}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// successful is the input of a call that succeeded and fits a schema.
func successful(f recorded, raw json.RawMessage) (map[string]any, bool) {
	s, err := schema.Compile(raw)
	if f.IsError || f.InputTruncated || raw == nil || err != nil || s.Validate(f.Input) != nil {
		return nil, false
	}
	v, err := form.Decode(f.Input)
	m, ok := v.(map[string]any)
	return m, err == nil && ok
}

// tryMistake says whether the mistake could be made, and was undone.
func tryMistake(t *testing.T, r *rules.Reflector, f recorded, raw json.RawMessage, input map[string]any, k string, m mistake) (made, undone int) {
	t.Helper()
	spoiled, _ := form.Copy(input).(map[string]any)
	to, v := m.spoil(k, spoiled[k])
	delete(spoiled, k)
	if to != "" {
		spoiled[to] = v
	}
	b, err := form.Encode(spoiled)
	if err != nil || form.Equal(spoiled, input) {
		return 0, 0
	}
	c := recovery.Case{Tool: f.Tool, Schema: raw, Effect: messages.Unsafe, Input: b, Code: messages.CodeInvalidArguments, Error: "x"}
	if m.text != "" {
		c.Code, c.Executed, c.Error = messages.CodeToolError, true, strings.ReplaceAll(m.text, "%s", k)
	}
	got, err := r.Analyse(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Correction == nil || len(got.Correction.ModifiedInput) == 0 {
		return 1, 0
	}
	if recovery.Digest("", got.Correction.ModifiedInput) != recovery.Digest("", f.Input) {
		t.Errorf("%s: %s %s: %s", m.name, f.Tool, b, fmt.Sprint(got.Correction.Description))
		return 1, 0
	}
	return 1, 1
}
