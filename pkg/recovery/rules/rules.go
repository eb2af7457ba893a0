package rules

import (
	"context"
	"slices"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Name is how the reflector calls itself in decisions.
const Name = "rules"

// Reflector analyses failures by rule. It may be used concurrently.
type Reflector struct {
	schemas schema.Cache
}

// New makes a reflector.
func New() *Reflector { return &Reflector{} }

// rule is one row of the table. try returns nil for a failure that it does
// not recognise.
type rule struct {
	name string
	try  func(*sight) *verdict
}

// table is what the reflector knows, in the order of asking. Facts that the
// worker states come first, then what a text says beyond doubt, then mending
// the input, then what a text merely suggests; the last row answers always.
// docs/rules.md shows it to users.
var table = []rule{
	// What happened is not known: a machine must not act (S7.3).
	{"ambiguous-unsafe", ambiguousUnsafe},

	// Nothing ran, or the tool had no say.
	{"not-json", notJSON},
	{"arguments", arguments},
	{"tool-name", toolName},
	{"panic", panicked},
	{"output-too-large", outputTooLarge},
	{"lost", lost},
	{"timeout", timedOut},
	{"refused-for-now", refusedForNow},

	// The tool answered; its text says which of its worlds is broken.
	{"store-race", storeRace},
	{"rate-limit", byText(rateLimit, transient("the service limits how often it may be called"))},
	{"no-permission", byStatusOrText([]int{401, 402, 403, 407}, noPermission, critical("the tool is not allowed to do this", "Credentials, a subscription or a permission are missing. Do not repeat the call; tell a human what is missing.").of(""))},
	{"redirect-loop", byText(redirectLoop, hopeless("the address redirects without end", "Use another address.").of(""))},
	{"server-error", byStatusOrText(transientStatuses(), serverError, transient("the server behind the tool answered that it failed"))},
	{"gone", byEither([]int{405, 410, 501}, gone, hopeless("what was asked for is not offered any more", "Neither a repetition nor other arguments will help; use another tool.").of(messages.FaultTool))},

	// The tool complains about its input, and it can be shown how to mend it.
	{"misfit", misfit},
	{"complaint", complaint},
	{"amount", amount},
	{"bound", guess(bound)},
	{"suggested-value", suggestedValue},
	{"listed-value", listedValue},
	{"notation", notation},
	{"id-form", idForm},
	{"lengths", guess(lengths)},

	// Weaker hints of a passing fault.
	{"slow", byHint(slow, transient("something did not answer in time"))},
	{"network", byHint(network, transient("a connection failed"))},
	{"busy", byHint(busy, transient("the service is busy or down for the moment"))},
	{"unexplained", byHint(unexplained, transient("data could not be read, for no stated reason"))},

	// What only the caller can mend, by kind. A guess is what a model that
	// follows may know better, from the task or the tools; alone it is the answer.
	{"missing-input", guess(notGiven)},
	{"environment", byText(environment, critical("something is missing on the machine of the tool", "Use another tool, and tell the operator what is missing."))},
	{"command-failed", guess(unlessSilent(commandFailed, hopeless("the command ran and failed", "Read what it printed; correct the command, or what it works on, before running it again.")))},
	{"prior-step", priorStep},
	{"text-not-found", guess(byText(noSuchText, hopeless("the text to be changed is not there, or not once", "Read the place again and repeat the text exactly as it stands there, without line numbers, and long enough to be the only one.")))},
	{"not-available", byText(notAvailable, hopeless("the choice cannot be had", "Choose something else, or ask the user."))},
	{"funds", byText(funds, hopeless("there is not enough money for this", "Ask the user for another way to pay."))},
	{"not-found", guess(byEither([]int{404}, notFound, hopeless("the object that was named does not exist", "Check how the id or name is written, or look it up with another tool; do not guess.")))},
	{"state", byEither([]int{409}, forbiddenState, hopeless("the state of the object does not allow this", "Other arguments will not help. Another operation may; else tell the user."))},
	{"bug", byText(bug, critical("the tool itself failed on this input", "Use another tool, or a simpler input once; do not repeat the call unchanged."))},
	{"unaccepted", guess(byEither([]int{400, 406, 411, 412, 413, 415, 422}, unaccepted, hopeless("a value is not accepted", "Read the error and give a value that the tool accepts; the same one never will be.")))},
	{"unknown", guess(unknown)},
}

// guess marks what a rule says as a guess, unless it mends something.
func guess(try func(*sight) *verdict) func(*sight) *verdict {
	return func(s *sight) *verdict {
		v := try(s)
		if v == nil || v.fix != nil {
			return v
		}
		marked := *v // rules share their verdicts
		marked.guess = true
		return &marked
	}
}

// Names are those of the table, in the order of asking.
func Names() []string {
	var names []string
	for _, r := range table {
		names = append(names, r.name)
	}
	return names
}

// Analyse asks the rules in order. It never fails.
func (r *Reflector) Analyse(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
	if err := ctx.Err(); err != nil {
		return recovery.Reflection{By: Name}, recovery.Internal(err.Error())
	}
	s := look(c, &r.schemas)
	for _, rule := range table {
		v := rule.try(s)
		if v == nil {
			continue
		}
		name := rule.name
		if v.rule != "" {
			name = v.rule
		}
		return recovery.Reflection{FailureAnalysis: v.analysis(c), Fault: v.fault, By: Name, Rule: name, Guess: v.guess}, nil
	}
	return recovery.Reflection{By: Name}, recovery.Skip("no rule recognised the failure")
}

// verdict is what a rule found out.
type verdict struct {
	cause    string
	retry    bool // the same call again
	severity messages.Severity
	fault    messages.Fault // whose, as far as is known (S8.2)
	fix      *messages.Correction
	first    bool // the guidance names a step that comes first
	guidance string
	context  string
	guess    bool   // a reflector that follows may know better
	rule     string // in place of the row's name, where it did several things
}

// analysis keeps the error's own words: the root cause of a failure that
// nobody recovers is what people read first.
func (v *verdict) analysis(c recovery.Case) messages.FailureAnalysis {
	a := messages.FailureAnalysis{
		IsRecoverable: v.retry || v.fix != nil,
		RootCause:     v.cause + ": " + brief(c.Error),
		Severity:      v.severity,
		Correction:    v.fix,
		Context:       v.context,
	}
	if a.Correction == nil && v.guidance != "" {
		a.Correction = &messages.Correction{Type: messages.ApproachChange, Description: v.guidance, Guidance: &v.guidance}
		if v.first {
			a.Correction.Type = messages.PrerequisiteFix
		}
	}
	return a
}

// of says whose fault it is instead.
func (v *verdict) of(f messages.Fault) *verdict {
	v.fault = f
	return v
}

func transient(cause string) *verdict {
	return &verdict{cause: cause, retry: true, severity: messages.Low, fault: messages.FaultTool}
}

func hopeless(cause, guidance string) *verdict {
	return &verdict{cause: cause, severity: messages.High, fault: messages.FaultCall, guidance: guidance}
}

func critical(cause, guidance string) *verdict {
	return &verdict{cause: cause, severity: messages.Critical, fault: messages.FaultTool, guidance: guidance}
}

func unknown(*sight) *verdict {
	return &verdict{cause: "not recognised", severity: messages.Medium,
		guidance: "Read the error and change the call accordingly; if it says nothing about the arguments, use another tool or ask the user."}
}

// ruleNames are the names that a decision may show: those of the rows, and
// those of the things that the rows mend.
func ruleNames() []string {
	return slices.Concat(Names(), []string{"json-syntax", "json-object-in-text", "json-in-string", "list-of-one", "whole-call", "json-type", "parameter-name", "enum-case", "enum-nearest"})
}
