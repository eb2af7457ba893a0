package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mulligan/pkg/recovery"
)

// Change is one value that two documents do not have in common. Was or Is is
// nil where a document does not have it.
type Change struct {
	Where string          `json:"where"` // such as pool, queue "mail", rules
	Field string          `json:"field"` // of the policy, or the name of a rule or hook
	Was   json.RawMessage `json:"was,omitempty"`
	Is    json.RawMessage `json:"is,omitempty"`
}

// String is a line for people.
func (c Change) String() string {
	switch {
	case c.Was == nil:
		return fmt.Sprintf("+ %s: %s %s", c.Where, c.Field, plain(c.Is))
	case c.Is == nil:
		return fmt.Sprintf("- %s: %s %s", c.Where, c.Field, plain(c.Was))
	}
	return fmt.Sprintf("~ %s: %s %s -> %s", c.Where, c.Field, plain(c.Was), plain(c.Is))
}

// Diff lists what changes from one document to another, in the order in which
// layers stand over each other.
func Diff(was, is recovery.Document) []Change {
	out := diffValues("pool", was.Pool, is.Pool)
	out = append(out, diffLayers("queue", was.Queues, is.Queues)...)
	out = append(out, diffLayers("tool", was.Tools, is.Tools)...)
	out = append(out, diffValues("rules", named(was.Rules), named(is.Rules))...)
	return append(out, diffValues("hooks", named(was.Hooks), named(is.Hooks))...)
}

func diffLayers(what string, was, is map[string]recovery.Values) []Change {
	var out []Change
	for _, name := range keys(was, is) {
		out = append(out, diffValues(fmt.Sprintf("%s %q", what, name), was[name], is[name])...)
	}
	return out
}

func diffValues(where string, was, is recovery.Values) []Change {
	var out []Change
	for _, field := range keys(was, is) {
		if w, i := was[field], is[field]; !bytes.Equal(plain(w), plain(i)) {
			out = append(out, Change{Where: where, Field: field, Was: w, Is: i})
		}
	}
	return out
}

// named gives rules and hooks by their names, or by their places where they
// have none. A change of their order alone shows in the number behind a name.
func named(list []json.RawMessage) recovery.Values {
	out := make(recovery.Values, len(list))
	for i, raw := range list {
		var v struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(raw, &v) // one without a name has its place
		out[fmt.Sprintf("%s (%d)", v.Name, i+1)] = raw
	}
	return out
}

func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// plain is JSON in one form, so that white space and the order of keys do not
// count.
func plain(raw json.RawMessage) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return raw
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read it: && and > stand in many expressions
	if err := enc.Encode(v); err != nil {
		return raw
	}
	return bytes.TrimSpace(b.Bytes())
}

// Same says whether two documents are the same JSON; nil is none.
func Same(a, b json.RawMessage) bool { return bytes.Equal(plain(orNull(a)), plain(orNull(b))) }

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
