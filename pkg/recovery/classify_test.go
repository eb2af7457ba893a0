package recovery_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

const paySchema = `{"type":"object","properties":{"order_id":{"type":"string"},"amount":{"type":"number"},
	"cabin":{"enum":["economy","business"]},"ids":{"type":"array","items":{"type":"string"}}},"required":["order_id"]}`

func payCase(input string) recovery.Case {
	return recovery.Case{Tool: "pay", Schema: json.RawMessage(paySchema), Effect: messages.Unsafe, Input: []byte(input),
		Code: messages.CodeToolError, Error: "no", Executed: true, Context: messages.ReflectionContext{MaxAttempts: messages.MaxRetries}}
}

func fix(input string) messages.Correction {
	return messages.Correction{Type: messages.InputFix, Description: "d", ModifiedInput: json.RawMessage(input)}
}

func change(tool, input string) messages.Correction {
	c := messages.Correction{Type: messages.ToolChange, Description: "d", AlternativeTool: &tool}
	if input != "" {
		c.ModifiedInput = json.RawMessage(input)
	}
	return c
}

func TestS3_7_FormAndSubstance(t *testing.T) {
	whole := `{"name":"pay","arguments":{"order_id":"W1"}}`
	for _, c := range []struct {
		name, input string
		corr        messages.Correction
		want        recovery.Class
	}{
		{"type", `{"order_id":17,"amount":"5"}`, fix(`{"order_id":"17","amount":5}`), recovery.Form},
		{"name", `{"orderID":"W1"}`, fix(`{"order_id":"W1"}`), recovery.Form},
		{"case of a listed value", `{"order_id":"W1","cabin":"Business"}`, fix(`{"order_id":"W1","cabin":"business"}`), recovery.Form},
		{"malformed JSON", `{'order_id': 'W1', "amount": 5,}`, fix(`{"order_id":"W1","amount":5}`), recovery.Form},
		{"a comma is missing", `{"order_id": "W1" "amount": 5}`, fix(`{"order_id":"W1","amount":5}`), recovery.Form},
		{"a comma is missing, and more changes", `{"order_id": "W1" "amount": 5}`, fix(`{"order_id":"W2","amount":5}`), recovery.Substance},
		{"a comma is missing, and values are swapped", `{"order_id": "W1" "note": "W2"}`, fix(`{"order_id":"W2","note":"W1"}`), recovery.Substance},
		{"with a foreword", "Here:\n```json\n{\"order_id\":\"W1\"}\n```", fix(`{"order_id":"W1"}`), recovery.Form},
		{"twice encoded", `"{\"order_id\":\"W1\"}"`, fix(`{"order_id":"W1"}`), recovery.Form},
		{"a whole call", whole, fix(`{"order_id":"W1"}`), recovery.Form},
		{"nothing", `{"order_id":"W1"}`, messages.Correction{Type: messages.InputFix, Description: "d"}, recovery.Form},
		{"escalate is not looked into", `{"order_id":"W1"}`, messages.Correction{Type: messages.Escalate, Description: "d", ModifiedInput: json.RawMessage(`{"order_id":"W2"}`)}, recovery.Form},
		{"the same tool", `{"order_id":"W1"}`, change("pay", ""), recovery.Form},
		{"another notation of the tool", `{"order_id":"W1"}`, change("shop/Pay", ""), recovery.Form},

		{"which object", `{"order_id":"W1"}`, fix(`{"order_id":"W2"}`), recovery.Substance},
		{"how much", `{"order_id":"W1","amount":5}`, fix(`{"order_id":"W1","amount":6}`), recovery.Substance},
		{"another listed value", `{"order_id":"W1","cabin":"economy"}`, fix(`{"order_id":"W1","cabin":"business"}`), recovery.Substance},
		{"malformed, and changed", `{'order_id': 'W1',}`, fix(`{"order_id":"W2"}`), recovery.Substance},
		{"malformed, and shortened", `{'order_id': 'W1', 'ids': ['a'],}`, fix(`{"order_id":"W1"}`), recovery.Substance},
		{"cut off", `{"order_id":"W1`, fix(`{"order_id":"W1"}`), recovery.Substance},
		{"cut off between two", `{"order_id":"W1"`, fix(`{"order_id":"W1"}`), recovery.Substance},
		{"something is said after it", `{"order_id":"W1"} but ask first`, fix(`{"order_id":"W1"}`), recovery.Substance},
		{"a whole call of another tool", `{"name":"refund","arguments":{"order_id":"W1"}}`, fix(`{"order_id":"W1"}`), recovery.Substance},
		{"another tool", `{"order_id":"W1"}`, change("refund", ""), recovery.Substance},
		{"the tool of another server", `{"order_id":"W1"}`, change("bank/pay2", ""), recovery.Substance},
		{"another notation and another id", `{"order_id":"W1"}`, change("shop/pay", `{"order_id":"W2"}`), recovery.Substance},
	} {
		got, why := recovery.Classify(payCase(c.input), c.corr)
		if got != c.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
	cutOff := payCase(`{"order_id":"W1"}`)
	cutOff.InputCut = true
	if got, _ := recovery.Classify(cutOff, fix(`{"order_id":"W1"}`)); got != recovery.Substance {
		t.Error("an input that was not seen whole")
	}
	cases := payCase(`{"order_id":"W1"}`)
	cases.Tool = "bank/pay"
	if got, _ := recovery.Classify(cases, change("shop/pay", "")); got != recovery.Substance {
		t.Error("a tool of the same name at another server")
	}
}

// A changed id, amount or recipient is never called form, however the rest of
// the input is written.
func TestS3_7_AChangedValueIsNeverForm(t *testing.T) {
	id := rapid.StringMatching(`#?[A-Z]{1,3}[0-9]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		was, is := id.Draw(t, "was"), id.Draw(t, "is")
		amount := rapid.IntRange(-1000, 1000).Draw(t, "amount")
		cabin := rapid.SampledFrom([]string{"economy", "Economy", "ECONOMY "}).Draw(t, "cabin")
		old := map[string]any{"order_id": was, "amount": amount, "cabin": cabin}
		new := map[string]any{"order_id": was, "amount": amount, "cabin": "economy"}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			if trim(was) == trim(is) {
				t.Skip("the same id")
			}
			new["order_id"] = is
		case 1:
			new["amount"] = amount + rapid.IntRange(1, 99).Draw(t, "more")
		case 2:
			new["cabin"] = "business"
		case 3:
			new["ids"] = []any{is}
		}
		a, _ := json.Marshal(old)
		b, _ := json.Marshal(new)
		text := string(a)
		if rapid.Bool().Draw(t, "malformed") {
			text = text[:len(text)-1] + ",}"
		}
		if got, why := recovery.Classify(payCase(text), fix(string(b))); got != recovery.Substance {
			t.Fatalf("%s to %s is called form: %s", text, b, why)
		}
	})
}

func trim(s string) string {
	if len(s) > 0 && s[0] == '#' {
		return s[1:]
	}
	return s
}
