package llm

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config says which model is asked, and how.
type Config struct {
	// BaseURL is the address up to where /chat/completions is put behind it, such
	// as http://localhost:8080/v1. Required: where data goes is nobody's default.
	BaseURL string
	// Model is the name that the endpoint knows it by. Required.
	Model string
	// Key is sent as a bearer token; empty sends none, as local servers want it.
	Key string
	// Timeout bounds one analysis: its requests, repetitions and pauses together.
	// It must be less than the time-out of the service for an analysis, which
	// would cut it off. Default 25 s.
	Timeout time.Duration
	// MaxTokens bounds what the model may write for one answer; one that is longer
	// counts as truncated and is thrown away. Default 2048.
	MaxTokens int
	// PriceIn and PriceOut are what a million tokens cost, in any currency; 0
	// means nothing. Without prices no budget of money is ever used up.
	PriceIn, PriceOut float64
	// RequestsPerMinute bounds what this process sends in any minute, with the
	// repetitions. Whoever cannot go within its time-out ends soft. 0 means 60, -1
	// no bound.
	RequestsPerMinute int
	// SystemPrompt replaces [DefaultSystemPrompt]. How an answer looks, what is
	// data, and the guardrails of S9.1 follow it always.
	SystemPrompt string
	// Redact are regular expressions of what must not leave the process, beside
	// the built-in ones. Of one with a group only the group is withheld.
	Redact []string
	// RedactKeys are names of parameters whose values must not leave, beside the
	// built-in ones; case and marks do not count.
	RedactKeys []string
	// Transport makes the requests; nil is one of the package's own.
	Transport http.RoundTripper
	// Log gets what an operator should know. Nil discards it.
	Log *slog.Logger
}

// WithDefaults fills what is not set.
func (c Config) WithDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 25*time.Second)
	c.MaxTokens = cmp.Or(c.MaxTokens, 2048)
	c.RequestsPerMinute = cmp.Or(c.RequestsPerMinute, 60)
	c.SystemPrompt = cmp.Or(c.SystemPrompt, DefaultSystemPrompt)
	if c.Transport == nil {
		c.Transport = transport()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

const (
	maxSystemPrompt = 32 << 10
	maxPatterns     = 100
	mostPerMinute   = 100_000
)

// Validate names the field, the value and the way out. It expects
// [Config.WithDefaults] to have been applied.
func (c Config) Validate() error {
	if err := c.checkURL(); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(c.Model) == "":
		return errors.New("llm: Model is empty; give the name that the endpoint knows the model by")
	case strings.ContainsAny(c.Key, "\r\n"):
		return errors.New("llm: Key holds a line end; give the key alone")
	case c.Timeout <= 0:
		return fmt.Errorf("llm: Timeout %v is not above 0; the default is 25s", c.Timeout)
	case c.MaxTokens < 64:
		return fmt.Errorf("llm: MaxTokens %d is less than 64, too little for any answer; the default is 2048", c.MaxTokens)
	case c.RequestsPerMinute < -1 || c.RequestsPerMinute > mostPerMinute:
		return fmt.Errorf("llm: RequestsPerMinute %d is not from 1 to %d; -1 means no bound", c.RequestsPerMinute, mostPerMinute)
	case len(c.SystemPrompt) > maxSystemPrompt:
		return fmt.Errorf("llm: SystemPrompt is %d bytes long, the limit is %d", len(c.SystemPrompt), maxSystemPrompt)
	case len(c.Redact) > maxPatterns || len(c.RedactKeys) > maxPatterns:
		return fmt.Errorf("llm: Redact has %d and RedactKeys %d entries, the limit is %d", len(c.Redact), len(c.RedactKeys), maxPatterns)
	}
	return errors.Join(checkPrice("PriceIn", c.PriceIn), checkPrice("PriceOut", c.PriceOut), checkPatterns(c.Redact))
}

func (c Config) checkURL() error {
	if c.BaseURL == "" {
		return errors.New("llm: BaseURL is not set; give the address of the endpoint, such as http://localhost:8080/v1")
	}
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return errors.New("llm: BaseURL is no address; give one such as http://localhost:8080/v1") // err would repeat a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("llm: BaseURL %q is not an address of http or https, such as http://localhost:8080/v1", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("llm: BaseURL %q holds a user; give the key by itself", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("llm: BaseURL %q has something after its path; leave it out", u.Redacted())
	}
	return nil
}

func checkPrice(field string, p float64) error {
	if math.IsNaN(p) || p < 0 || p > 1e6 {
		return fmt.Errorf("llm: %s %v is not a price of a million tokens, from 0 to 1000000", field, p)
	}
	return nil
}

func checkPatterns(patterns []string) error {
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return fmt.Errorf("llm: Redact %q is no regular expression: %w", p, err)
		}
		if re.MatchString("") {
			return fmt.Errorf("llm: Redact %q matches nothing at all, and so everywhere; make it match something", p)
		}
	}
	return nil
}
