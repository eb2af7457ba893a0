package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

func compile(t testing.TB, text string) *rules.Custom {
	t.Helper()
	c, err := custom(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// custom compiles the rules of a file as a pool does.
func custom(text string) (*rules.Custom, error) {
	_, d, err := policies.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	return policies.Rules(d)
}

const someRules = `
rules:
  - name: full-disk
    when: tool == "write_file" && error contains "No space left"
    cause: the disk of the tool is full
    guidance: Write a smaller file.
    severity: critical
    fault: tool
  - name: append
    when: tool == "write_file" && error matches "(?i)file exists" && input.mode == "create"
    patch: [{op: replace, path: /mode, value: append}, {op: add, path: /day, value: 2026-01-02}]
  - name: fee
    when: len(match(error, "fee of (\\d+) is missing")) > 0
    set: {/pay/0/amount: 'input.pay[0].amount + number(match(error, "fee of (\\d+)")[1])', /note: '"with fee"'}
    severity: high
  - name: other-host
    when: code == "timeout" && effect == "read_only" && attempt >= 1
    tool: mirror/read
    set: {/host: '"mirror." + input.host'}
  - name: again
    when: error startsWith "flaky" && !ambiguous && executed && max_attempts > attempt && task != "x" && len(causes) == 0
    recoverable: true
    severity: low
`

func TestCustomRules(t *testing.T) {
	c := compile(t, someRules)
	if got := strings.Join(c.Names(), " "); got != "full-disk append fee other-host again" {
		t.Errorf("names: %s", got)
	}
	yes := true
	for _, row := range []struct {
		name   string
		c      recovery.Case
		rule   string // empty: none
		fix    string
		tool   string
		retry  *bool
		sev    messages.Severity
		fault  messages.Fault
		reason string
	}{
		{name: "text and tool", c: recovery.Case{Tool: "write_file", Error: "x: No space left on device"}, rule: "full-disk", sev: messages.Critical, fault: messages.FaultTool},
		{name: "another tool", c: recovery.Case{Tool: "read_file", Error: "x: No space left on device"}},
		{name: "a patch", c: recovery.Case{Tool: "write_file", Error: "File exists", Input: []byte(`{"mode":"create","n":9007199254740993}`)}, rule: "append", fix: `{"day":"2026-01-02","mode":"append","n":9007199254740993}`, sev: messages.Medium, fault: messages.FaultCall},
		{name: "no such mode", c: recovery.Case{Tool: "write_file", Error: "File exists", Input: []byte(`{"mode":"w"}`)}},
		{name: "no input", c: recovery.Case{Tool: "write_file", Error: "File exists", Input: []byte(`nothing`)}},
		{name: "an input that was cut", c: recovery.Case{Tool: "write_file", Error: "File exists", Input: []byte(`{"mode":"create"}`), InputCut: true}},
		{name: "worked out", c: recovery.Case{Tool: "pay", Error: "a fee of 7 is missing", Input: []byte(`{"pay":[{"amount":10}],"id":1}`)}, rule: "fee", fix: `{"id":1,"note":"with fee","pay":[{"amount":17}]}`, sev: messages.High, fault: messages.FaultCall},
		{name: "nothing to count with", c: recovery.Case{Tool: "pay", Error: "a fee of 7 is missing", Input: []byte(`{"pay":[{"amount":"x"}]}`)}, reason: "fee"},
		{name: "a place that is not there", c: recovery.Case{Tool: "pay", Error: "a fee of 7 is missing", Input: []byte(`{"pay":[]}`)}, reason: "fee"},
		{name: "another tool is called", c: recovery.Case{Code: messages.CodeTimeout, Effect: messages.ReadOnly, Input: []byte(`{"host":"a"}`), Context: messages.ReflectionContext{Attempt: 1}}, rule: "other-host", fix: `{"host":"mirror.a"}`, tool: "mirror/read", sev: messages.Medium, fault: messages.FaultCall},
		{name: "an undeclared effect is unsafe", c: recovery.Case{Code: messages.CodeTimeout, Input: []byte(`{"host":"a"}`), Context: messages.ReflectionContext{Attempt: 1}}},
		{name: "again", c: recovery.Case{Error: "flaky", Executed: true, Context: messages.ReflectionContext{MaxAttempts: 5}}, rule: "again", retry: &yes, sev: messages.Low},
	} {
		got, err := c.Analyse(t.Context(), row.c)
		if row.rule == "" {
			var re *messages.ReflectionError
			if !errors.As(err, &re) || !re.Skipped || !strings.Contains(re.Reason, row.reason) {
				t.Errorf("%s: %+v, %v", row.name, got, err)
			}
			continue
		}
		if err != nil || got.By != rules.Name || got.Rule != row.rule || got.Severity != row.sev || got.Fault != row.fault || !strings.Contains(got.RootCause, row.c.Error) {
			t.Errorf("%s: %+v, %v", row.name, got, err)
			continue
		}
		fix, tool := "", ""
		if corr := got.Correction; corr != nil {
			fix = string(corr.ModifiedInput)
			if corr.AlternativeTool != nil {
				tool = *corr.AlternativeTool
			}
		}
		if fix != row.fix || tool != row.tool || got.IsRecoverable != (row.fix != "" || row.retry != nil) {
			t.Errorf("%s: recoverable %v, %s, %s", row.name, got.IsRecoverable, fix, tool)
		}
	}
}

// A rule that breaks is left out and said so; the next is asked.
func TestACustomRuleThatBreaksIsLeftOut(t *testing.T) {
	c := compile(t, `
rules:
  - {name: broken, when: 'input.a.b > 1', cause: x}
  - {name: same, when: 'true', patch: [{op: replace, path: /a, value: 1}]}
  - {name: no-object, when: 'true', patch: [{op: test, path: /a, value: 2}, {op: remove, path: /a}]}
  - {name: long, when: 'error matches "(a*)*b"', cause: x}
  - {name: last, when: 'true', cause: found}
`)
	got, err := c.Analyse(t.Context(), recovery.Case{Error: "e", Input: []byte(`{"a":1}`)})
	if err != nil || got.Rule != "last" {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, name := range []string{`"broken"`, `"same"`, `"no-object"`} {
		if !strings.Contains(got.Context, "rule "+name+" was left out") {
			t.Errorf("%s is not named: %s", name, got.Context)
		}
	}
	got, err = c.Analyse(t.Context(), recovery.Case{Error: strings.Repeat("a", 128<<20)})
	if err != nil || !strings.Contains(got.Context, "too much work") {
		t.Errorf("%.300s, %v", got.Context, err)
	}
}

func TestACustomRuleSaysWhatItChanges(t *testing.T) {
	c := compile(t, `
rules:
  - {name: r, when: 'true', tool: other, patch: [{op: test, path: /kept, value: 1}, {op: replace, path: /a, value: 2}], set: {/b: '3'}}
`)
	got, err := c.Analyse(t.Context(), recovery.Case{Error: "e", Input: []byte(`{"a":1,"kept":1}`)})
	if want := "rule r calls other and changes /a, /b"; err != nil || got.Correction.Description != want {
		t.Errorf("%+v, %v", got.Correction, err)
	}
}

func TestCompileSaysWhatIsWrong(t *testing.T) {
	no := false
	ok := rules.Definition{Name: "r", When: "true"}
	with := func(change func(*rules.Definition)) []rules.Definition {
		d := ok
		change(&d)
		return []rules.Definition{d}
	}
	patch := func(op rules.Operation) []rules.Definition {
		return with(func(d *rules.Definition) { d.Patch = []rules.Operation{op} })
	}
	when := func(text string) []rules.Definition { return with(func(d *rules.Definition) { d.When = text }) }
	for name, row := range map[string]struct {
		defs []rules.Definition
		want string
	}{
		"name":            {with(func(d *rules.Definition) { d.Name = "a b" }), `name "a b"`},
		"no name":         {with(func(d *rules.Definition) { d.Name = "" }), `name ""`},
		"twice":           {[]rules.Definition{ok, ok}, "that of another rule"},
		"of the table":    {with(func(d *rules.Definition) { d.Name = "network" }), "that of another rule"},
		"no condition":    {when(" "), "when \"\": is empty"},
		"syntax":          {when("tool =="), "when \"tool ==\""},
		"unknown name":    {when("toool == 1"), "unknown name toool"},
		"type":            {when("attempt"), "expected bool"},
		"mixed types":     {when("attempt + tool == 1"), "invalid operation"},
		"pattern":         {when(`error matches "("`), "missing closing )"},
		"pattern of data": {when(`error matches tool`), "must be written out"},
		"pattern, called": {when(`len(match(error, tool)) > 0`), "must be written out"},
		"large pattern":   {when(`error matches ".{900}.{900}.{900}"`), "instructions"},
		"long pattern":    {when(`error matches "` + strings.Repeat("a", 501) + `"`), "at most 500"},
		"loop":            {when(`any(causes, # == "x")`), "any"},
		"range":           {when(`attempt in 1..9`), "ranges"},
		"variable":        {when(`let x = 1; x == 1`), "let"},
		"clock":           {when(`now().Year() > 1`), "now"},
		"too long":        {when(`true || ` + strings.Repeat(" ", 2000)), "at most 2000"},
		"too many parts":  {when(strings.Repeat("!", 300) + "true"), "node"},
		"contradiction":   {with(func(d *rules.Definition) { d.Recoverable, d.Tool = &no, "t" }), "leave one of them out"},
		"severity":        {with(func(d *rules.Definition) { d.Severity = 17 }), "low, medium, high or critical"},
		"fault":           {with(func(d *rules.Definition) { d.Fault = "me" }), `fault "me"`},
		"guidance":        {with(func(d *rules.Definition) { d.Guidance = strings.Repeat("x", 2001) }), "shorten"},
		"tool":            {with(func(d *rules.Definition) { d.Tool = " t" }), `tool " t"`},
		"op":              {patch(rules.Operation{Op: "put", Path: "/a"}), `op "put"`},
		"path":            {patch(rules.Operation{Op: "remove", Path: "a"}), `path "a"`},
		"whole input":     {patch(rules.Operation{Op: "replace", Path: "", Value: json.RawMessage("1")}), `path ""`},
		"no value":        {patch(rules.Operation{Op: "add", Path: "/a"}), "no value"},
		"from":            {patch(rules.Operation{Op: "move", Path: "/a"}), `from ""`},
		"bad value":       {patch(rules.Operation{Op: "add", Path: "/a", Value: json.RawMessage("{")}), "patch: "},
		"set":             {with(func(d *rules.Definition) { d.Set = map[string]string{"/a": "nothing"} }), `set "/a"`},
		"set, place":      {with(func(d *rules.Definition) { d.Set = map[string]string{"a": "1"} }), `set "a"`},
		"too many":        {make([]rules.Definition, rules.MaxDefinitions+1), "at most 200"},
		"too many ops":    {with(func(d *rules.Definition) { d.Patch = make([]rules.Operation, 33) }), "at most 32"},
	} {
		_, err := rules.Compile(row.defs)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
		if err != nil && len(row.defs) <= 2 && !strings.Contains(err.Error(), "rule ") {
			t.Errorf("%s: no rule is named: %v", name, err)
		}
	}
	if _, err := rules.Compile(append(when("a"), when("b")...)); !strings.Contains(fmt.Sprint(err), "rule 1 (r)") || !strings.Contains(fmt.Sprint(err), "rule 2 (r)") {
		t.Errorf("only one is named: %v", err)
	}
}

// Rules of a user stand before the table, and their corrections are judged as
// all others.
func TestS3_7_CustomRulesAreJudgedAsAllOthers(t *testing.T) {
	p := recovery.ServicePolicy()
	b, err := p.Backoff(func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	mine := compile(t, `
rules:
  - {name: mine, when: 'error contains "not found"', set: {/order_id: '"#W9"'}}
  - {name: misfit-of-mine, when: 'error contains "bad"', set: {/order_id: '9'}}
`)
	d, err := recovery.NewDecider(recovery.Chain{mine, rules.New()}, b, p)
	if err != nil {
		t.Fatal(err)
	}
	dec := d.Decide(t.Context(), rowCase(row{text: "order not found"}))
	if dec.Rule != "mine" || dec.Action.Type != messages.ActAskUser || dec.Fault != messages.FaultCall {
		t.Errorf("%+v", dec)
	}
	dec = d.Decide(t.Context(), rowCase(row{text: "bad"}))
	if dec.Rule != "misfit-of-mine" || dec.Action.Type != messages.ActFail {
		t.Errorf("%+v", dec)
	}
	dec = d.Decide(t.Context(), rowCase(row{text: "connection refused"}))
	if dec.Rule != "network" || dec.Action.Type != messages.ActRetry {
		t.Errorf("%+v", dec)
	}
}

func FuzzDefinitions(f *testing.F) {
	f.Add(someRules, "a fee of 7 is missing", `{"pay":[{"amount":10}]}`)
	f.Add("rules:\n- {name: a, when: 'input.a.b[0] in [1, 2] ? error matches \"x+\" : len(input) > 1', set: {/a: 'string(input)'}}", "x", `{"a":{"b":[1]}}`)
	f.Add("rules:\n- {name: a, when: 'true', patch: [{op: move, from: /a, path: /b/0}, {op: copy, from: /b, path: /c}, {op: test, path: /c, value: {x: 1}}]}", "x", `{"a":1,"b":[]}`)
	f.Fuzz(func(t *testing.T, text, failure, input string) {
		fuzztest.Bounded(t, len(text)+len(failure)+len(input), func() { checkDefinitions(t, text, failure, input) })
	})
}

func checkDefinitions(t *testing.T, text, failure, input string) {
	t.Helper()
	c, err := custom(text)
	if err != nil {
		return
	}
	got, err := c.Analyse(t.Context(), recovery.Case{Tool: "t", Error: failure, Input: []byte(input)})
	var re *messages.ReflectionError
	switch {
	case err != nil && (!errors.As(err, &re) || !re.Skipped):
		t.Fatal(err)
	case err == nil && got.Correction != nil && len(got.Correction.ModifiedInput) > 0 && got.Correction.ModifiedInput[0] != '{':
		t.Fatalf("%s is no object", got.Correction.ModifiedInput)
	}
}

func BenchmarkCustom(b *testing.B) {
	c := compile(b, someRules)
	failed := recovery.Case{Tool: "pay", Error: "a fee of 7 is missing", Input: []byte(`{"pay":[{"amount":10}],"id":1}`)}
	for b.Loop() {
		_, _ = c.Analyse(b.Context(), failed)
	}
}
