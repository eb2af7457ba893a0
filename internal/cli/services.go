package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"mulligan/internal/lifecycle"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// daemon is what the three services have in common.
type daemon struct {
	serving
	name  string
	lease time.Duration
}

func (a *app) daemonFlags(c *cobra.Command, d *daemon) {
	f := c.Flags()
	a.conn.flags(f)
	d.serving.flags(f)
	f.StringVar(&d.name, "name", "", "name of this process in stories, unique in the pool (default the host's name and a random part)")
	f.DurationVar(&d.lease, "lease", 60*time.Second, "how long a process may be silent before what it holds is given to another; the same for all of a pool")
}

func (d *daemon) fill() error {
	if d.lease < 100*time.Millisecond {
		return usage("--lease %s: give 100ms or more", d.lease)
	}
	d.name = cmp.Or(d.name, lifecycle.NewName())
	return d.serving.check()
}

// daemonRun connects, makes a service and serves it. Unlike a command that a
// person types, it waits for a broker that is not there yet.
func (a *app) daemonRun(ctx context.Context, d *daemon, make func(*jetstream.Pool, *slog.Logger, *prometheus.Registry) (service, error)) error {
	if err := d.fill(); err != nil {
		return err
	}
	t, err := a.resolve()
	if err != nil {
		return err
	}
	if _, err := messages.NewPool(a.conn.pool); err != nil {
		return withCode(exitUsage, err)
	}
	log := a.logger(slogDebug).With("service", a.program, "name", d.name)
	t.cfg.Name, t.cfg.Prefix, t.cfg.Log, t.cfg.Lease, t.cfg.RetryConnect = a.program+" "+d.name, a.conn.pool, log, d.lease, true
	if err := t.cfg.WithDefaults().Validate(); err != nil {
		return withCode(exitUsage, err)
	}
	broker, err := jetstream.Connect(ctx, t.cfg)
	if err != nil {
		return unconnected(t.where, err)
	}
	defer broker.Close()
	log.Info("starting", "pool", a.conn.pool, "at", t.where)
	reg := newRegistry()
	healthy := func() error {
		if !broker.Connected() {
			return errors.New("not connected to NATS")
		}
		return nil
	}
	over := func() error { return withCode(exitUnreachable, fmt.Errorf("%s: %w", t.where, broker.Lost())) }
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if _ = broker.Over(ctx); ctx.Err() == nil {
			stop(over())
		}
	}()
	s, err := make(broker, log, reg)
	if err == nil {
		err = a.serve(ctx, d.serving, log, reg, healthy, s, func() error { return nil })
	}
	// Without a connection nothing could be done any more, however it ended and whoever noticed first.
	if lost := (*codeError)(nil); errors.As(context.Cause(ctx), &lost) || err != nil && broker.Lost() != nil {
		return over()
	}
	return err
}
