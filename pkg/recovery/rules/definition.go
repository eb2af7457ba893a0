package rules

import (
	"encoding/json"

	"mulligan/pkg/messages"
)

// Definition is a rule that a user adds; [Compile] makes a reflector of some.
// It is an object of JSON in the policies of a pool.
type Definition struct {
	// Name is shown as the rule of a decision. Required: letters, digits and
	// . _ -, at most 60; no other rule has it, those of the table included.
	Name string `json:"name"`
	// When says which failures the rule is for: an expression that is true or
	// false. Required. docs/rules.md lists what it may use.
	When string `json:"when"`
	// Recoverable says whether the call is tried again. Left out, it is if the
	// rule changes something (patch, set, tool).
	Recoverable *bool `json:"recoverable,omitempty"`
	// Severity is medium if left out. A change at high or above asks a human.
	Severity messages.Severity `json:"severity,omitempty"`
	// Cause is for people, Guidance for the caller's model; at most 2,000 bytes each.
	Cause    string `json:"cause,omitempty"`
	Guidance string `json:"guidance,omitempty"`
	// Patch changes the input by RFC 6902, at most 32 operations. One that does
	// not apply means that the rule does not match.
	Patch []Operation `json:"patch,omitempty"`
	// Set puts what an expression yields at the place that a JSON pointer
	// names, after the patch; at most 32. What stands there is replaced.
	Set map[string]string `json:"set,omitempty"`
	// Tool is called in place of the one that failed.
	Tool string `json:"tool,omitempty"`
	// Fault says whose fault the failure is: "call", which the circuit breaker
	// does not count, or "tool". Left out, it is "call" if the rule changes
	// something, else not known.
	Fault messages.Fault `json:"fault,omitempty"`
}

// Operation is one of a patch (RFC 6902).
type Operation struct {
	Op    string          `json:"op"` // add, remove, replace, move, copy, test
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`  // of move and copy
	Value json.RawMessage `json:"value,omitempty"` // of add, replace and test
}

// MaxDefinitions is how many rules a user may add.
const MaxDefinitions = 200
