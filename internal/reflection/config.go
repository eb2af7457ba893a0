package reflection

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"mulligan/internal/lifecycle"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/llm"
	"mulligan/pkg/recovery/rules"
)

// Config says how a reflector works.
type Config struct {
	// Broker is the pool, such as a *jetstream.Pool. Required.
	Broker Broker
	// Name tells reflectors apart in stories and logs. Default: the host's name
	// and a random part.
	Name string

	// Reflectors are those that policies may name. Each must end when its context
	// does, or it holds up a slot. Default: rules and noop.
	Reflectors map[string]recovery.Reflector
	// Model is one more that policies may name: llm, which asks a model. Nil where
	// this process has none.
	Model recovery.Reflector
	// Reflector, if it is set, analyses every failure, whatever policies name.
	Reflector recovery.Reflector
	// Policies hold while the pool has no document of its own in CONTROL.
	Policies recovery.Document
	// Random is the source of jitter, safe for concurrent use. Default: that of
	// math/rand/v2.
	Random func() float64

	// Concurrency is how many failures are analysed at once. Default 16.
	Concurrency int
	// Lease is how long the broker waits for an ack or extension before it hands
	// a failure to another reflector: the AckWait of the pool. Above the pool's
	// own, slow analyses are made twice for nothing. Default 60 s.
	Lease time.Duration
	// AnalyseTimeout bounds one analysis; one that takes longer ends the call
	// soft, as a broken one does (S9.4). Default 30 s.
	AnalyseTimeout time.Duration
	// StopTimeout is how long Stop lets analyses end. What is not done then is
	// given back. Default 10 s.
	StopTimeout time.Duration

	// Log gets what an operator should know. Nil discards it.
	Log *slog.Logger
	// Metrics counts what happens. Its zero value counts nothing.
	Metrics Metrics
}

// Metrics are called as things happen, concurrently; a nil one is left out.
type Metrics struct {
	// Decided: a decision of this reflector was stored.
	Decided func(by, rule string, action messages.ActionType)
	// Took: an analysis ended, after this long.
	Took func(by string, d time.Duration)
	// GivenUp: a failure could not be analysed, and its call was ended.
	GivenUp func()
	// Spent: an analysis took this of a model, whatever came of it.
	Spent func(u messages.Usage)
	// Trouble: the broker failed, and the same is tried again.
	Trouble func()
}

// WithDefaults fills what is not set.
func (c Config) WithDefaults() Config {
	c.Name = cmp.Or(c.Name, lifecycle.NewName())
	if c.Reflectors == nil {
		c.Reflectors = map[string]recovery.Reflector{rules.Name: rules.New(), "noop": recovery.NoOp{}}
	}
	if c.Model != nil {
		c.Reflectors = maps.Clone(c.Reflectors)
		c.Reflectors[llm.Name] = c.Model
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.AnalyseTimeout = cmp.Or(c.AnalyseTimeout, 30*time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Metrics = c.Metrics.withDefaults()
	return c
}

func (m Metrics) withDefaults() Metrics {
	if m.Decided == nil {
		m.Decided = func(string, string, messages.ActionType) {}
	}
	if m.Took == nil {
		m.Took = func(string, time.Duration) {}
	}
	if m.GivenUp == nil {
		m.GivenUp = func() {}
	}
	if m.Spent == nil {
		m.Spent = func(messages.Usage) {}
	}
	if m.Trouble == nil {
		m.Trouble = func() {}
	}
	return m
}

// Validate names the field, the value and the way out.
func (c Config) Validate() error {
	switch {
	case c.Broker == nil:
		return errors.New("reflector: Broker is not set; give it the connection to a pool")
	case c.Concurrency < 1:
		return fmt.Errorf("reflector: Concurrency %d is less than 1; the default is 16", c.Concurrency)
	case c.Lease < 100*time.Millisecond:
		return fmt.Errorf("reflector: Lease %v is less than 100ms; it is the AckWait of the pool, 60s by default", c.Lease)
	case c.AnalyseTimeout < 0:
		return fmt.Errorf("reflector: AnalyseTimeout %v is negative; the default is 30s", c.AnalyseTimeout)
	case c.StopTimeout < 0:
		return fmt.Errorf("reflector: StopTimeout %v is negative; the default is 10s", c.StopTimeout)
	}
	if err := c.Policies.Check(); err != nil {
		return fmt.Errorf("reflector: policies: %w", err)
	}
	return nil
}
