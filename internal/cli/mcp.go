package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/mcpserver"
)

func (a *app) mcpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the tools of the pool to a client of MCP, over standard input and output",
		Long: `Mcp is a server of MCP whose tools are those of the pool: an agent that knows MCP
calls them, and has its failures looked into and tried again. It speaks the
protocol on standard input and output until its input ends; what goes wrong is
written to standard error. Clients start it by their configuration:

  {"mcpServers": {"pool": {"command": "mulligan", "args": ["mcp", "--server", "nats://…"]}}}

A request that its client cancels has its call cancelled. Calls of a client that
just goes away go on. See docs/mcp.md.`,
		Example: "  mulligan mcp\n  mulligan mcp --server nats://127.0.0.1:4222",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd.Context()) },
	}
	a.conn.flags(c.Flags())
	return c
}

// mcpPatience is how long a submission is tried while the pool is full or does
// not answer, as at the gateway.
const mcpPatience = 10 * time.Second

func (a *app) mcp(ctx context.Context) (err error) {
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease, patience: mcpPatience}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	return a.serveMCP(ctx, s)
}

// serveMCP serves the pool of a session to the one client at the other end of
// standard input and output.
func (a *app) serveMCP(ctx context.Context, s *session) error {
	log := a.logger(slogQuiet)
	registry := mcpserver.NewRegistry(s.broker, log)
	if err := registry.Read(ctx); err != nil { // so that the first list is whole
		return fmt.Errorf("the tools of the pool cannot be read: %w", err)
	}
	server, err := mcpserver.New(mcpserver.Config{
		Broker: s.broker, Client: s.client, Registry: registry, Name: "mcp:" + a.by(), May: mcpserver.May{Answer: true, Cancel: true}, Version: readBuild().Version, Log: log,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	following, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		registry.Follow(following, 0)
	}()
	defer func() {
		stop()
		<-done
	}()
	err = server.ServeIO(ctx, a.In, a.Out)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil // the client is gone
	}
	return err
}
