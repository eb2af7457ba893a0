package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"mulligan/internal/pool"
	"mulligan/jetstream"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/mcptool"
	"mulligan/pkg/worker"
)

type workerOptions struct {
	daemon
	slots      int
	timeout    time.Duration
	drainTools time.Duration
	replace    bool
	withdraw   bool
}

func (a *app) workerFlags(c *cobra.Command, o *workerOptions) {
	a.daemonFlags(c, &o.daemon)
	f := c.Flags()
	f.IntVar(&o.slots, "slots", 8, "how many tools run at a time")
	f.DurationVar(&o.timeout, "timeout", 60*time.Second, "time-out of one execution, where neither call nor tool has one")
	f.DurationVar(&o.drainTools, "drain-tools", 30*time.Second, "how long running tools may go on after SIGTERM; an unsafe one that is stopped ends as unknown")
	f.BoolVar(&o.replace, "replace", false, "let a changed schema or effect replace the registered one")
	f.BoolVar(&o.withdraw, "withdraw", false, "take the tools back when stopping: calls of a tool that nobody else serves then fail instead of waiting")
}

func (a *app) work(ctx context.Context, o *workerOptions, tools []*tool.Tool, servers []mcptool.Config) error {
	return a.daemonRun(ctx, &o.daemon, func(b *jetstream.Pool, log *slog.Logger, reg *prometheus.Registry) (service, error) {
		made, err := newServers(servers, log)
		if err != nil {
			return nil, err
		}
		var workers []service
		if len(tools) > 0 {
			w, err := newWorker(b, o, o.name, tools, nil, log, reg)
			if err != nil {
				return nil, err
			}
			workers = append(workers, w)
		}
		for _, s := range made {
			w, err := newWorker(b, o, o.name+"/"+s.Name(), nil, s, log, reg)
			if err != nil {
				return nil, err
			}
			workers = append(workers, w)
		}
		return withServers(made, all(workers)), nil
	})
}

// newWorker makes the worker of tools, or of one server.
func newWorker(b *jetstream.Pool, o *workerOptions, name string, tools []*tool.Tool, live worker.Live, log *slog.Logger, reg *prometheus.Registry) (service, error) {
	w, err := worker.New(worker.Config{
		Broker: b, Tools: tools, Live: live, Name: name, Slots: o.slots, Lease: o.lease, Timeout: o.timeout, DrainTimeout: o.drainTools,
		Replace: o.replace, KeepOffer: !o.withdraw, Log: log, Metrics: pool.WorkerMetrics(reg),
	})
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	return w, errors.Join(pool.RegisterStats(reg, w))
}

// Worker is the service that runs tools by declaration and MCP servers.
func Worker(ctx context.Context, env IO, args []string) int {
	a := newApp("worker", env)
	return a.run(ctx, workerTree(a), args)
}

func workerTree(a *app) *cobra.Command {
	o := &workerOptions{}
	var files, mcp []string
	var builtin bool
	c := a.root("worker", "Run declared tools and MCP servers for a pool",
		`Worker runs the tools that YAML files declare (programs that read JSON and write
JSON, requests to an API) and the tools of MCP servers, for the pool it is connected
to. Tools written in Go bring a worker of their own, see pkg/worker.

Each MCP server is a queue, with a worker and --slots of its own, so that one that
does not answer holds up no other.

SIGTERM drains it: it takes no more calls, lets the tools that run end for
--drain-tools, and stops the rest.`)
	c.Example = `  worker --server nats://nats:4222 --tools tools.yaml --slots 16 --http 0.0.0.0:9090
  worker --server nats://nats:4222 --mcp mcp.json`
	c.Args = noArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		tools, err := fileTools(files, builtin)
		if err != nil {
			return notFound(err)
		}
		servers, err := loadServers(mcp)
		if err != nil {
			return notFound(err)
		}
		if len(tools) == 0 && len(servers) == 0 {
			return usage("no tools: give --tools FILE.yaml, --mcp FILE.json or --builtin")
		}
		return a.work(cmd.Context(), o, tools, servers)
	}
	a.workerFlags(c, o)
	f := c.Flags()
	f.StringSliceVar(&files, "tools", nil, "file that declares tools; may be given several times")
	mcpFlag(c, &mcp)
	f.BoolVar(&builtin, "builtin", false, "serve the built-in tools echo, sleep and fail too")
	_ = c.RegisterFlagCompletionFunc("tools", yamlFiles)
	c.AddCommand(a.versionCommand())
	return c
}
