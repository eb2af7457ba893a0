package recovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mulligan/internal/excerpt"
	"mulligan/internal/strict"
	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// Values are some of the fields of a [Policy], by their JSON names. What is not
// among them is not said, which is another thing than its zero value.
type Values map[string]json.RawMessage

// Document holds the policies of a pool, in the order in which they are laid
// over each other: what is said for a tool stands over what is said for its
// queue, that over the pool, that over the defaults, and what a call brings
// stands over all (docs/policies.md).
type Document struct {
	Pool   Values            `json:"pool,omitempty"`
	Queues map[string]Values `json:"queues,omitempty"`
	Tools  map[string]Values `json:"tools,omitempty"`
	// Hooks and Rules are read by those who run them: a veto or observer by
	// expression, and rules of one's own for the rules reflector.
	Hooks []json.RawMessage `json:"hooks,omitempty"`
	Rules []json.RawMessage `json:"rules,omitempty"`
}

// Layer is a set of values and where they stand.
type Layer struct {
	From   string // such as "pool" or `tool "send_mail"`
	Values Values
	// Call is set for what a call brings: of a budget it may make less, not more.
	Call bool
}

// Origins says for each field that is not a default where its value stands.
type Origins map[string]string

// callFields are the fields that a submitter may set for its own call, also
// above what an operator says for its tool: those that cost nobody else anything.
// What an operator has to be sure of is not among them.
var callFields = []string{
	"strategy", "max_retries", fieldInitial, "multiplier", fieldMax, "jitter", "ask_user", "answer_by_ms", "breaker",
	fieldTokens, fieldCost, "loop_warn", "loop_stop",
}

// Effective is the policy for a call of a tool, with its defaults, and where
// each value stands. call may be nil.
func (d Document) Effective(queue, tool string, call Values) (Policy, Origins, error) {
	return Merge(
		Layer{From: "pool", Values: d.Pool},
		Layer{From: fmt.Sprintf("queue %q", queue), Values: d.Queues[queue]},
		Layer{From: fmt.Sprintf("tool %q", tool), Values: d.Tools[tool]},
		Layer{From: "call", Values: call, Call: true},
	)
}

// Merge lays the layers over the policy of the services, field by field: a
// list replaces a list. The first wrong value is the error, with its layer,
// field and value. Layers that are right by themselves never contradict each
// other: where the first delay of one is above the longest of another, the
// later layer is right and the other value follows it.
func Merge(layers ...Layer) (Policy, Origins, error) {
	p := Policy{Jitter: serviceJitter}
	from := make(Origins)
	for _, l := range layers {
		before := p
		for _, field := range slices.Sorted(maps.Keys(l.Values)) {
			if err := p.set(field, l.Values[field]); err != nil {
				return Policy{}, nil, fmt.Errorf("%s: %w", l.From, err)
			}
			if !l.Call || !p.capped(field, before) {
				from[field] = l.From
			}
		}
		p.fit(l, from)
	}
	p = p.WithDefaults()
	if err := p.Validate(); err != nil {
		return Policy{}, nil, fmt.Errorf("%s: %w", blame(layers), err)
	}
	return p, from, nil
}

// capped takes back a budget that is larger than the one before, of which 0
// has no bound, and says whether it did.
func (p *Policy) capped(field string, before Policy) bool {
	keep := func(now *int64, was int64) bool {
		if was == 0 || *now > 0 && *now <= was {
			return false
		}
		*now = was
		return true
	}
	switch field {
	case fieldTokens:
		return keep(&p.BudgetTokens, before.BudgetTokens)
	case fieldCost:
		return keep(&p.BudgetCostMicros, before.BudgetCostMicros)
	}
	return false
}

// Under lays what all calls of a run or file bring under what one brings by
// itself. What is no JSON object is left to whoever checks it.
func Under(all, own json.RawMessage) json.RawMessage {
	if len(own) == 0 {
		return all
	}
	if len(all) == 0 {
		return own
	}
	var values Values
	for _, layer := range []json.RawMessage{all, own} {
		if json.Unmarshal(layer, &values) != nil {
			return own
		}
	}
	both, err := json.Marshal(values)
	if err != nil {
		return own
	}
	return both
}

// fit makes the one delay follow the other that l has just set. What l says of
// both is left to [Policy.Validate].
func (p *Policy) fit(l Layer, from Origins) {
	first := cmp.Or(p.InitialBackoff, defaultBackoff)
	if p.MaxBackoff == 0 || first <= p.MaxBackoff {
		return
	}
	_, saysFirst := l.Values[fieldInitial]
	_, saysLongest := l.Values[fieldMax]
	switch {
	case saysFirst && !saysLongest:
		p.MaxBackoff, from[fieldMax] = first, l.From
	case saysLongest && !saysFirst:
		p.InitialBackoff, from[fieldInitial] = p.MaxBackoff, l.From
	}
}

const (
	fieldInitial = "initial_backoff_ms"
	fieldMax     = "max_backoff_ms"
	fieldEffect  = "effect"
	fieldTokens  = "budget_tokens"
	fieldCost    = "budget_cost_micros"
)

// blame names the layers that may hold a value that fits no other.
func blame(layers []Layer) string {
	var names []byte
	for _, l := range layers {
		if len(l.Values) == 0 {
			continue
		}
		if names != nil {
			names = append(names, " + "...)
		}
		names = append(names, l.From...)
	}
	return string(names)
}

// set gives one field its value.
func (p *Policy) set(field string, value json.RawMessage) error {
	if !slices.Contains(policyFields, field) {
		if meant := suggest.Meant(field, policyFields); meant != "" {
			return fmt.Errorf("policy has no %q%s", field, meant)
		}
		return fmt.Errorf("policy has no %q; docs/policies.md lists what there is", field)
	}
	one, err := json.Marshal(map[string]json.RawMessage{field: value})
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if string(bytes.TrimSpace(value)) == "null" {
		return fmt.Errorf("%s is null; leave it out", field)
	}
	if err := json.Unmarshal(one, p); err != nil {
		return fmt.Errorf("%s: %s cannot be used: %w", field, excerpt.Of(string(value), 80), err)
	}
	return nil
}

// policyFields are the JSON names of all fields of a [Policy]; a test holds
// them to it.
var policyFields = append(slices.Clone(callFields),
	"reflectors", "include_tools", "exclude_tools", "prompt_template", "retry_critical", "allow_substance", fieldEffect,
	"breaker_threshold", "breaker_reset_ms")

// PolicyFields are the JSON names of all fields of a [Policy].
func PolicyFields() []string { return slices.Clone(policyFields) }

// Overrides says whether any layer sets this field.
func (d Document) Overrides(field string) bool {
	has := func(v Values) bool { _, ok := v[field]; return ok }
	for _, layers := range []map[string]Values{{"": d.Pool}, d.Queues, d.Tools} {
		for _, v := range layers {
			if has(v) {
				return true
			}
		}
	}
	return false
}

// CallValues reads what a submission brings as its policy; an error names the
// field that a submitter may not set.
func CallValues(raw json.RawMessage) (Values, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var v Values
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, errors.New("policy is not a JSON object")
	}
	for _, field := range slices.Sorted(maps.Keys(v)) {
		if slices.Contains(policyFields, field) && !slices.Contains(callFields, field) {
			return nil, fmt.Errorf("policy: %s is the operator's to set, for the pool, a queue or a tool; a call may set %v", field, callFields)
		}
	}
	if _, _, err := Merge(Layer{From: "policy", Values: v}); err != nil {
		return nil, err
	}
	return v, nil
}

// ReadDocument reads a document from its JSON and checks every layer of it by
// itself. Unknown fields are errors. Hooks and rules are only read as JSON.
func ReadDocument(raw json.RawMessage) (Document, error) {
	var d Document
	if len(raw) > messages.MaxPolicyDocument {
		return d, fmt.Errorf("the policies are %d bytes long, the limit is %d", len(raw), messages.MaxPolicyDocument)
	}
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return d, nil
	}
	if err := strict.Decode(raw, &d); err != nil {
		return Document{}, fmt.Errorf("policies: %w; a document has pool, queues, tools, hooks and rules", err)
	}
	return d, d.Check()
}

// Check finds the first value that cannot be used, wherever it stands. A
// document without one has an effective policy for every queue and tool.
func (d Document) Check() error {
	if _, _, err := Merge(Layer{From: "pool", Values: d.Pool}); err != nil {
		return err
	}
	if _, ok := d.Pool[fieldEffect]; ok {
		return errors.New("pool: effect is that of a tool; say it for a tool, or for a queue whose tools have it in common")
	}
	for _, q := range slices.Sorted(maps.Keys(d.Queues)) {
		if err := messages.CheckName("queue", q, messages.MaxQueueName); err != nil {
			return fmt.Errorf("queues: %w", err)
		}
		if _, _, err := Merge(Layer{From: "pool", Values: d.Pool}, Layer{From: fmt.Sprintf("queue %q", q), Values: d.Queues[q]}); err != nil {
			return err
		}
	}
	for _, t := range slices.Sorted(maps.Keys(d.Tools)) {
		if err := messages.CheckName("tool", t, messages.MaxName); err != nil {
			return fmt.Errorf("tools: %w", err)
		}
		if _, _, err := Merge(Layer{From: "pool", Values: d.Pool}, Layer{From: fmt.Sprintf("tool %q", t), Values: d.Tools[t]}); err != nil {
			return err
		}
	}
	return nil
}
