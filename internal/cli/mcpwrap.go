package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/pool"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool/mcptool"
	"mulligan/pkg/worker"
)

// wrapOptions are of the one server of MCP that is put behind a pool.
type wrapOptions struct {
	trust   bool
	effects map[string]string
	policy  string
}

// wrapFlags are those of wrapOptions.
var wrapFlags = []string{"trust", "effect", "policy"}

func (o *wrapOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.trust, "trust", false, "for --wrap: believe what the server's tools say of their effects; else every one of them is unsafe, and repeated by nobody once it may have had its effect")
	f.StringToStringVar(&o.effects, "effect", nil, "for --wrap: the effect of a tool, such as write_file=idempotent, where * stands for anything; may be given several times")
	policyFlag(c, &o.policy)
}

// given is a flag that was given, if one was.
func (o *wrapOptions) given(a *app) string {
	for _, name := range wrapFlags {
		if a.sources[name] > fromDefault {
			return name
		}
	}
	return ""
}

// wrapDrain is how long calls may go on when the client is gone, which soon
// kills who does not end.
const wrapDrain = time.Second

// server is the one that is wrapped.
func (o *wrapOptions) server(command []string, log *slog.Logger) (*mcptool.Server, error) {
	cfg := mcptool.Config{
		Name: "wrapped", Command: command[0], Args: command[1:], Inherit: true, Prefix: new(""), Trust: o.trust,
		Effects: make(map[string]messages.Effect),
	}
	for name, effect := range o.effects {
		cfg.Effects[name] = messages.Effect(effect)
	}
	s, err := mcptool.New(cfg, log)
	if err != nil {
		return nil, notFound(fmt.Errorf("--wrap: %w", err))
	}
	return s, nil
}

// wrapMCP serves one server of MCP, behind a pool in this process.
func (a *app) wrapMCP(ctx context.Context, o wrapOptions, command []string) (err error) {
	if len(command) == 0 {
		return usage("--wrap: no command is given: give the one that starts the server of MCP behind --, as in mulligan mcp --wrap -- npx -y …")
	}
	if flag := a.pointing(); flag != "" {
		return usage("--%s says where a pool is, and --wrap brings its own: leave one of them out", flag)
	}
	log := a.logger(slogQuiet)
	server, err := o.server(command, a.logger(slog.LevelInfo)) // what it writes to standard error is for people
	if err != nil {
		return err
	}
	document, err := a.policyDocument(o.policy)
	if err != nil {
		return err
	}
	cfg := pool.Config{
		Live: []worker.Live{server}, Prefix: a.conn.pool, Lease: ownLease, DrainTimeout: wrapDrain, Document: document, Log: log,
	}
	if a.sources["state"] == fromFlag {
		cfg.Dir, cfg.Address = a.statePath(), true
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return usage("the state folder cannot be made: %w; give another one with --state", err)
		}
	}
	stopping := context.WithoutCancel(ctx)
	if err := server.Start(stopping); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(stopping)) }()
	if err := firstTools(ctx, server, filepath.Base(command[0])); err != nil {
		return err
	}
	s := &session{where: "embedded"}
	if s.own, err = pool.Start(ctx, cfg); err != nil {
		if errors.Is(err, embedded.ErrLocked) {
			return withCode(exitUsage, fmt.Errorf("another process uses the state folder %s: give another one with --state", cfg.Dir))
		}
		return fmt.Errorf("embedded pool: %w", err)
	}
	defer s.closing(ctx, &err)
	if s.broker, err = s.own.Connect(ctx, "mulligan "+a.program); err != nil {
		return err
	}
	if s.client, err = client.New(s.broker, client.Config{By: a.by(), Patience: mcpPatience, Log: log}); err != nil {
		return err
	}
	return a.serveMCP(ctx, s)
}

// pointing is a flag that says where a pool is, if one was given.
func (a *app) pointing() string {
	for _, name := range []string{"server", "context"} {
		if a.sources[name] == fromFlag {
			return name
		}
	}
	return a.identity()
}

// firstTools waits for the first tools of a server. One that cannot be used at
// once has a few more tries.
func firstTools(ctx context.Context, s *mcptool.Server, name string) error {
	select {
	case <-s.Started():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	patience := time.After(serversPatience)
	for {
		list, changed := s.Tools()
		if len(list) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-patience:
			if err := s.Trouble(); err != nil {
				return fmt.Errorf("--wrap: %s cannot be used: %w", name, err)
			}
			return fmt.Errorf("--wrap: %s has no tools", name)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
