package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mulligan/internal/catalogue"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// fakeValues is a bucket with one value, or with none.
type fakeValues struct {
	value string
	err   error
}

func (f fakeValues) Load(context.Context, messages.Bucket, string) (messages.Entry, error) {
	return messages.Entry{Value: []byte(f.value), Revision: 7}, f.err
}

func TestPoliciesOfAPoolAreReadAsFarAsTheyCanBe(t *testing.T) {
	for _, tc := range []struct {
		held     fakeValues
		revision uint64
		document string
		says     string
	}{
		{fakeValues{err: messages.ErrNotFound}, 0, "", ""},
		{fakeValues{err: errors.New("no right to read")}, 0, "", "cannot be read: no right to read"},
		{fakeValues{value: `{"version":"1","document":{"pool":{"max_retries":1}},"by":"ann"}`}, 7, `{"pool":{"max_retries":1}}`, ""},
		{fakeValues{value: `{"version":"1","document":null,"by":"ann"}`}, 7, "", ""},
		{fakeValues{value: `{"version":"1","document":{"moons":{}},"by":"ann"}`}, 7, `{"moons":{}}`, "cannot be read by this version"},
		{fakeValues{value: `{"version":"2","document":{}}`}, 7, ``, "this build reads version 1"},
	} {
		h, err := catalogue.Policies(t.Context(), tc.held)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc.held, err)
		}
		if h.Revision != tc.revision || tc.document != "" && string(h.Document) != tc.document {
			t.Errorf("%+v: revision %d, %s", tc.held, h.Revision, h.Document)
		}
	}
}

func TestThePolicyOfAToolTellsEveryField(t *testing.T) {
	_, d, err := (&app{IO: IO{In: strings.NewReader(`
pool: {max_retries: 2, exclude_tools: [x, y]}
queues: {mail: {prompt_template: "say\nit", ask_user: park}}
tools: {send: {effect: idempotent, budget_tokens: 5}}`)}}).readPolicies("-")
	if err != nil {
		t.Fatal(err)
	}
	values, err := policyOf(d, messages.ToolSpec{Name: "send", Queue: "mail", Effect: messages.Unsafe})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, v := range values {
		if !json.Valid(v.Value) || v.text() == "" {
			t.Errorf("%s is shown as %q, %s", v.Field, v.text(), v.Value)
		}
		got[v.Field] = v.text() + " from " + v.From
	}
	for _, field := range recovery.PolicyFields() {
		if got[field] == "" {
			t.Errorf("%s is not shown", field)
		}
	}
	for field, want := range map[string]string{
		"max_retries": "2 from pool", "exclude_tools": "x, y from pool", "prompt_template": `say it from queue "mail"`, "ask_user": `park from queue "mail"`,
		"effect": `idempotent from tool "send"`, "budget_tokens": `5 from tool "send"`, "budget_cost_micros": "no bound from default",
		"include_tools": "all from default", "reflectors": "rules, llm from default", "jitter": "0.5 from default",
	} {
		if got[field] != want {
			t.Errorf("%s: %s, want %s", field, got[field], want)
		}
	}
	plain := messages.ToolSpec{Name: "other", Queue: "q", Effect: messages.Keyed}
	if e := catalogue.Override(d, plain); e != "" {
		t.Errorf("an effect that nobody overrides: %s", e)
	}
	values, err = policyOf(d, plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Field == "effect" && v.text()+" from "+v.From != "keyed from declared" {
			t.Errorf("effect %s from %s", v.text(), v.From)
		}
	}
}
