// Package pool is a whole pool in one process: broker, coordinators,
// reflectors and workers. It is what `mulligan up` runs, what the commands
// bring with them that need none, and what tests of the whole use.
package pool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/jetstream/embedded"
	"mulligan/pkg/hook"
	"mulligan/pkg/recovery"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

// Config says what the pool is made of.
type Config struct {
	// Dir is the folder of the state. Empty: a temporary one, which is removed
	// with the pool.
	Dir string
	// Port of the broker on the loopback interface; 0 takes a free one.
	Port int
	// StoreLimit bounds the state, in bytes; 0 means the broker's default.
	StoreLimit int64
	// Durability of the state; empty means [embedded.Fast].
	Durability embedded.Durability
	// Address writes address and token into the folder, for other processes of
	// this user.
	Address bool
	// Prefix is the pool's name; empty means mulligan.
	Prefix string
	// Lease is how long a worker may be silent before its calls are given to
	// another; 0 means 60 s.
	Lease time.Duration

	// Tools are served by every worker of Workers.
	Tools []*tool.Tool
	// Live are tools that come and go, each served by a worker of its own, so that
	// none has to wait for the others. Start them before the pool and stop them
	// after.
	Live []worker.Live
	// Hooks are those of every worker, beside what the policies say.
	Hooks []hook.Hook
	// Slots is how many tools a worker runs at a time; 0 means its default.
	Slots int
	// DrainTimeout is how long a stop lets running tools end; 0 means 30 s.
	DrainTimeout time.Duration
	// Coordinators, Reflectors and Workers are how many of each; 0 means 1.
	// One of each does all that a single process can.
	Coordinators, Reflectors, Workers int
	// Policies of the pool while it has no document of its own; none means those
	// of the shipped services (S2.6).
	Policies recovery.Document
	// Document, if it is not nil, is put in its place at the start, as JSON
	// (docs/policies.md).
	Document json.RawMessage
	// Notify tells the webhook of a run that it is over, as [coordination.Config]
	// says; nil refuses declarations that name a webhook.
	Notify func(ctx context.Context, address, id string, body []byte) error
	// Reflector analyses all failures; nil means those that the policies name.
	Reflector recovery.Reflector
	// Model is the reflector that policies call llm; nil for none. AnalyseTimeout
	// is what it needs for one failure at the most; 0 means 30 s.
	Model          recovery.Reflector
	AnalyseTimeout time.Duration

	// Log receives what nobody waits for. Nil discards.
	Log *slog.Logger
	// Metrics receives counters. Nil: they are not kept.
	Metrics prometheus.Registerer
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Durability = cmp.Or(c.Durability, embedded.Fast)
	c.Lease = cmp.Or(c.Lease, 60*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.Coordinators = cmp.Or(c.Coordinators, 1)
	c.Reflectors = cmp.Or(c.Reflectors, 1)
	c.Workers = cmp.Or(c.Workers, 1)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the field that cannot be used.
func (c Config) Validate() error {
	for name, n := range map[string]int{"coordinators": c.Coordinators, "reflectors": c.Reflectors, "workers": c.Workers} {
		if n < 0 {
			return fmt.Errorf("pool: %s is %d: give 0 for one, or more", name, n)
		}
	}
	if len(c.Tools) == 0 && len(c.Live) == 0 {
		return fmt.Errorf("pool: no tools: give at least one")
	}
	return nil
}
