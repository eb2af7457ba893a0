package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mulligan/internal/lifecycle"
	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Config says what a worker serves and how patient it is.
type Config struct {
	// Broker is the pool, such as a *jetstream.Pool. Required.
	Broker Broker
	// Tools are what this worker offers; at least one, unless there is Live. Every worker of a queue
	// should offer the same tools: a call that meets a worker without its tool
	// is kept for HandOnPause and handed on until it meets one that has it.
	Tools []*tool.Tool
	// Live are tools that come and go. The offer follows them: one that is new is
	// offered, one that is gone withdrawn, and one whose schema or effect changed
	// replaces the registered one. Start it before the worker and stop it after.
	// Default none.
	Live Live
	// Hooks are asked before a call runs and told after each attempt, see package
	// hook. Every worker of a tool should have the same. Default none.
	Hooks []hook.Hook
	// HookTimeout is how long a hook may take for one call. Its veto is taken for
	// granted after that, and an observer is left behind. Default 1 s.
	HookTimeout time.Duration
	// Name tells workers apart in stories and offers; it must be unique in the
	// pool while the worker lives. Default: the host's name and a random part.
	Name string
	// Slots is how many tools run at the same time. Default 8.
	Slots int
	// Lease is how long the broker waits for an ack or an extension before it
	// hands a call to another: the AckWait of the pool. A value above the
	// pool's own lets two workers hold one call; a success of an idempotent
	// tool may then be computed twice. Default 60 s.
	Lease time.Duration
	// Timeout is of one execution, where neither the call nor its tool has one.
	// Default 60 s.
	Timeout time.Duration
	// Grace is how long a tool may take to return after it was told to stop;
	// then it is abandoned: its outcome is written as ambiguous and its slot
	// stays taken until it does return. Default 5 s.
	Grace time.Duration
	// HoldLimit is how long a call that came beyond the free slots waits for
	// one before it is handed to another worker; one that was fetched ahead of
	// short calls waits 50 ms at the most. Default 1 s.
	HoldLimit time.Duration
	// HandOnPause is how long a call whose tool is served by others is kept
	// before it is handed on; from the fourth time on it doubles, up to eight
	// times this. Default 1 s.
	HandOnPause time.Duration
	// DrainTimeout is how long Stop lets tools run before it stops them; a
	// stopped unsafe call ends as unknown, so choose it above what they take.
	// Default 30 s; negative stops them at once.
	DrainTimeout time.Duration
	// FlushTimeout is how long Stop tries to publish outcomes after that. What
	// is not written then is left to the end of its lease. Default 15 s.
	FlushTimeout time.Duration
	// Replace lets a changed schema or effect replace the registered one.
	Replace bool
	// KeepOffer lets the offer lapse on Stop in place of withdrawing it. Then
	// the calls of a tool that nobody else serves wait for its next worker;
	// otherwise they fail with tool_not_found.
	KeepOffer bool
	// Log receives what is not an outcome: lost leases, refused publishes.
	// Nil discards.
	Log *slog.Logger
	// Metrics is told about outcomes. The zero value is silent.
	Metrics Metrics
}

// Metrics are functions that a worker calls, possibly concurrently; nil ones
// are left out. They must return quickly.
type Metrics struct {
	// Ran: an execution ended; code is empty for a success.
	Ran func(tool string, code messages.Code, took time.Duration)
	// LetGo: a delivery was dropped since its lease may have lapsed.
	LetGo func()
	// HandedOn: a delivery was given back before anything of it began.
	HandedOn func(why string)
	// PublishFailed: an outcome was not taken and is tried again.
	PublishFailed func()
	// Vetoed: a hook vetoed a call.
	Vetoed func(hook string)
	// Noted: an attempt was one of those that a note of the pool is for.
	Noted func(hook string)
	// Unobserved: an attempt was not shown to observers, which do not follow.
	Unobserved func()
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Name = cmp.Or(c.Name, lifecycle.NewName())
	c.Slots = cmp.Or(c.Slots, 8)
	c.Lease = cmp.Or(c.Lease, 60*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 60*time.Second)
	c.HookTimeout = cmp.Or(c.HookTimeout, time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.HoldLimit = cmp.Or(c.HoldLimit, time.Second)
	c.HandOnPause = cmp.Or(c.HandOnPause, time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.FlushTimeout = cmp.Or(c.FlushTimeout, 15*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the field that cannot be used, its value and the way out.
func (c Config) Validate() error {
	if c.Broker == nil {
		return errors.New("worker: broker is nil: give a pool")
	}
	if len(c.Tools) == 0 && c.Live == nil {
		return errors.New("worker: no tools: give at least one")
	}
	if err := messages.CheckName("worker name", c.Name, messages.MaxName); err != nil {
		return err
	}
	if c.Slots < 1 {
		return fmt.Errorf("worker: slots is %d: give 1 or more", c.Slots)
	}
	if c.Lease < 100*time.Millisecond {
		return fmt.Errorf("worker: lease is %v: give the pool's own, 100ms or more", c.Lease)
	}
	for name, d := range map[string]time.Duration{
		"timeout": c.Timeout, "grace": c.Grace, "hold limit": c.HoldLimit, "hand-on pause": c.HandOnPause, "flush timeout": c.FlushTimeout, "hook timeout": c.HookTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("worker: %s is %v: give a positive duration", name, d)
		}
	}
	return checkTools(c.Tools)
}

func checkTools(tools []*tool.Tool) error {
	seen := make(map[string]bool, len(tools))
	for i, t := range tools {
		if t == nil {
			return fmt.Errorf("worker: tool %d is nil", i)
		}
		if err := t.Err(); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		if seen[t.Name()] {
			return fmt.Errorf("worker: tool %q is given twice: names are unique in a pool", t.Name())
		}
		seen[t.Name()] = true
		if strings.TrimSpace(t.Name()) == "" {
			return fmt.Errorf("worker: tool %d has a blank name", i)
		}
	}
	return nil
}
