package llm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Name is how the reflector calls itself in decisions and policies.
const Name = "llm"

// Reflector asks a model about failures. It may be used concurrently.
type Reflector struct {
	cfg      Config
	client   *openai.Client
	redactor *redactor
	manners  manners
	window   *window
	breaker  *gobreaker.CircuitBreaker[reply]
}

var _ recovery.Reflector = (*Reflector)(nil)

// New checks the configuration, after filling its defaults. It asks nobody yet.
func New(cfg Config) (*Reflector, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	redactor, err := newRedactor(cfg)
	if err != nil {
		return nil, fmt.Errorf("llm: Redact: %w", err)
	}
	c := openai.DefaultConfig(cfg.Key)
	c.BaseURL, c.HTTPClient = cfg.BaseURL, newDoer(cfg.Transport)
	r := &Reflector{cfg: cfg, client: openai.NewClientWithConfig(c), redactor: redactor, window: newWindow(cfg.RequestsPerMinute)}
	r.breaker = r.newBreaker()
	return r, nil
}

// Analyse asks the model. Where the budget of the run is used up it skips, so
// that a chain falls back on what it has; whatever else goes wrong is an
// internal error. What the request took is in the reflection in either case.
func (r *Reflector) Analyse(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
	out := recovery.Reflection{By: Name}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("the model did not answer within %v", r.cfg.Timeout))
	defer cancel()
	if c.Spent != nil && c.Budget != (recovery.Budget{}) {
		spent, err := c.Spent(ctx)
		if err != nil {
			return out, recovery.Internal("what the run has spent on models cannot be read: " + err.Error())
		}
		if over := c.Budget.Over(spent); over != "" {
			return out, recovery.Skip(over)
		}
	}
	mark, err := newMark()
	if err != nil {
		return out, recovery.Internal(err.Error())
	}
	q := r.question(c, mark)
	text, f, usage, err := r.talk(ctx, q)
	if usage.Requests > 0 {
		out.Usage = &usage
	}
	if err != nil {
		return out, recovery.Internal(err.Error())
	}
	if out.FailureAnalysis, err = q.read(text, f); err != nil {
		return recovery.Reflection{By: Name, Usage: out.Usage}, recovery.Internal("the model's answer cannot be used: " + err.Error())
	}
	out.Fault = fault(out.FailureAnalysis)
	return out, nil
}

// newMark is new for each question and cannot be guessed.
func newMark() (string, error) {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("no random numbers: %w", err)
	}
	return "data-" + hex.EncodeToString(b), nil
}

// usage is what one request took. An endpoint that counts nothing is counted
// for, at the high end, so that budgets hold with it too.
func (r *Reflector) usage(resp openai.ChatCompletionResponse, asked, answered int) messages.Usage {
	u := messages.Usage{Model: r.cfg.Model, Requests: 1, InputTokens: tokens(resp.Usage.PromptTokens), OutputTokens: tokens(resp.Usage.CompletionTokens)}
	if u.Tokens() == 0 && answered > 0 {
		u.InputTokens, u.OutputTokens = int64(asked/bytesPerToken+1), int64(answered/bytesPerToken+1)
	}
	u.CostMicros = int64(math.Ceil(float64(u.InputTokens)*r.cfg.PriceIn + float64(u.OutputTokens)*r.cfg.PriceOut))
	return u
}

// bytesPerToken is low for English and JSON, which take about four.
const bytesPerToken = 3

// tokens bounds what an endpoint says it counted.
func tokens(n int) int64 { return int64(min(max(n, 0), 1e8)) }

// Bounds of the breaker: so many requests in a row that the endpoint did not
// answer, and how long it is then left alone before one is tried.
const (
	breakAfter = 5
	breakFor   = 30 * time.Second
)

// newBreaker counts what is wrong with the endpoint. An answer that cannot be
// used is none of that: the endpoint is there.
func (r *Reflector) newBreaker() *gobreaker.CircuitBreaker[reply] {
	return gobreaker.NewCircuitBreaker[reply](gobreaker.Settings{
		Name: r.cfg.Model, Timeout: breakFor,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= breakAfter },
		IsSuccessful: func(err error) bool { t := asTrouble(err); return t == nil || !t.endpoint },
		IsExcluded:   func(err error) bool { t := asTrouble(err); return t != nil && t.unsent },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			r.cfg.Log.Warn("the breaker of the model has changed", "model", r.cfg.Model, "from", from.String(), "to", to.String())
		},
	})
}
