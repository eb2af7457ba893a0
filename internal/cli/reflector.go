package cli

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"mulligan/internal/pool"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
)

type reflectorOptions struct {
	daemon
	llm llmOptions
}

// Reflector is the service that finds out why calls failed.
func Reflector(ctx context.Context, env IO, args []string) int {
	a := newApp("reflector", env)
	return a.run(ctx, reflectorTree(a), args)
}

func reflectorTree(a *app) *cobra.Command {
	o := &reflectorOptions{}
	c := a.root("reflector", "Find out why calls failed, and decide what is to be done",
		`Reflector reads the failures of a pool, finds out what went wrong, proposes a
correction where it can, and decides: retry, ask a human, or end. It never touches a
call itself. Any number may run side by side: how they decide stands in the policies
of the pool (mulligan policy), which all of them follow.`)
	c.Example = `  reflector --server nats://nats:4222 --http 0.0.0.0:9090
  reflector --llm-url http://localhost:8080/v1 --llm-model qwen3 --llm-timeout 2m
  reflector --llm-url https://models.example.com/v1 --llm-model small --llm-key-file key.txt --llm-price-in 0.15 --llm-price-out 0.6`
	c.Args = noArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error { return a.reflector(cmd.Context(), o) }
	a.daemonFlags(c, &o.daemon)
	o.llm.flags(c)
	c.AddCommand(a.versionCommand())
	return c
}

func (a *app) reflector(ctx context.Context, o *reflectorOptions) error {
	model, err := o.llm.reflector(a, a.logger(slogDebug).With("service", a.program))
	if err != nil {
		return err
	}
	return a.daemonRun(ctx, &o.daemon, func(b *jetstream.Pool, log *slog.Logger, reg *prometheus.Registry) (service, error) {
		r, err := reflection.New(reflection.Config{
			Broker: b, Name: o.name, Lease: o.lease, Model: model, AnalyseTimeout: o.llm.analyseTimeout(), Log: log, Metrics: pool.ReflectorMetrics(reg),
		})
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		return r, nil
	})
}
