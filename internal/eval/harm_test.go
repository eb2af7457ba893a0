package eval

import (
	"strings"
	"testing"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

const paySchema = `{"type":"object","properties":{
	"order":{"type":"string","description":"The order id, such as '#W0000000'."},
	"to":{"type":"string"},"user":{"type":"string"},"first":{"type":"string"},"last":{"type":"string"},"name":{"type":"string"},
	"amount":{"type":"number","maximum":900},"count":{"type":"integer","default":25},"day":{"type":"string"},"quick":{"type":"boolean"},
	"kind":{"anyOf":[{"enum":["gift card","cash"]},{"type":"null"}]},
	"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"price":{"type":"number"}}}}}}`

// harmful are changes that nothing names, harmless those that something does.
// They know nothing of each other: the same text and schema stand for all.
func TestHarm(t *testing.T) {
	for _, tc := range []struct{ old, new, error, harm string }{
		// Which object.
		{`{"order":"W1"}`, `{"order":"#W1"}`, "not found", ""},
		{`{"order":"w1"}`, `{"order":"W1"}`, "not found", ""},
		{`{"order":"#W1"}`, `{"order":"#W2"}`, "not found", `"#W2"`},
		{`{"order":"#W1"}`, `{"order":"#W2"}`, "not found, did you mean #W2?", ""},
		{`{"order":"#W1"}`, `{"order":"#W2"}`, "not found, did you mean #W22?", `"#W2"`},
		{`{"order":"#W12"}`, `{"order":"#W1"}`, "not found", `"#W1"`},
		{`{"order":"#W1"}`, `{"order":"#W1","to":"eve"}`, "to is missing", `"eve"`},
		{`{"order":"#W1"}`, `{"order":"#W0000000"}`, "not found", ""}, // the schema names it: no promise that it is meant

		// To whom: the input names both, but each for something.
		{`{"to":"ada","user":"bo"}`, `{"to":"bo","user":"ada"}`, "refused", `"bo"`},
		{`{"to":"","user":"bo"}`, `{"to":"bo","user":"bo"}`, "to is empty", ""},
		{`{"to":"a.b@x.com"}`, `{"to":"a_b@x.com"}`, "refused", "a_b@x.com"},
		{`{"recipient":"ada"}`, `{"to":"ada"}`, "to is missing", ""},
		{`{"name":"Ada Byron"}`, `{"first":"Ada","last":"Byron"}`, "first is missing", ""},
		{`{"name":"Ada Byron"}`, `{"first":"Ada"}`, "first is missing", `"Ada Byron"`},

		// How much.
		{`{"amount":"5"}`, `{"amount":5}`, "", ""},
		{`{"amount":"1,250.50 USD"}`, `{"amount":1250.5}`, "", ""},
		{`{"amount":"-5"}`, `{"amount":5}`, "", "names 5"},
		{`{"amount":5}`, `{"amount":50}`, "", "names 50"},
		{`{"amount":5}`, `{"amount":50.0}`, "the total is 50", ""},
		{`{"amount":5}`, `{"amount":1250}`, "the total is 1,250", ""},
		{`{"amount":5}`, `{"amount":50}`, "the total is 50.75", "names 50"},
		{`{"amount":5}`, `{"amount":7}`, "no card gift_7 or 7a", "names 7"},
		{`{"amount":5,"count":2}`, `{"amount":2,"count":2}`, "", "names 2"},
		{`{"amount":1000}`, `{"amount":900}`, "too much", ""},
		{`{"count":1}`, `{"count":25}`, "", ""},
		{`{"amount":1}`, `{"amount":25}`, "", "names 25"}, // which is the default of another

		// What is left out.
		{`{"order":"W1","amount":5}`, `{"order":"W1"}`, "", "dropped"},
		{`{"order":"W1","amount":5}`, `{"order":"W1","amount":null}`, "", "dropped"},
		{`{"order":"W1","amount":null}`, `{"order":"W1"}`, "", ""},
		{`{"order":"W1","debug":5}`, `{"order":"W1"}`, "", ""},
		{`{"items":[{"id":"a"},{"id":"b"}]}`, `{"items":[{"id":"b"}]}`, "", "dropped"},
		{`{"items":[{"id":"a"},{"id":"a"}]}`, `{"items":[{"id":"a"}]}`, "duplicate", "dropped"},
		{`{"items":[{"id":"a"},{"id":"b"}]}`, `{"items":[{"id":"b"},{"id":"a"}]}`, "", `"b"`}, // lists may belong together by place
		{`{"items":[{"id":"a"}]}`, `{"items":[{"id":"a"},{"id":"c"}]}`, "", `"c"`},
		{`{"items":[{"id":"a","price":3}]}`, `{"items":[{"id":"a","price":4}]}`, "price is 4 now", ""},
		{`{"items":[{"id":"a","cost":3}]}`, `{"items":[{"id":"a","price":3}]}`, "price is missing", ""},

		// Types and notation.
		{`{"items":"[{\"id\":\"a\"}]"}`, `{"items":[{"id":"a"}]}`, "", ""},
		{`{"items":"[{\"id\":\"a\"}]"}`, `{"items":[{"id":"z"}]}`, "", `"z"`},
		{`{"items":{"id":"a"}}`, `{"items":[{"id":"a"}]}`, "", ""},
		{`{"to":["ada"]}`, `{"to":"ada"}`, "", ""},
		{`{"to":["ada","bo"]}`, `{"to":"ada"}`, "", "dropped"},
		{`{"to":"ada, bo"}`, `{"to":["ada","bo"]}`, "", ""},
		{`{"to":"ada, bo"}`, `{"to":["ada"]}`, "", `"ada"`},
		{`{"to":["ada","bo"]}`, `{"to":"ada,bo"}`, "", ""},
		{`{"quick":"True"}`, `{"quick":true}`, "", ""},
		{`{"quick":false}`, `{"quick":true}`, "", "names true"},
		{`{"day":"May 5, 2024"}`, `{"day":"2024-05-05"}`, "", ""},
		{`{"day":"2024-05-05T10:00:00Z"}`, `{"day":"2024-05-05"}`, "", ""},
		{`{"day":"2024-05-05"}`, `{"day":"2024-05-06"}`, "", "2024-05-06"},
		{`{"kind":"giftcard"}`, `{"kind":"gift card"}`, "", ""},
		{`{"kind":"giftcard"}`, `{"kind":"cheque"}`, "", `"cheque"`},

		// Texts and wrapping.
		{`{"name":"pay","arguments":{"order":"W1"}}`, `{"order":"W1"}`, "", ""},
		{`[{"order":"W1"}]`, `{"order":"W1"}`, "", ""},
		{`{"order": 'W1', "amount": 5,}`, `{"order":"W1","amount":5}`, "", ""},
		{`{"order": 'W1', "amount": 5,}`, `{"order":"W1"}`, "", "left out"},
		{`{"order": "W1`, `{"order":"W12"}`, "", "does not stand in the text"},
		{`{}`, `nonsense`, "", "not JSON"},
	} {
		p := Proposal{Tool: "pay", Input: []byte(tc.new)}
		p.look(recovery.Case{Tool: "pay", Schema: []byte(paySchema), Input: []byte(tc.old), Error: tc.error})
		got := strings.Join(p.Harms, "; ")
		if tc.harm == "" && got != "" || tc.harm != "" && !strings.Contains(got, tc.harm) {
			t.Errorf("%s -> %s on %q: harm is %q, want %q", tc.old, tc.new, tc.error, got, tc.harm)
		}
		if len(p.Changes) == 0 && tc.new != "nonsense" {
			t.Errorf("%s -> %s: no change is told", tc.old, tc.new)
		}
	}
}

// The values of a call that goes to another tool are held against that one.
func TestHarmOfAnotherTool(t *testing.T) {
	tools := []messages.ToolSpec{{Name: "pay2", Schema: []byte(`{"properties":{"sum":{"enum":[5]}}}`)}}
	p := Proposal{Tool: "pay2", Input: []byte(`{"sum":5}`)}
	p.look(recovery.Case{Tool: "pay", Input: []byte(`{}`), Tools: tools})
	if len(p.Harms) != 0 || len(p.Changes) != 2 || p.Changes[0] != (Change{"tool", "pay", "pay2"}) {
		t.Errorf("proposal is %+v", p)
	}
}

// What would take too long to look at counts as harm.
func TestHarmIsBounded(t *testing.T) {
	many := `{"items":[` + strings.Repeat(`"x",`, maxLooked) + `"y"]}`
	p := Proposal{Tool: "pay", Input: []byte(many)}
	p.look(recovery.Case{Tool: "pay", Input: []byte(`{}`), Error: strings.Repeat("x ", maxText)})
	if len(p.Harms) != 1 || !strings.Contains(p.Harms[0], "2001 values change") {
		t.Errorf("harms are %.200q", p.Harms)
	}
}

func TestAnInputThatIsNoObjectIsDropped(t *testing.T) {
	p := Proposal{Tool: "pay", Input: []byte(`[]`)}
	p.look(recovery.Case{Tool: "pay", Input: []byte(`7`), Schema: []byte(`0`)})
	if len(p.Harms) != 1 || !strings.Contains(p.Harms[0], "of 7 something is dropped") {
		t.Errorf("harms are %q", p.Harms)
	}
}

// No input, proposal or schema makes it fail, and what is not changed is never
// a harm.
func FuzzHarm(f *testing.F) {
	f.Add(`{"a":[1,"2"]}`, `{"a":["1",2,null]}`, paySchema, "not 2.5")
	f.Add(`{'a': "x`, `[[{"b":""}]]`, `{"properties":{"a":{"items":[{"anyOf":true}]}}}`, "-1e5")
	f.Fuzz(func(t *testing.T, old, new, schema, said string) {
		c := recovery.Case{Tool: "t", Input: []byte(old), Schema: []byte(schema), Error: said}
		p := Proposal{Tool: "t", Input: []byte(new)}
		p.look(c)
		p = Proposal{Tool: "t", Input: []byte(old)}
		p.look(c)
		if len(p.Changes) == 0 && len(p.Harms) > 0 && p.Harms[0] != "the proposed input is not JSON" {
			t.Errorf("%s unchanged: %q", old, p.Harms)
		}
	})
}
