package cli

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/llm"
)

// llmOptions are the flags of the model that is asked about failures
// (docs/llm.md). Its key is no flag, since those stand in the list of processes.
type llmOptions struct {
	url, model, keyFile, promptFile string
	timeout                         time.Duration
	maxTokens, rpm                  int
	priceIn, priceOut               float64
	redact, redactKeys              []string
}

// llmKey is the variable that holds the key, unless a file does.
const llmKey = envPrefix + "LLM_KEY"

func (o *llmOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.url, "llm-url", "", "address of an OpenAI-compatible endpoint that is asked about failures which the rules do not recognise, such as http://localhost:8080/v1")
	f.StringVar(&o.model, "llm-model", "", "name of the model at that endpoint; none asks no model")
	f.StringVar(&o.keyFile, "llm-key-file", "", "file with the endpoint's key (default the variable "+llmKey+"; none where the endpoint wants none)")
	f.DurationVar(&o.timeout, "llm-timeout", 25*time.Second, "how long the model may take for one failure, repetitions included; a call whose analysis takes longer ends")
	f.IntVar(&o.maxTokens, "llm-max-tokens", 2048, "how many tokens the model may write for one failure")
	f.Float64Var(&o.priceIn, "llm-price-in", 0, "price of a million tokens that are sent, in the currency of your budgets")
	f.Float64Var(&o.priceOut, "llm-price-out", 0, "price of a million tokens that are written")
	f.IntVar(&o.rpm, "llm-rpm", 60, "how many requests a minute this process may send; 0 for no limit")
	f.StringVar(&o.promptFile, "llm-system-prompt", "", "file with a system prompt in place of the built-in one; what is data and how to answer is told the model all the same")
	f.StringArrayVar(&o.redact, "llm-redact", nil, "regular expression of what must not be sent, beside the built-in ones; may be given several times")
	f.StringSliceVar(&o.redactKeys, "llm-redact-keys", nil, "names of parameters whose values must not be sent, beside the built-in ones such as password and token")
}

// reflector is the model that the flags describe; nil for none.
func (o *llmOptions) reflector(a *app, log *slog.Logger) (recovery.Reflector, error) {
	switch {
	case o.model == "" && o.url == "":
		return nil, nil
	case o.model == "":
		return nil, usage("--llm-url without --llm-model: give the name of the model too")
	case o.url == "":
		return nil, usage("--llm-model without --llm-url: say which endpoint serves the model, such as http://localhost:8080/v1")
	case o.rpm < 0:
		return nil, usage("--llm-rpm %d is negative; 0 means no limit", o.rpm)
	case o.timeout < time.Second || o.timeout > time.Hour:
		return nil, usage("--llm-timeout %s is not from 1s to 1h", o.timeout)
	}
	cfg := llm.Config{
		BaseURL: o.url, Model: o.model, Timeout: o.timeout, MaxTokens: o.maxTokens, PriceIn: o.priceIn, PriceOut: o.priceOut, RequestsPerMinute: o.rpm,
		Redact: o.redact, RedactKeys: o.redactKeys, Log: log,
	}
	if o.rpm == 0 {
		cfg.RequestsPerMinute = -1
	}
	var err error
	if cfg.Key, err = o.key(a); err != nil {
		return nil, err
	}
	if o.promptFile != "" {
		b, err := os.ReadFile(o.promptFile)
		if err != nil {
			return nil, usage("--llm-system-prompt: %w", err)
		}
		cfg.SystemPrompt = string(b)
	}
	r, err := llm.New(cfg)
	if err == nil {
		err = a.veil.withholdLike(o.redact)
	}
	if err != nil {
		return nil, withCode(exitUsage, fmt.Errorf("the flags --llm-…: %w", err))
	}
	o.tell(log, cfg)
	return r, nil
}

func (o *llmOptions) key(a *app) (string, error) {
	if o.keyFile == "" {
		return strings.TrimSpace(a.getenv(llmKey)), nil
	}
	b, err := os.ReadFile(o.keyFile)
	if err != nil {
		return "", usage("--llm-key-file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	a.veil.withhold(key)
	if key == "" {
		return "", usage("--llm-key-file: %s is empty; leave the flag out where the endpoint wants no key", o.keyFile)
	}
	return key, nil
}

// tell says where failures will go, and that a key goes there in the clear.
func (o *llmOptions) tell(log *slog.Logger, cfg llm.Config) {
	log.Info("failures that the rules do not recognise are shown to a model", "model", o.model, "at", o.url)
	u, err := url.Parse(o.url)
	if err == nil && u.Scheme == "http" && cfg.Key != "" && u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1" {
		log.Warn("the key of the model is sent without encryption", "at", o.url)
	}
}

// analyseTimeout leaves the model the time that it was given.
func (o *llmOptions) analyseTimeout() time.Duration {
	return max(30*time.Second, o.timeout+5*time.Second)
}
