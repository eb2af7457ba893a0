package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"mulligan/internal/pool"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
)

type upOptions struct {
	serving
	gateway    gatewayOptions
	webhooks   webhookOptions
	llm        llmOptions
	port       int
	storeLimit string
	durable    bool
	tools      []string
	mcp        []string
	policy     string
	slots      int
	lease      time.Duration
}

func (a *app) upCommand() *cobra.Command {
	o := &upOptions{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a whole pool in one process",
		Long: `Up runs NATS, a coordinator, a reflector and a worker in one process. Its state is
in a folder, which only one process may use at a time; its address and token are in
a file there that only you can read, so that the other commands find it. It serves
the built-in tools echo, sleep and fail, the tools of --tools and those of the MCP
servers of --mcp; workers of your own connect to its address.

Ctrl-C or SIGTERM stops it cleanly; what was not done is done after the next start,
which is at the same address, so that clients and workers find it again.`,
		Example: `  mulligan up
  mulligan up --tools tools.yaml --policy policies.yaml --http 9090
  mulligan up --mcp mcp.json
  mulligan up --gateway 7070
  mulligan up --webhooks --webhook-secret-file secret
  mulligan up --state /var/lib/mulligan --store-limit 20GiB -o json
  mulligan up --llm-url http://localhost:8080/v1 --llm-model qwen3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), o) },
	}
	f := c.Flags()
	a.conn.poolFlag(f)
	f.StringVar(&a.conn.state, "state", ".mulligan", "folder of the state")
	o.serving.flags(f)
	o.gateway.flags(f)
	o.webhooks.flags(f)
	o.llm.flags(c)
	f.IntVar(&o.port, "port", 0, "port of NATS on the loopback interface; 0 takes a free one")
	f.StringVar(&o.storeLimit, "store-limit", "8GiB", "how large the state may become, such as 500MB; a full store refuses new calls and loses none")
	f.BoolVar(&o.durable, "sync", false, "write each message to the disk before it counts, which survives a power cut and is much slower")
	f.StringSliceVar(&o.tools, "tools", nil, "file that declares tools; may be given several times")
	mcpFlag(c, &o.mcp)
	policyFlag(c, &o.policy)
	f.IntVar(&o.slots, "slots", 16, "how many tools run at a time")
	f.DurationVar(&o.lease, "lease", ownLease, "after what time calls that a lost worker held are given to another")
	_ = c.RegisterFlagCompletionFunc("tools", yamlFiles)
	_ = c.MarkFlagDirname("state")
	return c
}

func (o *upOptions) config(a *app) (pool.Config, error) {
	if o.port < 0 || o.port > 65535 {
		return pool.Config{}, usage("--port %d: give 1 to 65535, or 0 for a free one", o.port)
	}
	if err := o.serving.check(); err != nil {
		return pool.Config{}, err
	}
	limit, err := storeSize(o.storeLimit)
	if err != nil {
		return pool.Config{}, err
	}
	if err := checkOwn(o.slots, o.lease); err != nil {
		return pool.Config{}, err
	}
	tools, err := loadTools(o.tools)
	if err != nil {
		return pool.Config{}, notFound(err)
	}
	document, err := a.policyDocument(o.policy)
	if err != nil {
		return pool.Config{}, err
	}
	notify, err := o.webhooks.notify()
	if err != nil {
		return pool.Config{}, err
	}
	cfg := pool.Config{
		Dir: a.statePath(), Port: o.port, StoreLimit: limit, Prefix: a.conn.pool, Tools: tools, Slots: o.slots, Lease: o.lease, Address: true,
		Document: document, Notify: notify,
	}
	if o.durable {
		cfg.Durability = embedded.Always
	}
	return cfg, nil
}

// storeSize reads --store-limit.
func storeSize(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n < 1<<20 || n > 1<<62 {
		return 0, usage("--store-limit %q is not a size of 1MiB or more, such as 500MB or 8GiB", text)
	}
	return int64(n), nil
}

func (a *app) up(ctx context.Context, o *upOptions) error {
	begun := time.Now()
	cfg, err := o.config(a)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return usage("the state folder cannot be made: %w; give another one with --state", err)
	}
	log := a.logger(slogDebug)
	reg := newRegistry()
	cfg.Log, cfg.Metrics = log, reg
	if cfg.Model, err = o.llm.reflector(a, log); err != nil {
		return err
	}
	cfg.AnalyseTimeout = o.llm.analyseTimeout()
	loaded, err := loadServers(o.mcp)
	if err != nil {
		return notFound(err)
	}
	servers, err := newServers(loaded, log)
	if err != nil {
		return err
	}
	for _, s := range servers {
		cfg.Live = append(cfg.Live, s)
	}
	p, err := pool.New(cfg)
	if err != nil {
		return withCode(exitUsage, err)
	}
	web, err := o.gateway.config(log)
	if err != nil {
		return err
	}
	ready := func() error {
		if a.json() {
			return a.printJSON(map[string]any{"url": p.URL(), "state": cfg.Dir, "pid": os.Getpid(), "ready_after_ms": time.Since(begun).Milliseconds()})
		}
		_, err := fmt.Fprintf(a.Out, "up after %s: pool %s at %s, state in %s\n", time.Since(begun).Round(time.Millisecond), a.conn.pool, p.URL(), cfg.Dir)
		return err
	}
	s := besides(withServers(servers, p), web, func(ctx context.Context) (*jetstream.Pool, func(), error) {
		b, err := p.Connect(ctx, "mulligan gateway")
		if err != nil {
			return nil, nil, err
		}
		return b, b.Close, nil
	})
	err = a.serve(ctx, o.serving, log, reg, p.Healthy, s, ready)
	switch {
	case errors.Is(err, embedded.ErrPort):
		return withCode(exitUsage, fmt.Errorf("--port: %w", err))
	case errors.Is(err, embedded.ErrLocked):
		return withCode(exitUsage, fmt.Errorf("another process uses the state folder %s, most likely `mulligan up`: stop it, or give another folder with --state", cfg.Dir))
	}
	return err
}
