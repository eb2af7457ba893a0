package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mulligan/internal/excerpt"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// Decider puts reflector, strategy and policy together. It may be used
// concurrently if its reflector and strategy may.
type Decider struct {
	reflector Reflector
	strategy  Strategy
	policy    Policy
	schemas   schema.Cache
}

// NewDecider checks the policy, after filling its defaults. A nil reflector is
// [NoOp], a nil strategy [DefaultBackoff]: together they retry nothing (S2.2).
func NewDecider(r Reflector, s Strategy, p Policy) (*Decider, error) {
	p = p.WithDefaults()
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if r == nil {
		r = NoOp{}
	}
	if s == nil {
		s = DefaultBackoff()
	}
	return &Decider{reflector: r, strategy: s, policy: p}, nil
}

// Reflectable says whether failures of this kind are reflected on (the table
// of S6). What never ran since somebody refused it is not: a denial, an unknown
// tool at submission. A code that this build does not know is.
func Reflectable(code messages.Code) bool {
	switch code {
	case messages.CodeDenied, messages.CodeUnknownTool, messages.CodeTooLarge, messages.CodeBadCall, messages.CodeQueueFull,
		messages.CodeCancelled, messages.CodeRunEnded, messages.CodeRunIsOver, messages.CodeDeadline, messages.CodeDeadlinePassed,
		messages.CodeHookVeto, messages.CodeBreakerOpen, messages.CodeLoopDetected:
		return false
	}
	return true
}

// Decide analyses, then decides (S2.2), and returns a decision without the
// fields that name the call, the process and the time. It always returns one:
// a reflector that fails or panics ends the call soft (S9.4), and nothing is
// guessed in its place.
//
// What leaves it holds no proposed input that breaks the schema of the tool
// (S9.5), and no correction of substance to an unsafe tool below high (S3.7).
func (d *Decider) Decide(ctx context.Context, c Case) messages.Decision {
	dec := messages.Decision{MaxRetries: d.policy.Retries(), Park: d.policy.AskUser == AskPark, AnswerBy: d.policy.AnswerBy, By: "policy"}
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), func(t messages.ToolSpec) bool { return !d.policy.Covers(t.Name) }) // never changed to (S3.3)
	switch {
	case c.Code == messages.CodeBreakerOpen && c.RetryAfter > 0 && d.policy.Breaker == messages.BreakerDefer:
		dec.Action = messages.Retry(0) // it waits for the reset, which spends nothing (S8.3)
	case !d.policy.Covers(c.Tool):
		dec.Action = messages.Fail(fmt.Sprintf("recovery is switched off for tool %q", c.Tool))
	case !Reflectable(c.Code):
		dec.Action = messages.Fail(c.Error)
	default:
		d.reflect(ctx, c, &dec)
	}
	if dec.Action.Type == messages.ActRetry {
		dec.Action.Delay = messages.Millis(max(dec.Action.Delay.Duration(), c.RetryAfter, 0)) // a floor (S6.2)
	}
	dec.Guidance = Render(d.policy.PromptTemplate, PromptValues{
		Tool: c.Tool, Error: c.Error, Args: string(bytes.ToValidUTF8(c.Input, []byte("\uFFFD"))),
		Attempt: c.Context.Attempt, MaxRetries: dec.MaxRetries, Guidance: guidance(dec.Analysis),
	})
	return dec
}

func guidance(a *messages.FailureAnalysis) string {
	if a == nil {
		return ""
	}
	return a.Correction.GuidanceText()
}

func (d *Decider) reflect(ctx context.Context, c Case, dec *messages.Decision) {
	got, err := d.analyse(ctx, c)
	dec.Usage = got.Usage
	if err != nil {
		dec.By, dec.Error = got.By, err.Error()
		dec.Action = messages.Fail(dec.Error)
		return
	}
	a := got.FailureAnalysis
	dec.By, dec.Rule, dec.Fault, dec.Analysis = got.By, got.Rule, got.Fault, &a
	if refused := d.refuseMisfit(c, &a); refused != "" {
		dec.Action = messages.Fail(refused)
		return
	}
	d.raise(c, &a)
	if c.FreeWait() && a.IsRecoverable && !mechanical(a.Correction) {
		dec.Action = messages.Retry(0) // the hint is the delay; no attempt is spent, so no budget is asked
		return
	}
	dec.Action = d.act(a, c.Context)
}

// analyse keeps the faults of a reflector within it.
func (d *Decider) analyse(ctx context.Context, c Case) (got Reflection, err error) {
	defer func() {
		if p := recover(); p != nil {
			got, err = Reflection{}, &messages.ReflectionError{Reason: fmt.Sprintf("panic: %v", p)}
		}
	}()
	c.MaxRetries, c.Budget = d.policy.Retries(), Budget{Tokens: d.policy.BudgetTokens, CostMicros: d.policy.BudgetCostMicros}
	got, err = d.reflector.Analyse(ctx, c)
	if err != nil {
		return got, reflectionError(err)
	}
	if err := checkReflection(got); err != nil {
		return got, &messages.ReflectionError{Reason: err.Error()}
	}
	if got.Correction != nil { // a copy, since what follows changes it
		corr := *got.Correction
		got.Correction = &corr
	}
	return got, nil
}

// maxTexts bounds the texts of an analysis, in bytes, so that a decision with
// them, an input and a prompt always fits into a message.
const maxTexts = 2*messages.MaxErrorText + 32<<10

// checkReflection refuses what could not be written or read as a decision.
func checkReflection(r Reflection) error {
	if _, err := r.Severity.MarshalText(); err != nil {
		return err
	}
	corr := r.Correction
	n := len(r.RootCause) + len(r.Context)
	if corr != nil {
		n += len(corr.Description) + len(corr.GuidanceText())
	}
	if n > maxTexts {
		return fmt.Errorf("the texts of the analysis are %d bytes long, the limit is %d", n, maxTexts)
	}
	if corr == nil {
		return nil
	}
	if err := new(messages.CorrectionType).UnmarshalText([]byte(corr.Type)); err != nil {
		return err
	}
	if corr.Description == "" {
		return fmt.Errorf("correction %s has no description", corr.Type)
	}
	if len(corr.ModifiedInput) > 0 && !json.Valid(corr.ModifiedInput) {
		return fmt.Errorf("correction %s: modified_input is not JSON", corr.Type)
	}
	if n := len(corr.ModifiedInput); n > messages.MaxInline {
		return fmt.Errorf("correction %s: modified_input is %d bytes long, the limit is %d", corr.Type, n, messages.MaxInline)
	}
	return nil
}

// refuseMisfit takes an input that breaks the schema out of the analysis and
// says why; a nonsense correction is worse than none (S3.2, S9.5). An input
// that is no object stays out as well, and the retry is then uncorrected.
func (d *Decider) refuseMisfit(c Case, a *messages.FailureAnalysis) string {
	corr := a.Correction
	if corr == nil || len(corr.ModifiedInput) == 0 {
		return ""
	}
	raw := c.Schema
	switch corr.Type {
	case messages.InputFix:
	case messages.ToolChange:
		if corr.AlternativeTool == nil {
			return ""
		}
		spec, ok := c.Lookup(*corr.AlternativeTool)
		if !ok {
			return "" // the coordinator, which has the registry, checks it
		}
		raw = spec.Schema
	default:
		return "" // not looked at (S1.6)
	}
	proposed := corr.ModifiedInput
	if b := bytes.TrimSpace(proposed); b[0] != '{' {
		corr.ModifiedInput = nil
		note(a, "proposed input that is no object, left out", proposed)
		return ""
	}
	s, err := d.schemas.Compile(raw)
	if err != nil {
		return "" // as if no schema were known
	}
	if err := s.Validate(proposed); err != nil {
		corr.ModifiedInput = nil
		note(a, "proposed input, refused", proposed)
		if corr.Type == messages.ToolChange {
			return "" // the input is kept, and must fit by itself (S3.3)
		}
		return "the proposed input does not fit the schema: " + err.Error()
	}
	return ""
}

const maxNote = 800 // bytes of a refused input that are kept for people

func note(a *messages.FailureAnalysis, what string, input []byte) {
	if a.Context != "" {
		a.Context += "\n"
	}
	a.Context += what + ": " + excerpt.Of(string(input), maxNote)
}

// raise sends a correction of substance to a human (S3.7).
func (d *Decider) raise(c Case, a *messages.FailureAnalysis) {
	if !mechanical(a.Correction) {
		return
	}
	if tool, effect := target(c, *a.Correction); effect != messages.Unsafe || tool == c.Tool && d.policy.AllowSubstance {
		return
	}
	class, why := Classify(c, *a.Correction)
	if class == Form {
		return
	}
	a.Severity = max(a.Severity, messages.High)
	note(a, "a correction of substance", []byte(why))
}

// mechanical says whether a machine can apply the correction.
func mechanical(c *messages.Correction) bool {
	return c != nil && (c.Type == messages.InputFix || c.Type == messages.ToolChange)
}

// act asks the strategy. What it says must be something that can be done.
func (d *Decider) act(a messages.FailureAnalysis, c messages.ReflectionContext) (action messages.RecoveryAction) {
	defer func() {
		if p := recover(); p != nil {
			action = messages.Fail(fmt.Sprintf("the strategy panicked: %v", p))
		}
	}()
	action = d.strategy.Decide(a, c.Attempt, c.MaxAttempts)
	switch action.Type {
	case messages.ActRetry, messages.ActSkip, messages.ActAskUser, messages.ActFail:
		return action
	}
	return messages.Fail(fmt.Sprintf("the strategy gave an unknown action %q", string(action.Type)))
}

// Unanalysed is the decision on a failure that no reflector could analyse: the
// call ends soft, with the reason.
func (d *Decider) Unanalysed(reason string) messages.Decision { return Unanalysed(reason, d.policy) }

// Unanalysed is [Decider.Unanalysed] where no decider could be made.
func Unanalysed(reason string, p Policy) messages.Decision {
	return messages.Decision{
		Action: messages.Fail(reason), Error: (&messages.ReflectionError{Reason: reason}).Error(),
		MaxRetries: p.Retries(), Park: p.AskUser == AskPark, AnswerBy: p.AnswerBy,
	}
}
