package policies

import (
	"encoding/json"
	"fmt"

	"mulligan/internal/strict"
	"mulligan/pkg/hook"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// Check reads a document and compiles all that is in it. The error names the
// place, the value and the way out.
func Check(raw json.RawMessage) (recovery.Document, error) {
	d, err := recovery.ReadDocument(raw)
	if err != nil {
		return recovery.Document{}, err
	}
	if _, err := compile(d, nil); err != nil {
		return recovery.Document{}, err
	}
	return d, nil
}

// compiled is a document and what became of it.
type compiled struct {
	document recovery.Document
	effects  bool          // it says something of effects
	rules    *rules.Custom // nil for none
	hooks    *hook.Chain   // nil for none
}

func compile(d recovery.Document, noted hook.Noted) (compiled, error) {
	c := compiled{document: d, effects: d.Overrides("effect")}
	var err error
	if len(d.Rules) > 0 {
		if c.rules, err = Rules(d); err != nil {
			return compiled{}, err
		}
	}
	of, err := hook.ReadRules(d.Hooks)
	if err == nil {
		c.hooks, err = hook.Compile(of, noted)
	}
	if err != nil {
		return compiled{}, fmt.Errorf("hooks: %w", err)
	}
	return c, nil
}

// Rules compiles the rules of a document.
func Rules(d recovery.Document) (*rules.Custom, error) {
	defs := make([]rules.Definition, len(d.Rules))
	for i, raw := range d.Rules {
		if err := strict.Decode(raw, &defs[i]); err != nil {
			return nil, fmt.Errorf("rules: rule %d: %w", i+1, err)
		}
	}
	c, err := rules.Compile(defs)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return c, nil
}
