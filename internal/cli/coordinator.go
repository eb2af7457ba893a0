package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"mulligan/internal/coordination"
	"mulligan/internal/metrics"
	"mulligan/jetstream"
)

type coordinatorOptions struct {
	daemon
	gateway   gatewayOptions
	webhooks  webhookOptions
	topology  jetstream.TopologyConfig
	provision bool
	maxQueued int
	answerBy  time.Duration

	storeLimit string
	policy     string
}

// Coordinator is the service that takes calls in and applies decisions.
func Coordinator(ctx context.Context, env IO, args []string) int {
	a := newApp("coordinator", env)
	return a.run(ctx, coordinatorTree(a), args)
}

func coordinatorTree(a *app) *cobra.Command {
	o := &coordinatorOptions{}
	c := a.root("coordinator", "Take calls in, apply decisions, end calls and runs",
		`Coordinator serves submissions, offers and cancels of a pool, and does to each call
what was decided about it. Any number may run side by side; none is special.

It makes the streams and buckets of the pool, or checks them: --provision=false leaves
that to somebody else.`)
	c.Example = "  coordinator --server nats://nats:4222 --http 0.0.0.0:9090\n  coordinator --server nats://nats:4222 --gateway 0.0.0.0:7070 --gateway-tokens tokens.yaml\n  coordinator --server nats://nats:4222 --policy policies.yaml"
	c.Args = noArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error { return a.coordinator(cmd.Context(), o) }
	a.daemonFlags(c, &o.daemon)
	f := c.Flags()
	o.gateway.flags(f)
	o.webhooks.flags(f)
	d := jetstream.TopologyConfig{}.WithDefaults()
	f.BoolVar(&o.provision, "provision", true, "make or check the streams and buckets of the pool")
	f.IntVar(&o.topology.Replicas, "replicas", d.Replicas, "replicas of every stream: 1, 3 or 5")
	f.DurationVar(&o.topology.ResultsAge, "results-age", d.ResultsAge, "how long results are kept; within it a call ends once")
	f.DurationVar(&o.topology.RecoveryAge, "recovery-age", d.RecoveryAge, "how long the stories of calls are kept")
	f.DurationVar(&o.answerBy, "answer-by", 24*time.Hour, "how long a call waits for a human where no policy says so")
	f.DurationVar(&o.topology.AnswerByLimit, "answer-by-limit", 0, "how long a policy may let a call wait for a human; 0 for seven days, or --recovery-age where that is less")
	f.IntVar(&o.maxQueued, "max-queued", 1_000_000, "how many calls may wait in a queue before submissions to it are refused; -1 for no limit")
	f.StringVar(&o.storeLimit, "store-limit", "", "how large the store of NATS may become (its max_file_store), such as 20GB: submissions are refused before results find no room; empty leaves it to NATS")
	policyFlag(c, &o.policy)
	c.AddCommand(a.versionCommand())
	return c
}

func (a *app) coordinator(ctx context.Context, o *coordinatorOptions) error {
	var limit int64
	if o.storeLimit != "" {
		var err error
		if limit, err = storeSize(o.storeLimit); err != nil {
			return err
		}
	}
	notify, err := o.webhooks.notify()
	if err != nil {
		return err
	}
	document, err := a.policyDocument(o.policy)
	if err != nil {
		return err
	}
	topology := o.topology.WithDefaults()
	if err := topology.Validate(); err != nil {
		return withCode(exitUsage, err)
	}
	return a.daemonRun(ctx, &o.daemon, func(b *jetstream.Pool, log *slog.Logger, reg *prometheus.Registry) (service, error) {
		web, err := o.gateway.config(log)
		if err != nil {
			return nil, err
		}
		var prepare func(context.Context) error
		if o.provision {
			prepare = func(ctx context.Context) error { return b.ProvisionPatiently(ctx, topology) }
		}
		c, err := coordination.New(coordination.Config{
			Prepare: prepare, Notify: notify, Store: b, StoreLimit: limit,
			Broker: b, Name: o.name, Lease: o.lease, MaxQueued: o.maxQueued, Document: document, Log: log, Metrics: metrics.NewCoordinator(reg),
			ResultsRetention: topology.ResultsAge, RecordTTL: topology.RecordTTL, DeadlineLimit: topology.DeadlineLimit, CancelTTL: topology.CancelTTL,
			AnswerBy: min(o.answerBy, topology.AnswerByLimit), AnswerByLimit: topology.AnswerByLimit,
		})
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		return besides(c, web, func(context.Context) (*jetstream.Pool, func(), error) { return b, func() {}, nil }), nil
	})
}
