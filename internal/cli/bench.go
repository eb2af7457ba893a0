package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mulligan/internal/bench"
)

// serverOfBench is the hidden command that the broker's process runs.
const serverOfBench = "server"

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure what Mulligan costs beside the broker alone",
		Long: `Bench measures scenarios, each on a pool of its own in a temporary folder, with the
broker in a process of its own. Most are measured in turns with a plain JetStream work
queue that carries the same messages, so that their ratio says what Mulligan costs;
absolute figures depend on the machine. docs/performance.md explains the figures.

Figures are medians over the repetitions; the spread is how far these lie apart. Limits
are what the figures are held against, except with --short: one that does not hold is no
error, unless --gate is given.`,
		Example: "  mulligan bench throughput --slots 1,64\n  mulligan bench latency -o json | jq .p99_ratio\n  mulligan bench all > bench.txt",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o := &benchOptions{}
	for _, s := range bench.Scenarios() {
		c.AddCommand(a.scenarioCommand(s, o))
	}
	all := &cobra.Command{
		Use: "all", Short: "Measure all scenarios, and print a table of what was held against a limit",
		Example: "  mulligan bench all\n  mulligan bench all --short -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.Slots) == 0 {
				o.Slots = bench.AllSlots()
			}
			return a.measure(cmd.Context(), o, bench.Scenarios())
		},
	}
	o.flags(all, true)
	c.AddCommand(all, &cobra.Command{
		Use: serverOfBench, Short: "The broker's process of a measurement", Hidden: true, Args: noArgs,
		Example: "  mulligan bench server",
		RunE:    func(*cobra.Command, []string) error { return bench.ServeBroker(a.In, a.Out) },
	})
	return c
}

type benchOptions struct {
	bench.Options
	gate bool
}

func (o *benchOptions) flags(c *cobra.Command, slots bool) {
	f := c.Flags()
	f.BoolVar(&o.Short, "short", false, "make everything so small that it only shows that it works, and hold nothing against a limit")
	f.IntVar(&o.Repetitions, "repetitions", 0, "repetitions of each case, after a warm-up (default 5, or 1 with --short)")
	f.IntVar(&o.Calls, "calls", 0, "calls of a repetition (default: the scenario's own)")
	f.IntVar(&o.Size, "size", 1024, "size of an input and of an output, in bytes")
	f.StringVar(&o.Profile, "profile", "", "folder for profiles of processor time and allocations, of this process (client) and the broker's (server), of each case's last repetition; go tool pprof reads them")
	f.BoolVar(&o.gate, "gate", false, "fail with exit code 3 when a limit does not hold")
	if slots {
		f.IntSliceVar(&o.Slots, "slots", nil, "how many calls run at a time, of the scenario throughput; several are a case each")
	}
}

func (a *app) scenarioCommand(s bench.Scenario, o *benchOptions) *cobra.Command {
	c := &cobra.Command{
		Use: s.Name, Short: "Measure " + strings.SplitN(s.About, ":", 2)[0],
		Long:    "Measures " + s.About + ".\n\nReports " + strings.Join(s.Figures, ", ") + ".",
		Example: fmt.Sprintf("  mulligan bench %[1]s\n  mulligan bench %[1]s -o json", s.Name),
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.measure(cmd.Context(), o, []bench.Scenario{s}) },
	}
	o.flags(c, s.Name == "throughput")
	return c
}

// measure runs scenarios one after the other; a fault of one is told at the end
// and does not keep the others from being measured.
func (a *app) measure(ctx context.Context, o *benchOptions, scenarios []bench.Scenario) error {
	if err := o.Validate(); err != nil {
		return usage("%v", err)
	}
	if o.gate && o.Short {
		return usage("--gate and --short: what is so small is held against no limit; leave one out")
	}
	if len(a.Self) == 0 {
		return errors.New("this program cannot be started anew, to run the broker in a process of its own")
	}
	o.Server = append(slices.Clone(a.Self), "bench", serverOfBench)
	o.Say = a.say
	var reports []*bench.Report
	var failed error
	for _, s := range scenarios {
		err := s.Run(ctx, o.Options, func(r *bench.Report) error {
			reports = append(reports, r)
			if a.json() {
				return a.printJSON(r)
			}
			_, err := fmt.Fprintln(a.Out, r.Text())
			return err
		})
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			return failed
		}
	}
	if failed == nil && !a.json() && len(scenarios) > 1 && !o.Short {
		failed = a.limits(reports)
	}
	return cmp.Or(failed, o.verdict(reports))
}

// limits prints what was held against a limit.
func (a *app) limits(reports []*bench.Report) error {
	var rows [][]string
	for _, r := range reports {
		for _, l := range r.Limits {
			v, _ := r.Value(l.Figure)
			rows = append(rows, []string{r.Title(), fmt.Sprintf("%.4g", v), l.String()})
		}
	}
	if _, err := fmt.Fprintln(a.Out); err != nil {
		return err
	}
	return table(a.Out, []string{"SCENARIO", "MEASURED", "LIMIT"}, rows)
}

func (o *benchOptions) verdict(reports []*bench.Report) error {
	if !o.gate {
		return nil
	}
	var missed []string
	for _, r := range reports {
		for _, l := range r.Limits {
			if !l.Holds {
				missed = append(missed, r.Title()+": "+l.String())
			}
		}
	}
	if len(missed) == 0 {
		return nil
	}
	return withCode(exitSome, errors.New(strings.Join(missed, "; ")))
}
