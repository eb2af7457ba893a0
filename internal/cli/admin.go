package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"mulligan/jetstream"
)

func (a *app) adminCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "admin", Short: "Look at what a pool is made of", Example: "  mulligan admin topology\n  mulligan admin permissions",
		Long: "Admin is for whoever runs the broker of a pool: what coordinators make there, and who may do what.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o := struct {
		queues   []string
		topology jetstream.TopologyConfig
	}{}
	topology := &cobra.Command{
		Use:   "topology",
		Short: "Print the streams, buckets and consumers of a pool",
		Long: `Topology prints what coordinators make at NATS for a pool, and with --queue what they
add for a queue. It connects to nobody: it tells what this version makes.`,
		Example: "  mulligan admin topology\n  mulligan admin topology --queue default -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			assets, err := jetstream.Topology(jetstream.Config{Prefix: a.conn.pool}, o.topology, o.queues)
			if err != nil {
				return withCode(exitUsage, err)
			}
			return a.printAssets(assets)
		},
	}
	f := topology.Flags()
	a.conn.poolFlag(f)
	f.StringSliceVar(&o.queues, "queue", nil, "queue whose consumers are printed, too; may be given several times")
	f.IntVar(&o.topology.Replicas, "replicas", 1, "replicas of every stream, as coordinators are started with: 1, 3 or 5")
	c.AddCommand(topology, a.permissionsCommand())
	return c
}

func (a *app) printAssets(assets []jetstream.Asset) error {
	if a.json() {
		return a.printJSON(assets)
	}
	var rows [][]string
	for _, s := range assets {
		rows = append(rows, []string{s.Kind, s.Name, s.Stream, strings.Join(s.Subjects, " "), strings.Join(s.Settings, ", ")})
	}
	return table(a.Out, []string{"KIND", "NAME", "OF", "SUBJECTS", "SETTINGS"}, rows)
}
