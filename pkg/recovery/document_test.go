package recovery_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func document(t *testing.T, text string) recovery.Document {
	t.Helper()
	d, err := recovery.ReadDocument(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestS2_6_PoliciesAreLaidOverEachOtherFieldByField(t *testing.T) {
	d := document(t, `{
		"pool": {"max_retries": 4, "ask_user": "park", "jitter": 0},
		"queues": {"mail": {"max_retries": 2, "initial_backoff_ms": 50}},
		"tools": {"send": {"max_retries": 1, "effect": "keyed"}}}`)
	call, err := recovery.CallValues(json.RawMessage(`{"max_retries": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		queue, tool string
		call        recovery.Values
		retries     int
		from        string
	}{
		{"other", "x", nil, 4, "pool"},
		{"mail", "x", nil, 2, `queue "mail"`},
		{"mail", "send", nil, 1, `tool "send"`},
		{"mail", "send", call, 0, "call"},
	} {
		p, from, err := d.Effective(c.queue, c.tool, c.call)
		if err != nil || *p.MaxRetries != c.retries || from["max_retries"] != c.from || p.AskUser != recovery.AskPark || p.Jitter != 0 {
			t.Errorf("%s/%s: %d from %s, %+v, %v", c.queue, c.tool, *p.MaxRetries, from["max_retries"], p, err)
		}
	}
	p, from, _ := d.Effective("mail", "send", nil)
	if p.InitialBackoff.Duration() != 50*time.Millisecond || p.Effect != messages.Keyed || from["multiplier"] != "" || p.Multiplier != 2 {
		t.Errorf("%+v, %v", p, from)
	}
	if p, _, _ := (recovery.Document{}).Effective("q", "t", nil); !reflect.DeepEqual(p, recovery.ServicePolicy()) {
		t.Errorf("an empty document is not the policy of the services: %+v", p)
	}
}

func TestAWrongPolicyNamesItsPlaceAndValue(t *testing.T) {
	for text, says := range map[string]string{
		`{"pool": {"max_retries": -1}}`:                              "pool: policy: max retries -1",
		`{"tools": {"send": {"max_retrys": 1}}}`:                     `tool "send": policy has no "max_retrys"; did you mean "max_retries"`,
		`{"queues": {"mail": {"breaker": "sometimes"}}}`:             `queue "mail": breaker: "sometimes" cannot be used`,
		`{"pool": {"ask_user": "maybe"}}`:                            `ask_user "maybe" is neither return nor park`,
		`{"pool": {"strategy": "hope"}}`:                             `strategy "hope" is neither backoff nor none`,
		`{"pool": {"effect": "harmless"}}`:                           `effect: "harmless" cannot be used`,
		`{"pool": {"jitter": null}}`:                                 "jitter is null; leave it out",
		`{"tool": {}}`:                                               "a document has pool, queues, tools",
		`{"pool": {"max_retries": "three"}}`:                         `max_retries: "three" cannot be used`,
		`[1]`:                                                        "a document has pool, queues, tools",
		`{"pool": {"initial_backoff_ms": 900, "max_backoff_ms": 5}}`: "max backoff 5ms is less than the initial backoff",
		`{"pool": {"budget_tokens": -5}}`:                            "budget_tokens -5 is negative",
	} {
		if _, err := recovery.ReadDocument(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestACallMaySetWhatConcernsItAlone(t *testing.T) {
	for text, says := range map[string]string{
		`{"effect": "read_only"}`:   "effect is the operator's to set",
		`{"allow_substance": true}`: "allow_substance is the operator's to set",
		`{"budget_tokens": -1}`:     "budget_tokens -1 is negative",
		`{"max_retries": -2}`:       "max retries -2",
		`{"max_retris": 2}`:         "did you mean",
		`7`:                         "not a JSON object",
	} {
		if _, err := recovery.CallValues(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if v, err := recovery.CallValues(json.RawMessage(`{"ask_user":"park","max_retries":1}`)); err != nil || len(v) != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

// Every field of a policy can stand in a document.
func TestDocumentsKnowEveryField(t *testing.T) {
	typ := reflect.TypeFor[recovery.Policy]()
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		_, _, err := recovery.Merge(recovery.Layer{From: "pool", Values: recovery.Values{name: json.RawMessage(`{}`)}})
		if err == nil || strings.Contains(err.Error(), "policy has no") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
