package recovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// Policy configures retry-and-reflect (S2.6). Its JSON form is the one of
// configuration files; durations are milliseconds there.
type Policy struct {
	// Reflectors are asked in this order: the first that returns an analysis
	// wins. One that a process does not have is left out. Empty means rules,
	// then llm.
	Reflectors []string `json:"reflectors,omitempty"`
	// Strategy is "backoff", the default, or "none", which retries nothing.
	Strategy StrategyName `json:"strategy,omitempty"`
	// MaxRetries is how many retries a call may have; nil means 3, 0 none. More
	// than the ceiling of [messages.MaxRetries] is legal and has no effect.
	MaxRetries *int `json:"max_retries,omitempty"`
	// InitialBackoff is the delay before the first retry; 0 means 500 ms.
	InitialBackoff messages.Millis `json:"initial_backoff_ms,omitempty"`
	// Multiplier is by what the delay grows; 0 means 2, 1 keeps it.
	Multiplier float64 `json:"multiplier,omitempty"`
	// MaxBackoff caps the delay; 0 means 30 s. Not less than InitialBackoff.
	MaxBackoff messages.Millis `json:"max_backoff_ms,omitempty"`
	// Jitter is the share of a delay that is random, from 0 (exact) to 1.
	// Without it, calls that failed together come back together.
	Jitter float64 `json:"jitter,omitempty"`
	// Breaker says what an open breaker does to calls; empty means fail_fast.
	Breaker messages.BreakerMode `json:"breaker,omitempty"`
	// BreakerThreshold is how many consecutive failures of a tool open its
	// breaker; 0 means 5, at most 1,000.
	BreakerThreshold int `json:"breaker_threshold,omitempty"`
	// BreakerReset is how long it stays open; 0 means 60 s.
	BreakerReset messages.Millis `json:"breaker_reset_ms,omitempty"`
	// PromptTemplate is rendered into the guidance of every decision (S5.6);
	// empty means [DefaultPrompt].
	PromptTemplate string `json:"prompt_template,omitempty"`
	// IncludeTools are the tools that recovery is for; empty means all.
	IncludeTools []string `json:"include_tools,omitempty"`
	// ExcludeTools are never retried, reflected on or changed to; exclude wins
	// over include.
	ExcludeTools []string `json:"exclude_tools,omitempty"`
	// AllowSubstance lets a machine correct calls of an unsafe tool in substance
	// (S3.7): which object, how much, to whom. It never allows another tool.
	AllowSubstance bool `json:"allow_substance,omitempty"`
	// Effect stands in place of what the tool's worker declared; empty keeps it.
	Effect messages.Effect `json:"effect,omitempty"`
	// RetryCritical is that of [Backoff].
	RetryCritical bool `json:"retry_critical,omitempty"`
	// AskUser is "return", the default, which ends a call that needs a human soft
	// at once, or "park", which lets it wait for one (S5.3).
	AskUser AskMode `json:"ask_user,omitempty"`
	// AnswerBy is how long a parked call waits; 0 means the pool's own, 24 h
	// unless told otherwise.
	AnswerBy messages.Millis `json:"answer_by_ms,omitempty"`
	// BudgetTokens and BudgetCostMicros bound what models may take for the calls
	// of one run (S9.6); 0 means no bound. The cost is in millionths of the
	// currency that the reflector's prices are in.
	BudgetTokens     int64 `json:"budget_tokens,omitempty"`
	BudgetCostMicros int64 `json:"budget_cost_micros,omitempty"`
	// LoopWarn and LoopStop are at how many equal calls of a run, among its last
	// 50, it is warned of and the run is stopped (S10.2); nil means 3 and 10, 0
	// never, as for a tool that is polled.
	LoopWarn *int `json:"loop_warn,omitempty"`
	LoopStop *int `json:"loop_stop,omitempty"`
}

// AskMode says what becomes of a call that needs a human (S5.3).
type AskMode string

// The modes.
const (
	AskReturn AskMode = "return"
	AskPark   AskMode = "park"
)

// StrategyName names a strategy that a policy can choose.
type StrategyName string

// The strategies.
const (
	StrategyBackoff StrategyName = "backoff"
	StrategyNone    StrategyName = "none"
)

// ServicePolicy is the policy of the shipped services: the defaults of S2.6
// with jitter of a half.
func ServicePolicy() Policy { return Policy{Jitter: serviceJitter}.WithDefaults() }

const (
	serviceJitter  = 0.5
	defaultBackoff = messages.Millis(500 * time.Millisecond)
)

// WithDefaults fills what is not set.
func (p Policy) WithDefaults() Policy {
	if p.Reflectors == nil {
		p.Reflectors = []string{"rules", "llm"}
	}
	p.Strategy = cmp.Or(p.Strategy, StrategyBackoff)
	p.Breaker = cmp.Or(p.Breaker, messages.BreakerFailFast)
	p.AskUser = cmp.Or(p.AskUser, AskReturn)
	p.MaxRetries = cmp.Or(p.MaxRetries, new(3))
	p.InitialBackoff = cmp.Or(p.InitialBackoff, defaultBackoff)
	p.Multiplier = cmp.Or(p.Multiplier, 2)
	p.MaxBackoff = cmp.Or(p.MaxBackoff, messages.Millis(max(30*time.Second, p.InitialBackoff.Duration())))
	p.BreakerThreshold = cmp.Or(p.BreakerThreshold, 5)
	p.BreakerReset = cmp.Or(p.BreakerReset, messages.Millis(time.Minute))
	p.PromptTemplate = cmp.Or(p.PromptTemplate, DefaultPrompt)
	p.LoopWarn = cmp.Or(p.LoopWarn, new(3))
	p.LoopStop = cmp.Or(p.LoopStop, new(10))
	return p
}

// maxThreshold bounds what a breaker remembers: an id for each failure.
const maxThreshold = 1000

// maxTemplate bounds the template, which goes into every decision.
const maxTemplate = 16 << 10

// Validate names the field, the value and the way out. It expects
// [Policy.WithDefaults] to have been applied.
func (p Policy) Validate() error {
	if p.MaxRetries == nil {
		return errors.New("policy: max_retries is not set; apply WithDefaults first")
	}
	if err := p.backoff(func() float64 { return 0 }).Validate(); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	switch {
	case p.BreakerThreshold < 0:
		return fmt.Errorf("policy: breaker_threshold %d is negative; the default is 5", p.BreakerThreshold)
	case p.BreakerThreshold > maxThreshold:
		return fmt.Errorf("policy: breaker_threshold %d is above the limit of %d; breaker \"off\" has none", p.BreakerThreshold, maxThreshold)
	case p.BreakerReset < 0:
		return fmt.Errorf("policy: breaker_reset_ms %d is negative; the default is 60000", p.BreakerReset.Duration().Milliseconds())
	case len(p.PromptTemplate) > maxTemplate:
		return fmt.Errorf("policy: prompt_template is %d bytes long, the limit is %d", len(p.PromptTemplate), maxTemplate)
	}
	for _, list := range [][]string{p.IncludeTools, p.ExcludeTools, p.Reflectors} {
		if slices.Contains(list, "") {
			return errors.New("policy: a list holds an empty name")
		}
	}
	return p.validateChoices()
}

func (p Policy) validateChoices() error {
	switch {
	case p.Strategy != StrategyBackoff && p.Strategy != StrategyNone:
		return fmt.Errorf("policy: strategy %q is neither backoff nor none", p.Strategy)
	case p.AskUser != AskReturn && p.AskUser != AskPark:
		return fmt.Errorf("policy: ask_user %q is neither return nor park", p.AskUser)
	case p.AnswerBy < 0:
		return fmt.Errorf("policy: answer_by_ms %d is negative; leave it out for the pool's own", p.AnswerBy.Duration().Milliseconds())
	case p.BudgetTokens < 0:
		return fmt.Errorf("policy: budget_tokens %d is negative; 0 means no bound", p.BudgetTokens)
	case p.BudgetCostMicros < 0:
		return fmt.Errorf("policy: budget_cost_micros %d is negative; 0 means no bound", p.BudgetCostMicros)
	}
	if err := p.validateLoop(); err != nil {
		return err
	}
	if err := p.Breaker.UnmarshalText([]byte(p.Breaker)); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if p.Effect != "" {
		if err := p.Effect.UnmarshalText([]byte(p.Effect)); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
	}
	return nil
}

func (p Policy) validateLoop() error {
	for _, f := range []struct {
		name  string
		value *int
	}{{"loop_warn", p.LoopWarn}, {"loop_stop", p.LoopStop}} {
		switch {
		case f.value == nil || *f.value == 0:
		case *f.value < 2 || *f.value > LoopWindow:
			return fmt.Errorf("policy: %s %d is not from 2 to %d; 0 switches it off", f.name, *f.value, LoopWindow)
		}
	}
	return nil
}

// LoopWindow is how many calls of a run the loop detector looks back on (S10.2).
const LoopWindow = 50

// Covers says whether recovery is for this tool.
func (p Policy) Covers(tool string) bool {
	if slices.Contains(p.ExcludeTools, tool) {
		return false
	}
	return len(p.IncludeTools) == 0 || slices.Contains(p.IncludeTools, tool)
}

// Retries is how many retries the policy grants within the ceiling.
func (p Policy) Retries() int {
	if p.MaxRetries == nil {
		return 0
	}
	return min(*p.MaxRetries, messages.MaxRetries)
}

// Backoff is the strategy that the policy describes. random is needed where
// Jitter is not 0; see [Backoff].
func (p Policy) Backoff(random func() float64) (Backoff, error) {
	p = p.WithDefaults()
	if err := p.Validate(); err != nil {
		return Backoff{}, err
	}
	b := p.backoff(random)
	return b, b.Validate()
}

// Choose is the strategy that the policy names; random as for [Policy.Backoff].
func (p Policy) Choose(random func() float64) (Strategy, error) {
	if p.Strategy == StrategyNone {
		return Never{}, nil
	}
	return p.Backoff(random)
}

// Values are the fields of p that are not zero, for a [Document].
func (p Policy) Values() Values {
	b, err := json.Marshal(p)
	if err != nil {
		return nil // a policy is always JSON, but for a multiplier or jitter that is no number
	}
	var v Values
	if json.Unmarshal(b, &v) != nil {
		return nil
	}
	return v
}

func (p Policy) backoff(random func() float64) Backoff {
	return Backoff{
		MaxRetries: *p.MaxRetries, Base: p.InitialBackoff.Duration(), Multiplier: p.Multiplier, Cap: p.MaxBackoff.Duration(),
		Jitter: p.Jitter, Random: random, RetryCritical: p.RetryCritical,
	}
}
