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

type mcpOptions struct {
	wrap bool
	wrapOptions
}

func (a *app) mcpCommand() *cobra.Command {
	o := &mcpOptions{}
	c := &cobra.Command{
		Use:   "mcp [--wrap -- COMMAND [ARGUMENT…]]",
		Short: "Serve the tools of the pool to a client of MCP, over standard input and output",
		Long: `Mcp is a server of MCP whose tools are those of the pool: an agent that knows MCP
calls them, and has its failures looked into and tried again. It speaks the
protocol on standard input and output until its input ends; what goes wrong is
written to standard error. Clients start it by their configuration:

  {"mcpServers": {"pool": {"command": "mulligan", "args": ["mcp", "--server", "nats://…"]}}}

With --wrap the pool is in this process and has the tools of one other server of
MCP, the command behind --, under their own names. It is started again when it
ends, gets this process's environment, and ends with it. For its client one line
is another:

  {"mcpServers": {"files": {"command": "mulligan", "args": ["mcp", "--wrap", "--", "npx", "-y", "…"]}}}

A request that its client cancels has its call cancelled. Calls of a client that
just goes away go on, but for those of --wrap. See docs/mcp.md.`,
		Example: `  mulligan mcp
  mulligan mcp --server nats://127.0.0.1:4222
  mulligan mcp --wrap -- npx -y @modelcontextprotocol/server-memory
  mulligan mcp --wrap --trust --effect move_file=unsafe --state ~/.files-calls -- npx -y @modelcontextprotocol/server-filesystem /tmp`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.mcp(cmd.Context(), o, args) },
	}
	f := c.Flags()
	a.conn.flags(f)
	f.BoolVar(&o.wrap, "wrap", false, "serve the tools of the server of MCP that is started by the command behind --, by a pool of its own in this process")
	o.wrapOptions.flags(c)
	return c
}

// mcpPatience is how long a submission is tried while the pool is full or does
// not answer, as at the gateway.
const mcpPatience = 10 * time.Second

func (a *app) mcp(ctx context.Context, o *mcpOptions, command []string) (err error) {
	if o.wrap {
		return a.wrapMCP(ctx, o.wrapOptions, command)
	}
	switch flag := o.given(a); {
	case len(command) > 0:
		return usage("%q is one argument too many: a command to be wrapped is given as --wrap -- COMMAND", command[0])
	case flag != "":
		return usage("--%s is for the server that is wrapped: give --wrap -- COMMAND too", flag)
	}
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
