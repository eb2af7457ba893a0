package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/expr-lang/expr"

	"mulligan/internal/expression"
	"mulligan/internal/strict"
)

// Rule is a hook by expression, as it stands under hooks in the policies of a
// pool. It has a veto or a note.
type Rule struct {
	// Name and Priority are those of the [Hook].
	Name     string `json:"name"`
	Priority int    `json:"priority,omitempty"`
	// When says which calls or attempts the rule is for: an expression that is
	// true or false. docs/hooks.md lists what it may use.
	When string `json:"when"`
	// Veto is the reason for which such a call does not run, for the caller's
	// model; at most 1,000 bytes.
	Veto string `json:"veto,omitempty"`
	// Note is what is logged and counted of such an attempt; at most 1,000 bytes.
	Note string `json:"note,omitempty"`
}

const maxText = 1000 // bytes of veto and note

// Noted is told of an attempt that the rule of a note is for. With an error the
// rule could not say whether it is.
type Noted func(r Rule, a Attempt, err error)

// ReadRules reads the hooks of a document, each of which is a JSON object. An
// error names the hook and the field.
func ReadRules(hooks []json.RawMessage) ([]Rule, error) {
	rules := make([]Rule, len(hooks))
	for i, raw := range hooks {
		if err := strict.Decode(raw, &rules[i]); err != nil {
			return nil, fmt.Errorf("hook %d: %w; a hook has name, priority, when, and veto or note", i+1, err)
		}
	}
	return rules, nil
}

// FromDocument is the chain of the hooks that stand in the policies of a pool,
// of which it reads nothing else. No document has none.
func FromDocument(document json.RawMessage, noted Noted) (*Chain, error) {
	var d struct {
		Hooks []json.RawMessage `json:"hooks"`
	}
	if len(document) > 0 {
		if err := json.Unmarshal(document, &d); err != nil {
			return nil, fmt.Errorf("policies: %w", err)
		}
	}
	rules, err := ReadRules(d.Hooks)
	if err != nil {
		return nil, err
	}
	return Compile(rules, noted)
}

// Compile makes a chain of rules; noted may be nil. Its error names all that is
// wrong: the hook, the field, the value, and the way out.
func Compile(rules []Rule, noted Noted) (*Chain, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	var errs []error
	hooks := make([]Hook, len(rules))
	for i, r := range rules {
		h, err := r.compile(noted)
		if err != nil {
			err = fmt.Errorf("hook %d (%s): %w", i+1, cut(r.Name, 80), err)
		}
		hooks[i] = h
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return NewChain(hooks...)
}

func (r Rule) compile(noted Noted) (Hook, error) {
	h := Hook{Name: r.Name, Priority: r.Priority}
	var err error
	switch {
	case r.Veto != "" && r.Note != "":
		return h, errors.New("veto and note: a hook has one of them; write two hooks")
	case len(r.Veto) > maxText || len(r.Note) > maxText:
		return h, fmt.Errorf("veto, note: %d bytes; shorten to %d", len(r.Veto)+len(r.Note), maxText)
	case r.Veto != "":
		h.when, err = compileWhen(r.When, facts{})
		h.Before = func(_ context.Context, c Call) (string, error) { return r.before(h.when, c) }
	case r.Note != "":
		h.when, err = compileWhen(r.When, attemptFacts{})
		h.After = func(_ context.Context, a Attempt) { r.after(h.when, a, noted) }
	default:
		return h, errors.New("veto, note: neither is set, so that the hook does nothing; give a reason as veto, or a text as note")
	}
	return h, err
}

func compileWhen(text string, env any) (*expression.Expression, error) {
	options := []expr.Option{expr.AsBool(), expression.Lazy("input", inputName), expression.Lazy("task", taskName)}
	e, err := expression.Compile(text, env, options...)
	if err == nil {
		return e, nil
	}
	err = fmt.Errorf("when %q: %w", cut(text, 200), err)
	if _, isVeto := env.(facts); isVeto {
		if _, asNote := expression.Compile(text, attemptFacts{}, options...); asNote == nil {
			err = fmt.Errorf("%w; how an attempt ended is known to a note, not to a veto", err)
		}
	}
	return nil, err
}

func (r Rule) before(when *expression.Expression, c Call) (string, error) {
	f := factsOf(c)
	f.Functions = when.Functions(c.read.work)
	is, err := when.Run(f, c.read.work)
	if yes, _ := is.(bool); !yes || err != nil {
		return "", err
	}
	return r.Veto, nil
}

func (r Rule) after(when *expression.Expression, a Attempt, noted Noted) {
	if noted == nil {
		return
	}
	f := attemptFactsOf(a)
	f.Functions = when.Functions(a.read.work)
	is, err := when.Run(f, a.read.work)
	if yes, _ := is.(bool); yes || err != nil {
		noted(r, a, err)
	}
}
