package rules_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// pageSchema is the schema of the examples in docs/rules.md.
const pageSchema = `{"type":"object","required":["boat_id"],"properties":{
	"boat_id":{"type":"string","description":"The boat, such as '#B0000'"},"crew":{"type":"integer"},"sail":{"enum":["jib","genoa"]},
	"code":{"type":"string","pattern":"^[A-Z]{3}$"},"day":{"type":"string"},"fee":{"type":"number"},"max_results":{"type":"integer"},"note":{"type":"string"},
	"stops":{"type":"string","description":"comma-separated"},"masts":{"type":"array","items":{"type":"string"}},"sails":{"type":"array","items":{"type":"string"}}}}`

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section is what stands between two headings of the page.
func section(t *testing.T, from, to string) string {
	t.Helper()
	_, after, ok := strings.Cut(page(t), from)
	part, _, end := strings.Cut(after, to)
	if !ok || !end {
		t.Fatalf("the page has no part from %q to %q", from, to)
	}
	return part
}

// cells are the rows of the tables of a part, without their heads.
func cells(part string) [][]string {
	var out [][]string
	for line := range strings.SplitSeq(part, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		for i := range row {
			row[i] = strings.ReplaceAll(strings.TrimSpace(row[i]), "\x00", "|")
		}
		out = append(out, row)
	}
	return out
}

var span = regexp.MustCompile("`([^`]*)`")

func firstSpan(cell string) string {
	if m := span.FindStringSubmatch(cell); m != nil {
		return m[1]
	}
	return ""
}

// TestThePageIsTheTable: every row of the page is a row of the table, in its
// order, and its example is answered as the page says.
func TestThePageIsTheTable(t *testing.T) {
	inputs := map[string]string{
		"not-json": `{"a": `, "arguments": `{"boat_id":[]}`, "misfit": `{"boatId":"#B1"}`, "complaint": `{"boatId":"#B1"}`, "amount": `{"fee":90,"price":90}`, "bound": `{"mast":40}`,
		"suggested-value": `{"note":"kile"}`, "listed-value": `{"sail":"Jib"}`, "notation": `{"day":"May 7, 2031"}`, "id-form": `{"boat_id":"B1234"}`,
	}
	r := rules.New()
	var names []string
	for _, row := range cells(section(t, "## The table", "## What is corrected")) {
		name, example, done, fault := firstSpan(row[0]), row[1], row[2], messages.Fault(row[3])
		names = append(names, name)
		c := recovery.Case{Tool: "sail", Effect: messages.ReadOnly, Input: []byte(inputs[name]), Code: messages.CodeToolError, Error: firstSpan(example), Executed: true}
		if strings.HasPrefix(example, "code `") {
			c.Code, c.Error = messages.Code(firstSpan(example)), "x"
		}
		switch name {
		case "ambiguous-unsafe":
			c.Ambiguous, c.Effect = true, messages.Unsafe
		case "arguments", "misfit", "id-form":
			c.Schema = json.RawMessage(pageSchema)
		}
		got, err := r.Analyse(t.Context(), c)
		if err != nil || got.Fault != fault || doneBy(got) != done || got.Rule != name && done != "correct" {
			t.Errorf("%s: %s: rule %s, %s, fault %q, %v; the page says %s, %q", name, c.Error, got.Rule, doneBy(got), got.Fault, err, done, fault)
		}
	}
	if !slices.Equal(names, rules.Names()) {
		t.Errorf("the page has\n%v\nand the table has\n%v", names, rules.Names())
	}
}

func doneBy(r recovery.Reflection) string {
	switch {
	case r.Correction != nil && r.Correction.Type == messages.Escalate:
		return "human"
	case r.Correction != nil && len(r.Correction.ModifiedInput) > 0:
		return "correct"
	case r.IsRecoverable:
		return "retry"
	}
	return "end"
}

func TestWhatThePageCorrects(t *testing.T) {
	r := rules.New()
	rows := cells(section(t, "## What is corrected", "## Rules of your own"))
	for _, row := range rows {
		name, input, text, want := firstSpan(row[0]), firstSpan(row[1]), firstSpan(row[2]), firstSpan(row[3])
		c := recovery.Case{Tool: "sail", Schema: json.RawMessage(pageSchema), Effect: messages.Unsafe, Input: []byte(input), Code: messages.CodeToolError, Error: text, Executed: true}
		if text == "" {
			c.Code, c.Executed = messages.CodeInvalidArguments, false
		}
		got, err := r.Analyse(t.Context(), c)
		if err != nil || got.Rule != name || got.Correction == nil || recovery.Digest("", got.Correction.ModifiedInput) != recovery.Digest("", []byte(want)) {
			t.Errorf("%s: rule %s, %+v, %v", name, got.Rule, got.Correction, err)
		}
	}
	if len(rows) < 15 {
		t.Errorf("only %d rows were read", len(rows))
	}
}

// TestRulesOfThePage compiles the worked examples and shows them the failures
// that follow each.
func TestRulesOfThePage(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	var custom *rules.Custom
	shown := 0
	for _, b := range blocks {
		if b[1] == "yaml" {
			custom = compile(t, b[2])
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSpace(b[2]), "\n") {
			shown++
			checkExample(t, custom, line)
		}
	}
	if len(blocks) < 8 || shown < 8 {
		t.Errorf("only %d blocks with %d failures were read", len(blocks), shown)
	}
}

func checkExample(t *testing.T, custom *rules.Custom, line string) {
	t.Helper()
	var e struct {
		Tool, Error, Rule string
		Code              messages.Code
		Attempt           int
		Input, Becomes    json.RawMessage
		Recoverable       bool
	}
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	got, err := custom.Analyse(t.Context(), recovery.Case{Tool: e.Tool, Error: e.Error, Code: e.Code, Input: e.Input, Context: messages.ReflectionContext{Attempt: e.Attempt}})
	var skipped *messages.ReflectionError
	if e.Rule == "" {
		if !errors.As(err, &skipped) || !skipped.Skipped {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
		return
	}
	if err != nil || got.Rule != e.Rule || got.IsRecoverable != e.Recoverable {
		t.Errorf("%s: %+v, %v", line, got, err)
	}
	if e.Becomes != nil && (got.Correction == nil || recovery.Digest("", got.Correction.ModifiedInput) != recovery.Digest("", e.Becomes)) {
		t.Errorf("%s: %+v", line, got.Correction)
	}
}

// TestNamesOfThePage: an expression may use every name that the page lists, and
// the page lists every field.
func TestNamesOfThePage(t *testing.T) {
	rows := cells(section(t, "### What an expression may use", "### Examples"))
	for _, row := range rows {
		name := firstSpan(row[0])
		if _, err := rules.Compile([]rules.Definition{{Name: "r", When: `string(` + name + `) != ""`}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(rows) != 11 {
		t.Errorf("%d names", len(rows))
	}
	var listed []string
	for _, row := range cells(section(t, "## Rules of your own", "### What an expression may use")) {
		listed = append(listed, firstSpan(row[0]))
	}
	full := rules.Definition{Recoverable: new(bool), Severity: messages.Low, Cause: "c", Guidance: "g", Patch: []rules.Operation{{}}, Set: map[string]string{"a": ""}, Tool: "t", Fault: messages.FaultCall}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var has map[string]any
	if err := json.Unmarshal(b, &has); err != nil {
		t.Fatal(err)
	}
	for name := range has {
		if !slices.Contains(listed, name) {
			t.Errorf("field %s is not on the page", name)
		}
	}
	if len(has) != len(listed) {
		t.Errorf("the page lists %v, a rule has %d fields", listed, len(has))
	}
}
