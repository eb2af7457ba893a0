package rules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/internal/fuzztest"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

const orderSchema = `{"type":"object","additionalProperties":false,"required":["order_id"],"properties":{
	"order_id":{"type":"string","description":"such as '#W000000'"},"count":{"type":"integer"},"price":{"type":"number"},"gift":{"type":"boolean"},
	"cabin":{"type":"string","enum":["economy","business"]},"items":{"type":"array","items":{"type":"string"}},
	"people":{"type":"array","items":{"type":"object","properties":{"dob":{"type":"string"},"name":{"type":"string"}},"required":["dob"]}},
	"pay":{"type":"array","items":{"type":"object","properties":{"amount":{"type":"number"}}}},"zip_code":{"type":"string"},
	"opts":{"type":"object"},"note":{"type":"string"},"level":{"enum":[1,2,3]},"any":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`

var tools = []messages.ToolSpec{
	{Name: "shop/cancel_order", Schema: json.RawMessage(orderSchema), Effect: messages.Unsafe},
	{Name: "shop/get_order", Schema: json.RawMessage(orderSchema), Effect: messages.ReadOnly},
	{Name: "calc", Schema: json.RawMessage(`{"required":["x"],"properties":{"x":{"type":"number"}}}`)},
}

type row struct {
	name, input, text string
	code              messages.Code
	change            func(*recovery.Case)
	rule              string
	retry             bool   // the same call again
	fix               string // the proposed input; the tool, for a tool_change
}

func rowCase(r row) recovery.Case {
	c := recovery.Case{Tool: "order", Schema: json.RawMessage(orderSchema), Effect: messages.Unsafe, Input: []byte(r.input), Code: r.code, Error: r.text, Tools: tools,
		Context: messages.ReflectionContext{MaxAttempts: messages.MaxRetries}}
	if c.Code == "" {
		c.Code = messages.CodeToolError
	}
	if r.input == "" {
		c.Input = []byte(`{"order_id":"#W1"}`)
	}
	switch c.Code {
	case messages.CodeInvalidArguments, messages.CodeToolNotFound:
	default:
		c.Executed = true
	}
	if r.change != nil {
		r.change(&c)
	}
	return c
}

func ambiguous(e messages.Effect) func(*recovery.Case) {
	return func(c *recovery.Case) { c.Ambiguous, c.Effect = true, e }
}

func noSchema(c *recovery.Case) { c.Schema = nil }

const invalid = messages.CodeInvalidArguments

func rows() []row {
	return []row{
		{name: "a time-out of an unsafe tool", text: "timed out", code: messages.CodeTimeout, change: ambiguous(messages.Unsafe), rule: "ambiguous-unsafe", retry: true},
		{name: "a lost worker of an undeclared tool", text: "lost", code: messages.CodeWorkerLost, change: ambiguous(""), rule: "ambiguous-unsafe", retry: true},
		{name: "a time-out of an idempotent tool", text: "timed out", code: messages.CodeTimeout, change: ambiguous(messages.Idempotent), rule: "timeout", retry: true},
		{name: "a lost worker", text: "lost", code: messages.CodeWorkerLost, change: ambiguous(messages.Keyed), rule: "lost", retry: true},
		{name: "a panic", text: "Tool \"x\" panicked: timeout", code: messages.CodePanic, rule: "panic"},
		{name: "too much", text: "too large", code: messages.CodeOutputTooLarge, rule: "output-too-large"},
		{name: "a 429 of the tool", text: "wait", code: messages.CodeRateLimited, rule: "refused-for-now", retry: true},
		{name: "a hint of the tool", text: "wait", change: func(c *recovery.Case) { c.RetryAfter = time.Second }, rule: "refused-for-now", retry: true},

		{name: "single quotes", input: `{'order_id': '#W1', 'gift': True,}`, code: invalid, rule: "json-syntax", fix: `{"gift":true,"order_id":"#W1"}`},
		{name: "a missing comma", input: `{"order_id": "#W1" "count": 2}`, code: invalid, rule: "json-syntax", fix: `{"count":2,"order_id":"#W1"}`},
		{name: "a big number survives", input: `{'order_id': '#W1', 'count': 9007199254740993}`, code: invalid, rule: "json-syntax", fix: `{"count":9007199254740993,"order_id":"#W1"}`},
		{name: "mended JSON is mended on", input: `{'orderId': 17,}`, code: invalid, rule: "json-syntax+parameter-name+json-type", fix: `{"order_id":"17"}`},
		{name: "a fence", input: "Sure:\n```json\n{\"order_id\":\"#W1\"}\n```", code: invalid, rule: "json-object-in-text", fix: `{"order_id":"#W1"}`},
		{name: "twice encoded", input: `"{\"order_id\":\"#W1\"}"`, code: invalid, rule: "json-in-string", fix: `{"order_id":"#W1"}`},
		{name: "a list of one", input: `[{"order_id":"#W1"}]`, code: invalid, rule: "list-of-one", fix: `{"order_id":"#W1"}`},
		{name: "an empty object before", input: `{}{"order_id":"#W1"}`, code: invalid, rule: "json-object-in-text", fix: `{"order_id":"#W1"}`},
		{name: "a byte order mark", input: "\uFEFF{\"order_id\":\"#W1\"}", code: invalid, rule: "json-object-in-text", fix: `{"order_id":"#W1"}`},
		{name: "blanks of a word processor", input: "\u00a0{\"order_id\":\"#W1\"}\u00a0", code: invalid, rule: "json-object-in-text", fix: `{"order_id":"#W1"}`},
		{name: "no number", input: `{"order_id":"#W1","note":NaN}`, code: invalid, rule: "not-json"},
		{name: "nothing", input: `{"order_id":"#W1","note":undefined}`, code: invalid, rule: "not-json"},
		{name: "a whole call", input: `{"name":"order","arguments":{"order_id":"#W1"}}`, code: invalid, rule: "whole-call", fix: `{"order_id":"#W1"}`},
		{name: "cut off", input: `{"order_id":"#W1`, code: invalid, rule: "not-json"},
		{name: "cut off after a value", input: `{"order_id":"#W1"`, code: invalid, rule: "not-json"},
		{name: "cut off after an object", input: `{"order_id":"#W1","opts":{"a":1}`, code: invalid, rule: "not-json"},
		{name: "two calls", input: `{"order_id":"#W1"}{"order_id":"#W2"}`, code: invalid, rule: "not-json"},
		{name: "more is said", input: `{"order_id":"#W1"} // or so`, code: invalid, rule: "not-json"},
		{name: "where a string ends is not said", input: `{ "order_id" : "{ b": {} }" }`, code: invalid, rule: "not-json"},
		{name: "where a string ends is not said, again", input: `{"order_id": "#W1""note": "x"}`, code: invalid, rule: "not-json"},
		{name: "empty", input: ` `, code: invalid, rule: "not-json"},
		{name: "two objects in a list", input: `[{"order_id":"#W1"},{"order_id":"#W2"}]`, code: invalid, rule: "not-json"},
		{name: "too long", input: `{'order_id': '` + strings.Repeat("x", rules.MaxRepair) + `'}`, code: invalid, rule: "not-json"},
		{name: "repaired, and of no use", input: `{'x': 1}`, code: invalid, rule: "not-json"},

		{name: "types", input: `{"order_id":17,"count":"3","price":" 2.50 ","gift":"True"}`, code: invalid, rule: "json-type", fix: `{"count":3,"gift":true,"order_id":"17","price":2.50}`},
		{name: "a big number in a string", input: `{"order_id":"#W1","count":"9007199254740993"}`, code: invalid, rule: "json-type", fix: `{"count":9007199254740993,"order_id":"#W1"}`},
		{name: "one for a list", input: `{"order_id":"#W1","items":"a"}`, code: invalid, rule: "json-type", fix: `{"items":["a"],"order_id":"#W1"}`},
		{name: "a list in a string", input: `{"order_id":"#W1","items":"[\"a\",\"b\"]"}`, code: invalid, rule: "json-type", fix: `{"items":["a","b"],"order_id":"#W1"}`},
		{name: "a list of one for one", input: `{"order_id":["#W1"]}`, code: invalid, rule: "json-type", fix: `{"order_id":"#W1"}`},
		{name: "an object in a string", input: `{"order_id":"#W1","opts":"{\"a\":1}"}`, code: invalid, rule: "json-type", fix: `{"opts":{"a":1},"order_id":"#W1"}`},
		{name: "a null", input: `{"order_id":"#W1","note":null}`, code: invalid, rule: "json-type", fix: `{"order_id":"#W1"}`},
		{name: "a listed value in a string", input: `{"order_id":"#W1","level":"2"}`, code: invalid, rule: "json-type", fix: `{"level":2,"order_id":"#W1"}`},
		{name: "not a number", input: `{"order_id":"#W1","count":"three"}`, code: invalid, rule: "arguments"},
		{name: "leading zeros", input: `{"order_id":"#W1","count":"007"}`, code: invalid, rule: "arguments"},
		{name: "a null that is needed", input: `{"order_id":null}`, code: invalid, rule: "arguments"},
		{name: "two types are possible", input: `{"order_id":"#W1","any":["1"]}`, code: invalid, rule: "json-type", fix: `{"any":"1","order_id":"#W1"}`},

		{name: "a name in another notation", input: `{"orderID":"#W1"}`, code: invalid, rule: "parameter-name", fix: `{"order_id":"#W1"}`},
		{name: "a name mistyped", input: `{"oder_id":"#W1"}`, code: invalid, rule: "parameter-name", fix: `{"order_id":"#W1"}`},
		{name: "a part of a name", input: `{"order_id":"#W1","zip":"123"}`, code: invalid, rule: "parameter-name", fix: `{"order_id":"#W1","zip_code":"123"}`},
		{name: "within", input: `{"order_id":"#W1","people":[{"date_of_birth":"x"},{"dob":"y"}]}`, code: invalid, rule: "parameter-name", fix: `{"order_id":"#W1","people":[{"dob":"x"},{"dob":"y"}]}`},
		{name: "which of two", input: `{"orderid":"#W1","orderId":"#W2"}`, code: invalid, rule: "arguments"},
		{name: "too far", input: `{"reference":"#W1"}`, code: invalid, rule: "arguments"},
		{name: "not known and not near", input: `{"order_id":"#W1","dry_run":true}`, code: invalid, rule: "arguments"},

		{name: "case of a listed value", input: `{"order_id":"#W1","cabin":"Economy "}`, code: invalid, rule: "enum-case", fix: `{"cabin":"economy","order_id":"#W1"}`},
		{name: "a listed value mistyped", input: `{"order_id":"#W1","cabin":"bussiness"}`, code: invalid, rule: "enum-nearest", fix: `{"cabin":"business","order_id":"#W1"}`},
		{name: "no such value", input: `{"order_id":"#W1","cabin":"first"}`, code: invalid, rule: "arguments"},
		{name: "all at once", input: `{"orderId":17,"cabin":"ECONOMY","items":"a"}`, code: invalid, rule: "parameter-name+enum-case+json-type", fix: `{"cabin":"economy","items":["a"],"order_id":"17"}`},
		{name: "one thing too many", input: `{"orderId":17,"cabin":"first"}`, code: invalid, rule: "arguments"},

		{name: "a tool of another notation", code: messages.CodeToolNotFound, change: func(c *recovery.Case) { c.Tool = "Cancel-Order" }, rule: "tool-name", fix: "shop/cancel_order"},
		{name: "a tool mistyped", code: messages.CodeToolNotFound, change: func(c *recovery.Case) { c.Tool = "shop/cancle_order" }, rule: "tool-name", fix: "shop/cancel_order"},
		{name: "a tool that takes something else", code: messages.CodeToolNotFound, change: func(c *recovery.Case) { c.Tool = "calcc" }, rule: "tool-name"},
		{name: "no such tool", code: messages.CodeToolNotFound, change: func(c *recovery.Case) { c.Tool = "teleport" }, rule: "tool-name"},
		{name: "no such tool, in words", text: "Unknown tool: teleport", change: func(c *recovery.Case) { c.Tool = "teleport" }, rule: "tool-name"},

		{name: "a store that was being written", text: "Expecting ',' delimiter: line 812 column 7 (char 31415)", rule: "store-race", retry: true},
		{name: "the same in JavaScript", text: "Unexpected token } in JSON at position 31415", rule: "store-race", retry: true},
		{name: "arguments that were no JSON", input: `{"order_id":"{'a': 1}"}`, text: "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", rule: "unknown"},

		{name: "429", text: "HTTP error 429", rule: "server-error", retry: true},
		{name: "a limit", text: "403: rate limit exceeded", rule: "rate-limit", retry: true},
		{name: "503", text: `{"error":"status_code=503"}`, rule: "server-error", retry: true},
		{name: "502 in words", text: "upstream: 502 Bad Gateway", rule: "server-error", retry: true},
		{name: "401", text: "status code 401: timeout of the token", rule: "no-permission"},
		{name: "no permission", text: "permission denied", rule: "no-permission"},
		{name: "404", text: "Status Code: 404", rule: "not-found"},
		{name: "an endpoint", text: `{'message': "Endpoint '/things' does not exist"}`, rule: "gone"},
		{name: "redirects", text: "it failed\\nExceeded 12 redirects.", rule: "redirect-loop"},
		{name: "not a status", text: "order 503 is closed", rule: "unknown"},
		{name: "not an answer's code", text: `{"code": -32603, "message": "no"}`, rule: "unknown"},

		{name: "slow", text: "Read timed out after 12 s", rule: "slow", retry: true},
		{name: "connection", text: "dial tcp: connection refused", rule: "network", retry: true},
		{name: "fetch", text: "TypeError: fetch failed", rule: "network", retry: true},
		{name: "busy", text: "the server is busy, try again later", rule: "busy", retry: true},
		{name: "locked", text: "sqlite: database is locked", rule: "busy", retry: true},
		{name: "no reason", text: "Failed to retrieve the data", rule: "unexplained", retry: true},
		{name: "a reason", text: "Failed to retrieve the data: no such order", rule: "not-found"},
		{name: "an echo is not news", input: `{"order_id":"connection refused","note":"request timed out"}`, text: "order connection refused not found, note request timed out", rule: "not-found"},

		{name: "a name, from the error alone", input: `{"people":[{"date_of_birth":"x"}]}`, text: "1 validation error for Guest\ndob\n  Field required [type=missing]", change: noSchema, rule: "parameter-name", fix: `{"people":[{"dob":"x"}]}`},
		{name: "required, of jsonschema", input: `{"file":"x"}`, text: "'file_path' is a required property", change: noSchema, rule: "missing-input"},
		{name: "required, near", input: `{"path":"x"}`, text: "'file_path' is a required property", change: noSchema, rule: "parameter-name", fix: `{"file_path":"x"}`},
		{name: "required, which", input: `{"path":"x","filepath":"y"}`, text: "'file_path' is a required property", change: noSchema, rule: "missing-input"},
		{name: "a type, from the error alone", input: `{"content":"x"}`, text: "1 validation error\ncontent\n  Input should be a valid list [type=list_type]", change: noSchema, rule: "json-type", fix: `{"content":["x"]}`},
		{name: "a type, of zod", input: `{"n":"3"}`, text: `[{"code":"invalid_type","expected":"number","received":"string","path":["n"],"message":"no"}]`, change: noSchema, rule: "json-type", fix: `{"n":3}`},

		{name: "an amount", input: `{"order_id":"#W1","pay":[{"amount":99}]}`, text: "the sum is off, total price is 140, but paid 99", rule: "amount", fix: `{"order_id":"#W1","pay":[{"amount":140}]}`},
		{name: "an amount, the other way", input: `{"order_id":"#W1","price":5}`, text: "got 5.00, expected 7.5", rule: "amount", fix: `{"order_id":"#W1","price":7.5}`},
		{name: "a sum of several", input: `{"order_id":"#W1","pay":[{"amount":90},{"amount":9}]}`, text: "total price is 140, but paid 99", rule: "amount"},
		{name: "twice there", input: `{"order_id":"#W1","price":99,"pay":[{"amount":99}]}`, text: "total price is 140, but paid 99", rule: "amount"},
		{name: "no whole number", input: `{"order_id":"#W1","count":2}`, text: "expected 2.5, got 2", rule: "unknown"},

		{name: "a suggestion", input: `{"order_id":"#W1","note":"gren"}`, text: "unknown note gren. Did you mean 'green'?", rule: "suggested-value", fix: `{"note":"green","order_id":"#W1"}`},
		{name: "a list of values", input: `{"note":"Green"}`, text: "note must be one of: red, green, blue.", change: noSchema, rule: "enum-case", fix: `{"note":"green"}`},
		{name: "a list, mistyped", input: `{"note":"yelow","x":"y"}`, text: "no yelow: allowed values are ['red', 'yellow']", change: noSchema, rule: "enum-nearest", fix: `{"note":"yellow","x":"y"}`},
		{name: "the mark of an id", input: `{"order_id":"W1234567"}`, text: "order not found", rule: "id-form", fix: `{"order_id":"#W1234567"}`},
		{name: "another id", input: `{"order_id":"ORDER1"}`, text: "order not found", rule: "not-found"},

		{name: "a value is missing", text: "missing required argument: 'zip'", rule: "missing-input"},
		{name: "an id is not there", text: "user not found", rule: "not-found"},
		{name: "a step before", text: "No document is currently open", rule: "prior-step"},
		{name: "a state", text: "a closed ticket cannot be reopened", rule: "state"},
		{name: "money", text: "the balance is not enough", rule: "funds"},
		{name: "a choice", text: "the room is sold out", rule: "not-available"},
		{name: "lengths", text: "the number of names and prices should match", rule: "lengths"},
		{name: "a machine", text: "Executable doesn't exist at /x", rule: "environment"},
		{name: "a bug", text: "list index out of range", rule: "bug"},
		{name: "anything", text: "no", rule: "unknown"},
	}
}

func TestRules(t *testing.T) {
	r := rules.New()
	for _, row := range rows() {
		checkRow(t, r, row)
	}
}

func checkRow(t *testing.T, r *rules.Reflector, row row) {
	t.Helper()
	got, err := r.Analyse(t.Context(), rowCase(row))
	if err != nil {
		t.Errorf("%s: %v", row.name, err)
		return
	}
	fix := ""
	if corr := got.Correction; corr != nil {
		fix = string(corr.ModifiedInput)
		if corr.Type == messages.ToolChange {
			fix = *corr.AlternativeTool
		}
	}
	if got.Rule != row.rule || got.IsRecoverable != (row.retry || row.fix != "") || fix != row.fix {
		t.Errorf("%s: rule %s, recoverable %v, fix %s; want %s, %v, %s", row.name, got.Rule, got.IsRecoverable, fix, row.rule, row.retry || row.fix != "", row.fix)
	}
	if row.fix != "" && (got.Guess || got.Fault != messages.FaultCall) {
		t.Errorf("%s: a correction is a guess, or the fault of %q", row.name, got.Fault)
	}
	if got.By != rules.Name || got.RootCause == "" || got.Severity < messages.Low {
		t.Errorf("%s: %+v", row.name, got)
	}
	if corr := got.Correction; corr != nil && (corr.Description == "" || corr.GuidanceText() == "") {
		t.Errorf("%s: %+v", row.name, corr)
	}
	if !got.IsRecoverable && got.Correction.GuidanceText() == "" {
		t.Errorf("%s: not recoverable, and no guidance", row.name)
	}
}

// Whatever the rules propose for an unsafe tool, only form is applied without
// a human, and nothing is proposed after an ambiguous failure.
func TestS3_7_WhatTheRulesMayDoAlone(t *testing.T) {
	p := recovery.ServicePolicy()
	b, err := p.Backoff(func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	d, err := recovery.NewDecider(rules.New(), b, p)
	if err != nil {
		t.Fatal(err)
	}
	alone := map[string]bool{"json-syntax": true, "json-object-in-text": true, "json-in-string": true, "list-of-one": true, "whole-call": true, "json-type": true, "parameter-name": true, "enum-case": true, "id-form": true}
	for _, row := range rows() {
		c := rowCase(row)
		dec := d.Decide(t.Context(), c)
		if dec.Error != "" {
			t.Errorf("%s: %s", row.name, dec.Error)
		}
		if row.fix == "" || row.rule == "tool-name" || row.name == "a list of values" { // the last: no schema says that the case does not matter
			continue
		}
		want := messages.ActRetry
		for name := range strings.SplitSeq(row.rule, "+") {
			if !alone[name] {
				want = messages.ActAskUser
			}
		}
		if dec.Action.Type != want {
			t.Errorf("%s: %s, %s", row.name, dec.Action, dec.Analysis.Context)
		}
	}
}

func TestS7_3_TheAnalysisOfAnAmbiguousUnsafeFailureSaysSo(t *testing.T) {
	c := rowCase(row{code: messages.CodeTimeout, text: "Tool 'order' timed out after 60s", change: ambiguous(messages.Unsafe)})
	got, err := rules.New().Analyse(t.Context(), c)
	if err != nil || got.Severity != messages.High || got.Correction.Type != messages.Escalate || !strings.Contains(got.RootCause, "not known") {
		t.Errorf("%+v, %v", got, err)
	}
	a := recovery.DefaultBackoff().Decide(got.FailureAnalysis, 0, 5)
	if a.Type != messages.ActAskUser {
		t.Errorf("%s", a)
	}
}

// Any input that a rule proposes fits the schema and is another one than was
// given.
func TestWhatIsProposedFits(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(orderSchema))
	if err != nil {
		t.Fatal(err)
	}
	r := rules.New()
	key := rapid.SampledFrom([]string{"order_id", "orderId", "order", "count", "Count", "cabin", "cabins", "items", "item", "people", "dob", "date_of_birth", "zip", "note", "level", "gift", "opts", "any", "x"})
	scalar := rapid.SampledFrom([]any{"17", 17, "true", true, nil, "Economy", "busines", "a", 1.5, "[1]", `["a"]`, `{"a":1}`, "", 99, "W1"})
	value := rapid.OneOf(scalar, rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(scalar, 0, 2).Draw(t, "list") }),
		rapid.Custom(func(t *rapid.T) any { return []any{rapid.MapOfN(key, scalar, 0, 3).Draw(t, "object")} }))
	proposed := 0
	rapid.Check(t, func(rt *rapid.T) {
		given := rapid.MapOfN(key, value, 0, 5).Draw(rt, "input")
		if rapid.Bool().Draw(rt, "almost right") { // else hardly anything can be mended
			given = map[string]any{"order_id": "#W1", key.Draw(rt, "key"): value.Draw(rt, "value")}
		}
		input, err := json.Marshal(given)
		if err != nil {
			rt.Fatal(err)
		}
		code := rapid.SampledFrom([]messages.Code{invalid, messages.CodeToolError}).Draw(rt, "code")
		if code == invalid && rapid.Bool().Draw(rt, "malformed") {
			input = append(input[:len(input)-1], ",}"...)
		}
		c := rowCase(row{input: string(input), code: code, text: rapid.SampledFrom([]string{"no", "total price is 140, but paid 99", "order not found", "must be one of: economy, business"}).Draw(rt, "text")})
		got, err := r.Analyse(rt.Context(), c)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Correction == nil || got.Correction.Type != messages.InputFix {
			return
		}
		proposed++
		if err := s.Validate(got.Correction.ModifiedInput); err != nil {
			rt.Fatalf("%s proposes %s for %s: %v", got.Rule, got.Correction.ModifiedInput, input, err)
		}
		if recovery.Digest("", got.Correction.ModifiedInput) == recovery.Digest("", input) {
			rt.Fatalf("%s proposes the same", got.Rule)
		}
	})
	if proposed == 0 {
		t.Error("nothing was proposed")
	}
}

func TestTheWorstInputsTakeBoundedTime(t *testing.T) {
	r := rules.New()
	for name, unit := range map[string]string{"braces": "{", "quotes": `"`, "brackets": "[", "escapes": `\`, "pairs": `{"a":`, "commas": `{"a":1,`, "singles": `'`, "colons": ":", "objects": `{}`, "mixed": `{"a": 'b" [`, "words": "expected 1 "} {
		input := []byte(strings.Repeat(unit, rules.MaxRepair/len(unit)))
		input[0] = '{'
		input = append(input[:len(input)-1], '}')
		for _, text := range []string{"no", strings.Repeat(unit, 1<<18/len(unit)), strings.Repeat("one of "+unit+" ", 1<<14)} {
			bounded(t, name, func() {
				c := recovery.Case{Tool: "t", Input: input, Code: invalid, Error: text}
				if _, err := r.Analyse(t.Context(), c); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				c.Code, c.Executed, c.Input = messages.CodeToolError, true, fmt.Appendf(nil, `{"a":[%s1]}`, strings.Repeat(`"aaaaaaaaaaaa",`, 5000))
				if _, err := r.Analyse(t.Context(), c); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, row := range rows() {
		f.Add(row.input, row.text, string(row.code))
	}
	r := rules.New()
	s, err := schema.Compile(json.RawMessage(orderSchema))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input, text, code string) {
		c := rowCase(row{input: input, text: text, code: messages.Code(code)})
		var got recovery.Reflection
		var err error
		fuzztest.Bounded(t, len(input)+len(text), func() { got, err = r.Analyse(t.Context(), c) })
		if err != nil {
			t.Fatal(err)
		}
		if got.Correction != nil && got.Correction.Type == messages.InputFix && s.Validate(got.Correction.ModifiedInput) != nil {
			t.Fatalf("%s does not fit", got.Correction.ModifiedInput)
		}
	})
}

func BenchmarkAnalyse(b *testing.B) {
	r := rules.New()
	c := rowCase(row{input: `{"orderId":17,"cabin":"ECONOMY","items":"a"}`, code: invalid})
	u := rowCase(row{text: "something went wrong with the order"})
	b.Run("mend", func(b *testing.B) {
		for b.Loop() {
			_, _ = r.Analyse(b.Context(), c)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			_, _ = r.Analyse(b.Context(), u)
		}
	})
}
