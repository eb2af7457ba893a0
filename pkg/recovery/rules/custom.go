package rules

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"

	"mulligan/internal/form"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Custom is the reflector of the rules that a user adds. They are asked in
// their order, and the first that matches answers; if none does, Custom skips.
// It stands before [Reflector] in a chain. It may be used concurrently.
type Custom struct {
	rules []customRule
}

type customRule struct {
	Definition
	when   evaluation
	change change6902
}

// Bounds of a definition.
const (
	maxDefinedText = 2000 // bytes of cause and guidance
	maxOperations  = 32   // of a patch, and as many of set
)

var ruleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$`)

// Compile checks rules and makes a reflector of them. Its error names all that
// is wrong: the rule, the field, the value, and the way out.
func Compile(defs []Definition) (*Custom, error) {
	if len(defs) > MaxDefinitions {
		return nil, fmt.Errorf("%d rules; at most %d are used", len(defs), MaxDefinitions)
	}
	c := &Custom{}
	var errs []error
	seen := map[string]bool{}
	for _, name := range ruleNames() {
		seen[name] = true
	}
	for i, d := range defs {
		r, err := compileRule(d)
		if err == nil && seen[d.Name] {
			err = fmt.Errorf("name %q: is that of another rule; choose one of its own", d.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d (%s): %w", i+1, brief(d.Name), err))
			continue
		}
		seen[d.Name] = true
		c.rules = append(c.rules, r)
	}
	return c, errors.Join(errs...)
}

func compileRule(d Definition) (customRule, error) {
	r := customRule{Definition: d}
	if err := checkFields(&r.Definition); err != nil {
		return r, err
	}
	var err error
	if r.when, err = compileExpression(d.When, expr.AsBool()); err != nil {
		return r, fmt.Errorf("when %q: %w", brief(d.When), err)
	}
	r.change, err = compileChange(d)
	return r, err
}

// checkFields checks what is no expression and no patch, and fills the defaults.
func checkFields(d *Definition) error {
	changes := len(d.Patch) > 0 || len(d.Set) > 0 || d.Tool != ""
	switch {
	case !ruleName.MatchString(d.Name):
		return fmt.Errorf("name %q: must be letters, digits, and . _ - after the first, at most 60", brief(d.Name))
	case len(d.Cause) > maxDefinedText || len(d.Guidance) > maxDefinedText:
		return fmt.Errorf("cause, guidance: %d and %d bytes; shorten to %d", len(d.Cause), len(d.Guidance), maxDefinedText)
	case changes && d.Recoverable != nil && !*d.Recoverable:
		return errors.New("recoverable false: contradicts patch, set or tool, which change the next call; leave one of them out")
	case strings.TrimSpace(d.Tool) != d.Tool || len(d.Tool) > messages.MaxName:
		return fmt.Errorf("tool %q: is no name of a tool", clip(d.Tool))
	case d.Fault != "" && d.Fault != messages.FaultCall && d.Fault != messages.FaultTool:
		return fmt.Errorf("fault %q: must be %q or %q, or left out", d.Fault, messages.FaultCall, messages.FaultTool)
	}
	if d.Severity == 0 {
		d.Severity = messages.Medium
	}
	if _, err := d.Severity.MarshalText(); err != nil {
		return fmt.Errorf("severity: %w; must be low, medium, high or critical", err)
	}
	if d.Recoverable == nil {
		d.Recoverable = &changes
	}
	if d.Fault == "" && changes {
		d.Fault = messages.FaultCall
	}
	return nil
}

// Names are those of the rules, in the order of asking.
func (c *Custom) Names() []string {
	var names []string
	for _, r := range c.rules {
		names = append(names, r.Name)
	}
	return names
}

// Analyse asks the rules in order, and skips if none matches. A rule that
// breaks is left out, with a note in the context of the analysis or the reason
// of the skip.
func (c *Custom) Analyse(ctx context.Context, failed recovery.Case) (recovery.Reflection, error) {
	if err := ctx.Err(); err != nil {
		return recovery.Reflection{By: Name}, recovery.Internal(err.Error())
	}
	input := objectOf(failed)
	f := factsOf(failed, input)
	var notes []string
	for i := range c.rules {
		v, err := c.rules[i].try(failed, f, input)
		if err != nil && len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf("rule %q was left out: %s", c.rules[i].Name, brief(err.Error())))
		}
		if v == nil {
			continue
		}
		v.context = strings.Join(notes, "\n")
		return recovery.Reflection{FailureAnalysis: v.analysis(failed), Fault: v.fault, By: Name, Rule: c.rules[i].Name}, nil
	}
	return recovery.Reflection{By: Name}, recovery.Skip(strings.Join(append([]string{"no added rule matches"}, notes...), "; "))
}

const maxNotes = 8 // rules that broke and are named

// objectOf is the input if it is a JSON object that was seen whole.
func objectOf(c recovery.Case) map[string]any {
	if c.InputCut || len(c.Input) > messages.MaxInline {
		return nil
	}
	v, err := form.Decode(c.Input)
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

// try is nil if the rule does not match. An error says that it broke, and it
// does not match then either.
func (r *customRule) try(c recovery.Case, f facts, input map[string]any) (*verdict, error) {
	got, err := r.when.run(f)
	if yes, _ := got.(bool); err != nil || !yes {
		return nil, err
	}
	cause := r.Cause
	if cause == "" {
		cause = "rule " + r.Name
	}
	v := &verdict{cause: cause, retry: *r.Recoverable, severity: r.Severity, guidance: r.Guidance, fault: r.Fault}
	if !r.change.any() && r.Tool == "" {
		return v, nil
	}
	v.fix = &messages.Correction{Type: messages.InputFix, Description: r.describe()}
	if r.Guidance != "" {
		v.fix.Guidance = &r.Guidance
	}
	if r.Tool != "" {
		v.fix.Type, v.fix.AlternativeTool = messages.ToolChange, &r.Tool
	}
	if r.change.any() {
		if v.fix.ModifiedInput, err = r.change.apply(c.Input, f, input); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (r *customRule) describe() string {
	var parts []string
	if r.Tool != "" {
		parts = append(parts, "calls "+r.Tool)
	}
	if places := r.change.places(); len(places) > 0 {
		parts = append(parts, "changes "+strings.Join(places[:min(len(places), 5)], ", "))
	}
	return brief("rule " + r.Name + " " + strings.Join(slices.Compact(parts), " and "))
}
