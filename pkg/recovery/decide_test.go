package recovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// says is a reflector that gives one answer.
type says struct {
	r     recovery.Reflection
	err   error
	panic bool
	asked *int
}

func (s says) Analyse(context.Context, recovery.Case) (recovery.Reflection, error) {
	if s.asked != nil {
		*s.asked++
	}
	if s.panic {
		panic("boom")
	}
	return s.r, s.err
}

func found(corr *messages.Correction) recovery.Reflection {
	return recovery.Reflection{By: "test", Rule: "r", FailureAnalysis: messages.FailureAnalysis{IsRecoverable: true, RootCause: "cause", Severity: messages.Low, Correction: corr}}
}

func decide(t *testing.T, r recovery.Reflector, p recovery.Policy, c recovery.Case) messages.Decision {
	t.Helper()
	b, err := p.Backoff(func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	d, err := recovery.NewDecider(r, b, p)
	if err != nil {
		t.Fatal(err)
	}
	return d.Decide(t.Context(), c)
}

func TestS1_6_OnlyTheFieldsOfTheTypeCount(t *testing.T) {
	corr := messages.Correction{Type: messages.Escalate, Description: "ask", ModifiedInput: json.RawMessage(`{"order_id":1}`)}
	d := decide(t, says{r: found(&corr)}, recovery.Policy{}, payCase(`{"order_id":"W1"}`))
	if d.Action.Type != messages.ActRetry || d.Analysis.Severity != messages.Low || string(d.Analysis.Correction.ModifiedInput) != `{"order_id":1}` {
		t.Errorf("%+v, %+v", d.Action, d.Analysis)
	}
}

func TestS1_8_TheContextIsOfThisFailure(t *testing.T) {
	var got []messages.ReflectionContext
	r := reflectorFunc(func(_ context.Context, c recovery.Case) (recovery.Reflection, error) {
		got = append(got, c.Context)
		return found(nil), nil
	})
	for attempt, want := range []messages.ActionType{messages.ActRetry, messages.ActRetry, messages.ActRetry, messages.ActFail} {
		c := payCase(`{}`)
		c.Context = messages.ReflectionContext{Attempt: attempt, MaxAttempts: 5, Causes: make([]string, attempt)}
		if d := decide(t, r, recovery.Policy{}, c); d.Action.Type != want {
			t.Errorf("attempt %d: %s", attempt, d.Action)
		}
	}
	for i, c := range got {
		if c.Attempt != i || c.MaxAttempts != 5 || len(c.Causes) != i || c.Task != "" {
			t.Errorf("%d: %+v", i, c)
		}
	}
}

type reflectorFunc func(context.Context, recovery.Case) (recovery.Reflection, error)

func (f reflectorFunc) Analyse(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
	return f(ctx, c)
}

type strategyFunc func(messages.FailureAnalysis, int, int) messages.RecoveryAction

func (f strategyFunc) Decide(a messages.FailureAnalysis, attempt, max int) messages.RecoveryAction {
	return f(a, attempt, max)
}

func TestS2_1_TheHalvesArePluggable(t *testing.T) {
	var seen messages.FailureAnalysis
	s := strategyFunc(func(a messages.FailureAnalysis, attempt, max int) messages.RecoveryAction {
		seen = a
		if attempt != 2 || max != 5 {
			t.Errorf("attempt %d of %d", attempt, max)
		}
		return messages.Skip("enough")
	})
	d, err := recovery.NewDecider(says{r: found(nil)}, s, recovery.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	c := payCase(`{}`)
	c.Context.Attempt = 2
	got := d.Decide(t.Context(), c)
	if seen.RootCause != "cause" || got.Action.String() != "skip: enough" || got.By != "test" || got.Rule != "r" || got.MaxRetries != 3 {
		t.Errorf("%+v, %+v", seen, got)
	}
}

func TestS2_2_AnalyseThenDecide(t *testing.T) {
	var order []string
	r := reflectorFunc(func(context.Context, recovery.Case) (recovery.Reflection, error) {
		order = append(order, "analyse")
		return found(nil), nil
	})
	s := strategyFunc(func(messages.FailureAnalysis, int, int) messages.RecoveryAction {
		order = append(order, "decide")
		return messages.Retry(0)
	})
	d, err := recovery.NewDecider(r, s, recovery.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Decide(t.Context(), payCase(`{}`)); got.Action.Type != messages.ActRetry || strings.Join(order, " ") != "analyse decide" {
		t.Errorf("%v, %s", order, got.Action)
	}
}

func TestS2_2_TheLibraryRetriesNothingByItself(t *testing.T) {
	d, err := recovery.NewDecider(nil, nil, recovery.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range messages.Codes() {
		c := payCase(`{}`)
		c.Code, c.Error, c.RetryAfter, c.NothingDone = code, "503 try again", time.Second, true
		if got := d.Decide(t.Context(), c); got.Action.Type != messages.ActFail {
			t.Errorf("%s: %s", code, got.Action)
		}
	}
}

func TestS2_3_NoOp(t *testing.T) {
	c := payCase(`{}`)
	c.Error = "exactly\tthis  text "
	got, err := recovery.NoOp{}.Analyse(t.Context(), c)
	want := messages.FailureAnalysis{RootCause: c.Error, Severity: messages.Medium}
	if err != nil || got.FailureAnalysis != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestS2_7_Chain(t *testing.T) {
	skip, broken := says{err: recovery.Skip("not mine")}, says{err: recovery.Internal("no answer")}
	foreign := says{err: errors.New("disk full")}
	asked := 0
	good := says{r: found(nil), asked: &asked}
	for _, c := range []struct {
		name  string
		chain recovery.Chain
		err   string
		asked int
	}{
		{"the first wins", recovery.Chain{good, broken}, "", 1},
		{"skipped passes on", recovery.Chain{skip, skip, good}, "", 1},
		{"internal stops", recovery.Chain{skip, broken, good}, "reflection internal error: no answer", 0},
		{"any other error is internal", recovery.Chain{foreign, good}, "reflection internal error: disk full", 0},
		{"all skip", recovery.Chain{skip, skip}, "reflection skipped: not mine", 0},
		{"none", nil, "reflection skipped: no reflector is configured", 0},
		{"chains nest", recovery.Chain{recovery.Chain{skip}, good}, "", 1},
	} {
		asked = 0
		got, err := c.chain.Analyse(t.Context(), payCase(`{}`))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.err || asked != c.asked || err == nil && got.By != "test" {
			t.Errorf("%s: %q, asked %d, %+v", c.name, text, asked, got)
		}
	}
}

// A guess gives way to whoever knows better, and what was spent on the way is
// told whatever came of it.
func TestS2_7_AGuessPassesOn(t *testing.T) {
	guess := says{r: recovery.Reflection{By: "guess", Guess: true, Usage: &messages.Usage{Requests: 1, InputTokens: 10},
		FailureAnalysis: messages.FailureAnalysis{RootCause: "who knows"}}}
	good := says{r: recovery.Reflection{By: "good", Usage: &messages.Usage{Requests: 1, InputTokens: 5}}}
	skip := says{err: recovery.Skip("no money left")}
	broken := says{r: recovery.Reflection{By: "broken", Usage: &messages.Usage{Requests: 2}}, err: recovery.Internal("no answer")}
	for _, c := range []struct {
		name      string
		chain     recovery.Chain
		by, cause string
		requests  int
		err       string
	}{
		{"the next knows", recovery.Chain{guess, good}, "good", "", 2, ""},
		{"all others skip", recovery.Chain{guess, skip, skip}, "guess", "who knows; no money left; no money left", 1, ""},
		{"alone", recovery.Chain{guess}, "guess", "who knows", 1, ""},
		{"a later guess is better", recovery.Chain{skip, guess, guess}, "guess", "who knows", 2, ""},
		{"the next breaks", recovery.Chain{guess, broken, good}, "broken", "", 3, "reflection internal error: no answer"},
	} {
		got, err := c.chain.Analyse(t.Context(), payCase(`{}`))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got.By != c.by || got.RootCause != c.cause || got.Usage == nil || got.Usage.Requests != c.requests || text != c.err {
			t.Errorf("%s: %+v %+v %q", c.name, got, got.Usage, text)
		}
	}
	if got, _ := (recovery.Chain{skip}).Analyse(t.Context(), payCase(`{}`)); got.Usage != nil {
		t.Errorf("nobody was asked: %+v", got.Usage)
	}
}

func TestBudgetsNameTheBoundThatIsReached(t *testing.T) {
	spent := messages.Usage{InputTokens: 60, OutputTokens: 40, CostMicros: 7}
	for _, c := range []struct {
		budget recovery.Budget
		says   string
	}{
		{recovery.Budget{}, ""},
		{recovery.Budget{Tokens: 101, CostMicros: 8}, ""},
		{recovery.Budget{Tokens: 100}, "budget of 100 tokens (budget_tokens): 100 are spent"},
		{recovery.Budget{CostMicros: 7}, "budget of 7 millionths (budget_cost_micros): 7 are spent"},
	} {
		if got := c.budget.Over(spent); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c.budget, got)
		}
	}
}

func TestS6_WhatIsNotReflectedOn(t *testing.T) {
	no := map[messages.Code]bool{"hook_veto": true, "breaker_open": true, "loop_detected": true, messages.CodeUnknownTool: true, messages.CodeDenied: true}
	yes := []messages.Code{messages.CodeToolError, messages.CodePanic, messages.CodeTimeout, messages.CodeInvalidArguments, messages.CodeToolNotFound,
		messages.CodeWorkerLost, messages.CodeConnectionLost, messages.CodeRateLimited, messages.CodeUnavailable, messages.CodeDrained, "a_code_of_a_later_build"}
	for code := range no {
		asked := 0
		c := payCase(`{}`)
		c.Code = code
		d := decide(t, says{r: found(nil), asked: &asked}, recovery.Policy{}, c)
		if asked != 0 || d.Action.String() != "fail: no" || d.Analysis != nil || d.Error != "" {
			t.Errorf("%s: asked %d, %+v", code, asked, d)
		}
	}
	for _, code := range yes {
		asked := 0
		c := payCase(`{}`)
		c.Code = code
		if d := decide(t, says{r: found(nil), asked: &asked}, recovery.Policy{}, c); asked != 1 || d.Analysis == nil {
			t.Errorf("%s: asked %d, %+v", code, asked, d)
		}
	}
	asked := 0
	d := decide(t, says{r: found(nil), asked: &asked}, recovery.Policy{ExcludeTools: []string{"pay"}}, payCase(`{}`))
	if asked != 0 || d.Action.Type != messages.ActFail {
		t.Errorf("excluded: asked %d, %+v", asked, d)
	}
}

func TestS3_3_ExcludedToolsAreNotOffered(t *testing.T) {
	var seen []messages.ToolSpec
	r := reflectorFunc(func(_ context.Context, c recovery.Case) (recovery.Reflection, error) {
		seen = c.Tools
		return found(nil), nil
	})
	c := payCase(`{}`)
	c.Tools = []messages.ToolSpec{{Name: "a"}, {Name: "b"}}
	decide(t, r, recovery.Policy{ExcludeTools: []string{"a"}}, c)
	if len(seen) != 1 || seen[0].Name != "b" || len(c.Tools) != 2 || c.Tools[0].Name != "a" {
		t.Errorf("%+v", seen)
	}
}

func TestS6_2_TheToolsHintIsAFloor(t *testing.T) {
	for _, c := range []struct {
		name        string
		after       time.Duration
		nothingDone bool
		attempt     int
		freeWaits   int
		corr        *messages.Correction
		want        string
	}{
		{"floor", 2 * time.Second, false, 0, 0, nil, "retry after 2s"},
		{"the strategy waits longer", 100 * time.Millisecond, false, 0, 0, nil, "retry after 500ms"},
		{"it counts", 2 * time.Second, false, 3, 0, nil, "fail: max retries (3) exceeded"},
		{"nothing was done: the hint itself", 100 * time.Millisecond, true, 0, 0, nil, "retry after 100ms"},
		{"nothing was done: it spends nothing", 2 * time.Second, true, 3, 7, nil, "retry after 2s"},
		{"at most 20", 2 * time.Second, true, 3, 20, nil, "fail: max retries (3) exceeded"},
		{"with a correction it is an attempt", 2 * time.Second, true, 3, 0, new(fix(`{"order_id":"W1"}`)), "fail: max retries (3) exceeded"},
		{"a skip stays", 0, false, 5, 0, nil, "fail: max retries (3) exceeded"},
	} {
		cs := payCase(`{"order_id":"W1"}`)
		cs.RetryAfter, cs.NothingDone, cs.FreeWaits, cs.Context.Attempt = c.after, c.nothingDone, c.freeWaits, c.attempt
		if d := decide(t, says{r: found(c.corr)}, recovery.Policy{}, cs); d.Action.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, d.Action, c.want)
		}
	}
	cs := payCase(`{}`)
	cs.RetryAfter, cs.NothingDone = time.Second, true
	r := found(nil)
	r.IsRecoverable = false
	if d := decide(t, says{r: r}, recovery.Policy{}, cs); d.Action.Type != messages.ActFail {
		t.Errorf("not recoverable: %s", d.Action)
	}
}

func TestS3_7_SubstanceIsAtLeastHigh(t *testing.T) {
	other, form := fix(`{"order_id":"W2"}`), fix(`{"order_id":"17"}`)
	for _, c := range []struct {
		name     string
		effect   messages.Effect
		corr     messages.Correction
		input    string
		policy   recovery.Policy
		severity messages.Severity
		action   messages.ActionType
	}{
		{"unsafe", messages.Unsafe, other, `{"order_id":"W1"}`, recovery.Policy{}, messages.High, messages.ActAskUser},
		{"undeclared", "", other, `{"order_id":"W1"}`, recovery.Policy{}, messages.High, messages.ActAskUser},
		{"allowed by policy", messages.Unsafe, other, `{"order_id":"W1"}`, recovery.Policy{AllowSubstance: true}, messages.Low, messages.ActRetry},
		{"reads only", messages.ReadOnly, other, `{"order_id":"W1"}`, recovery.Policy{}, messages.Low, messages.ActRetry},
		{"form", messages.Unsafe, form, `{"order_id":17}`, recovery.Policy{}, messages.Low, messages.ActRetry},
		{"another tool, unknown", messages.ReadOnly, change("refund", ""), `{"order_id":"W1"}`, recovery.Policy{}, messages.High, messages.ActAskUser},
	} {
		cs := payCase(c.input)
		cs.Effect = c.effect
		d := decide(t, says{r: found(&c.corr)}, c.policy, cs)
		if d.Analysis.Severity != c.severity || d.Action.Type != c.action {
			t.Errorf("%s: %s, %s", c.name, d.Analysis.Severity, d.Action)
		}
	}
	critical := found(&other)
	critical.Severity = messages.Critical
	if d := decide(t, says{r: critical}, recovery.Policy{}, payCase(`{"order_id":"W1"}`)); d.Analysis.Severity != messages.Critical {
		t.Errorf("lowered to %s", d.Analysis.Severity)
	}
}

func TestS9_4_ABrokenReflectorEndsTheCallSoft(t *testing.T) {
	bad := func(change func(*recovery.Reflection)) recovery.Reflector {
		r := found(nil)
		change(&r)
		return says{r: r}
	}
	for _, c := range []struct {
		name string
		r    recovery.Reflector
		says string
	}{
		{"internal", says{err: recovery.Internal("no answer")}, "reflection internal error: no answer"},
		{"foreign", says{err: errors.New("disk full")}, "reflection internal error: disk full"},
		{"skipped by all", says{err: recovery.Skip("not mine")}, "reflection skipped: not mine"},
		{"panic", says{panic: true}, "reflection internal error: panic: boom"},
		{"no severity", bad(func(r *recovery.Reflection) { r.Severity = 0 }), "unknown severity"},
		{"no type", bad(func(r *recovery.Reflection) { r.Correction = &messages.Correction{Description: "d"} }), "unknown correction_type"},
		{"no description", bad(func(r *recovery.Reflection) { r.Correction = &messages.Correction{Type: messages.Escalate} }), "no description"},
		{"not JSON", bad(func(r *recovery.Reflection) { r.Correction = new(fix(`{`)) }), "is not JSON"},
		{"too long", bad(func(r *recovery.Reflection) { r.Correction = new(fix(`{"a":"` + strings.Repeat("x", 200<<10) + `"}`)) }), "the limit is"},
		{"too talkative", bad(func(r *recovery.Reflection) { r.Context = strings.Repeat("x", 1<<20) }), "the limit is"},
	} {
		d := decide(t, c.r, recovery.Policy{}, payCase(`{}`))
		if d.Action.Type != messages.ActFail || !strings.Contains(d.Error, c.says) || d.Analysis != nil {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

func TestABrokenStrategyEndsTheCallSoft(t *testing.T) {
	for name, s := range map[string]strategyFunc{
		"panic":   func(messages.FailureAnalysis, int, int) messages.RecoveryAction { panic("boom") },
		"unknown": func(messages.FailureAnalysis, int, int) messages.RecoveryAction { return messages.RecoveryAction{} },
	} {
		d, err := recovery.NewDecider(says{r: found(nil)}, s, recovery.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Decide(t.Context(), payCase(`{}`)); got.Action.Type != messages.ActFail || got.Analysis == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestS9_5_WhatBreaksTheSchemaDoesNotLeave(t *testing.T) {
	original := fix(`{"order_id":5}`)
	d := decide(t, says{r: found(&original)}, recovery.Policy{}, payCase(`{"order_id":"W1"}`))
	if d.Action.Type != messages.ActFail || !strings.Contains(d.Action.Reason, "/order_id") || d.Analysis.Correction.ModifiedInput != nil || !strings.Contains(d.Analysis.Context, `{"order_id":5}`) {
		t.Errorf("%+v, %+v", d.Action, d.Analysis)
	}
	if string(original.ModifiedInput) != `{"order_id":5}` {
		t.Error("the reflector's own value was changed")
	}
	d = decide(t, says{r: found(new(fix(`[1]`)))}, recovery.Policy{}, payCase(`{"order_id":"W1"}`))
	if d.Action.Type != messages.ActRetry || d.Analysis.Correction.ModifiedInput != nil {
		t.Errorf("no object: %+v, %+v", d.Action, d.Analysis)
	}
	free := payCase(`{"order_id":"W1"}`)
	free.Schema, free.Effect = nil, messages.ReadOnly
	if d = decide(t, says{r: found(new(fix(`{"order_id":5}`)))}, recovery.Policy{}, free); d.Action.Type != messages.ActRetry {
		t.Errorf("no schema: %+v", d.Action)
	}
	to := payCase(`{"order_id":"W1"}`)
	to.Tools = []messages.ToolSpec{{Name: "get", Schema: json.RawMessage(paySchema), Effect: messages.ReadOnly}}
	if d = decide(t, says{r: found(new(change("get", `{"order_id":5}`)))}, recovery.Policy{}, to); d.Analysis.Correction.ModifiedInput != nil || d.Action.Type != messages.ActRetry {
		t.Errorf("tool change: %+v, %+v", d.Action, d.Analysis)
	}
}

func TestS9_5_EveryInputThatLeavesValidates(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(paySchema))
	if err != nil {
		t.Fatal(err)
	}
	value := rapid.SampledFrom([]string{`"W1"`, `1`, `"economy"`, `null`, `["a"]`, `[1]`, `{}`, `true`})
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.MapOf(rapid.SampledFrom([]string{"order_id", "amount", "cabin", "ids", "x"}), value).Draw(rt, "fix")
		raw := map[string]json.RawMessage{}
		for k, v := range m {
			raw[k] = json.RawMessage(v)
		}
		b, err := json.Marshal(raw)
		if err != nil {
			rt.Fatal(err)
		}
		d := decide(t, says{r: found(new(fix(string(b))))}, recovery.Policy{}, payCase(`{"order_id":"W1"}`))
		if out := d.Analysis.Correction.ModifiedInput; out != nil && s.Validate(out) != nil {
			rt.Fatalf("%s left", out)
		}
		if s.Validate(b) != nil && d.Action.Type != messages.ActFail {
			rt.Fatalf("%s: %s", b, d.Action)
		}
	})
}

func TestS5_6_EveryDecisionCarriesThePrompt(t *testing.T) {
	corr := messages.Correction{Type: messages.ApproachChange, Description: "d", Guidance: new("look it up {error}")}
	d := decide(t, says{r: found(&corr)}, recovery.Policy{PromptTemplate: "{tool_name}: {error}; {guidance}; {args}; {attempt}/{max_retries}"}, payCase("{\"a\":\"\xff\"}"))
	if want := "pay: no; look it up {error}; {\"a\":\"\uFFFD\"}; 1/3"; d.Guidance != want {
		t.Errorf("%s", d.Guidance)
	}
	d.Call, d.Run = messages.NewCallID(), messages.NamedRun("r")
	m, err := messages.Pool{}.EncodeDecision(d)
	if err != nil || len(m.Body) == 0 {
		t.Error(err)
	}
}
