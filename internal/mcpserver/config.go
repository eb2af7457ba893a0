package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"mulligan/internal/catalogue"
	"mulligan/internal/inbox"
	"mulligan/internal/keys"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Broker is the pool's broker; *jetstream.Pool is one.
type Broker interface {
	catalogue.Source
	inbox.Source
	keys.Store
}

// Client submits calls and brings their results; *client.Client is one.
type Client interface {
	Batch() *client.Batch
	OpenBatch(id string, firstChunk int) (*client.Batch, error)
	Output(ctx context.Context, r messages.Result) ([]byte, error)
	Cancel(ctx context.Context, r messages.CancelRequest) (messages.CancelReply, error)
	Answer(ctx context.Context, r messages.AnswerRequest) error
	Attend(ctx context.Context, run messages.Run, call string) (*client.Pending, error)
}

// May is what clients may do beside calling.
type May struct {
	Answer bool // the questions of calls, for a human who sits there
	Cancel bool // calls by their id; a request may always cancel its own
}

// Config sets up a [Server].
type Config struct {
	Broker Broker
	Client Client
	// Registry is where the tools are followed; servers may share one.
	Registry *Registry
	// Name is whose idempotency keys these are; those of another name are others.
	Name string
	// Allowed says which tools there are for this server's clients. Nil: all.
	Allowed func(tool, queue string) bool
	May     May
	// Wait is how long one request waits for the end of its call, which goes on
	// then. 0 means for as long as it takes.
	Wait time.Duration
	// Task is after what time a call that has not ended becomes a task, for a
	// client that takes them. 0 means 2 s.
	Task time.Duration
	// Page is how many tools tools/list gives at a time. 0 means 250.
	Page int
	// Version is what the server says of itself.
	Version string
	// Log receives what has nobody to return to. Nil discards.
	Log *slog.Logger
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Task = cmp.Or(c.Task, 2*time.Second)
	c.Page = cmp.Or(c.Page, 250)
	c.Version = cmp.Or(c.Version, "unknown")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Allowed == nil {
		c.Allowed = func(string, string) bool { return true }
	}
	return c
}

// Validate names the field that cannot be used. Call it after WithDefaults.
func (c Config) Validate() error {
	switch {
	case c.Broker == nil || c.Client == nil || c.Registry == nil:
		return errors.New("mcpserver: Broker, Client or Registry is missing")
	case c.Name == "":
		return errors.New("mcpserver: Name is empty; say whose idempotency keys these are")
	case c.Page < 0 || c.Wait < 0 || c.Task < 0:
		return errors.New("mcpserver: Page, Wait or Task is negative; give 0 for the default")
	}
	return nil
}
