package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// policyValue is one field of the policy that holds for a tool.
type policyValue struct {
	Field string          `json:"-"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"` // default, pool, queue "x", tool "y"; declared, for the effect
}

// policyOf is the policy of a tool's calls, unless they bring their own: every
// field with where its value stands.
func policyOf(d recovery.Document, t messages.ToolSpec) ([]policyValue, error) {
	p, from, err := d.Effective(t.Queue, t.Name, nil)
	if err != nil {
		return nil, err
	}
	values := p.Values()
	var out []policyValue
	for _, field := range recovery.PolicyFields() {
		v := policyValue{Field: field, Value: values[field], From: "default"}
		if v.Value == nil {
			v.Value = json.RawMessage(unset[field])
		}
		if at, ok := from[field]; ok {
			v.From = at
		}
		if field == "effect" && p.Effect == "" {
			v.Value, v.From = json.RawMessage(`"`+string(t.Effect)+`"`), "declared"
		}
		out = append(out, v)
	}
	return out, nil
}

// unset is the JSON of fields that are not set and stand for something all the
// same; the text for people is in meaning.
var unset = map[string]string{
	"jitter": "0", "retry_critical": "false", "allow_substance": "false", "include_tools": "[]", "exclude_tools": "[]", "reflectors": "[]",
	"answer_by_ms": "0", "budget_tokens": "0", "budget_cost_micros": "0",
}

var meaning = map[string]string{
	"include_tools []": "all", "exclude_tools []": "none", "reflectors []": "none",
	"answer_by_ms 0": "as the coordinators say", "budget_tokens 0": "no bound", "budget_cost_micros 0": "no bound",
}

// text is the value for people: a text without quotes, a list without brackets.
func (v policyValue) text() string {
	if says, ok := meaning[v.Field+" "+string(v.Value)]; ok {
		return says
	}
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return oneLine(s, 60)
	}
	var list []string
	if json.Unmarshal(v.Value, &list) == nil {
		return oneLine(strings.Join(list, ", "), 60)
	}
	return string(v.Value)
}

func (a *app) printPolicy(values []policyValue) error {
	if _, err := fmt.Fprintln(a.Out); err != nil {
		return err
	}
	var rows [][]string
	for _, v := range values {
		rows = append(rows, []string{v.Field, v.text(), v.From})
	}
	return table(a.Out, []string{"POLICY", "VALUE", "FROM"}, rows)
}
