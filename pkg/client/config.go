package client

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Config sets up a [Client]. The zero value is ready to use.
type Config struct {
	// By says who submits, for the story of a call. Empty: not said.
	By string
	// Patience is how long a submission is kept trying without progress, while
	// the queue is full or no coordinator answers. 0 means one minute, negative
	// means no second try. What is still refused for want of room after it is
	// returned as refused.
	Patience time.Duration
	// RequestTimeout is how long one answer of a coordinator is waited for
	// before the request is repeated, with twice the time. 0 means 10 s. Keep it below Patience,
	// else nothing is ever repeated.
	RequestTimeout time.Duration
	// Pipeline is how many chunks of a submission are under way at a time. 0 means 4.
	Pipeline int
	// Log receives what has no caller to return to. Nil discards.
	Log *slog.Logger
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Patience = cmp.Or(c.Patience, time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.Pipeline = cmp.Or(c.Pipeline, 4)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the field that cannot be used. Call it after WithDefaults.
func (c Config) Validate() error {
	if c.RequestTimeout < 0 {
		return fmt.Errorf("client: RequestTimeout %s is negative; give a wait such as 10s, or 0 for the default", c.RequestTimeout)
	}
	if c.Pipeline < 0 || c.Pipeline > 64 {
		return fmt.Errorf("client: Pipeline %d is out of range; give 1 to 64 chunks, or 0 for the default", c.Pipeline)
	}
	return nil
}
