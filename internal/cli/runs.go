package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/runstate"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// runsQuery are the flags of the list.
type runsQuery struct {
	labels  []string
	states  []string
	name    string
	origin  string
	before  string
	since   time.Duration
	limit   int
	batches bool
}

func (a *app) runsCommand() *cobra.Command {
	q := runsQuery{limit: 50}
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, and look at, wait for, close or cancel one",
		Long: `Runs lists the runs that were declared, or ended hard, the newest first: those of
` + "`mulligan run`" + ` among them, also where they have no name; such a run is called / and
the id of its batch. States are open (calls may come), closed (none comes, and some
have not ended), over (all have ended) and ended (a hard end, a cancellation or its
deadline).`,
		Example: `  mulligan runs
  mulligan runs --label team=travel --run-state open,closed
  mulligan runs get nightly
  mulligan runs results nightly > results.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listRuns(cmd.Context(), q) },
	}
	a.conn.flags(c.PersistentFlags())
	f := c.Flags()
	f.StringSliceVar(&q.labels, "label", nil, "only runs with this label, as name=value, or a name for any value; all of several")
	f.StringSliceVar(&q.states, "run-state", nil, "only runs in these states: open, closed, over, ended")
	f.StringVar(&q.name, "name", "", "only runs whose name holds this")
	f.StringVar(&q.origin, "origin", "", "only runs that replay this one")
	f.DurationVar(&q.since, "since", 0, "only runs of this last while, such as 24h")
	f.IntVar(&q.limit, "limit", q.limit, "how many are shown; 0 shows all")
	f.StringVar(&q.before, "before", "", "go on behind this run, the last of the page before")
	f.BoolVar(&q.batches, "batches", false, "also batches that nobody declared; what they hold is read for it")
	_ = c.RegisterFlagCompletionFunc("run-state", words("open", "closed", "over", "ended"))
	c.AddCommand(a.runsGetCommand(), a.runsWaitCommand(), a.runsResultsCommand(), a.runsCancelCommand(), a.runsCloseCommand(),
		a.runsDeleteCommand(), a.runsExportCommand(), a.runsImportCommand())
	return c
}

func (q runsQuery) query() (client.RunQuery, error) {
	out := client.RunQuery{Name: q.name, Limit: q.limit, Batches: q.batches, Labels: make(map[string]string)}
	for _, l := range q.labels {
		k, v, _ := strings.Cut(l, "=")
		out.Labels[k] = v
	}
	for _, s := range q.states {
		if !slices.Contains(runstate.States(), runstate.State(s)) {
			return out, usage("--run-state %q is none of open, closed, over, ended", s)
		}
		out.States = append(out.States, runstate.State(s))
	}
	if q.limit < 0 {
		return out, usage("--limit %d is negative; 0 shows all", q.limit)
	}
	if q.since < 0 {
		return out, usage("--since %s is negative; give a duration such as 24h", q.since)
	}
	if q.since > 0 {
		out.Since = time.Now().Add(-q.since)
	}
	var err error
	if q.before != "" {
		out.Before, err = runOf(q.before)
	}
	if q.origin != "" && err == nil {
		out.Origin, err = runOf(q.origin)
	}
	return out, err
}

// runOf reads a run as a person names it: a name, or / and the id of a batch.
func runOf(name string) (messages.Run, error) {
	run := messages.NamedRun(name)
	if strings.HasPrefix(name, "/") {
		if run = messages.Run(name); run.Check() == nil {
			return run, nil
		}
		run = messages.NamedRun(name)
	}
	if err := messages.CheckName("run", name, messages.MaxName); err != nil {
		return "", withCode(exitUsage, err)
	}
	return run, nil
}

// withRuns connects for a command that reads runs.
func (a *app) withRuns(ctx context.Context, f func(s *session, runs *client.Runs) error) (err error) {
	lean()
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease, patience: 30 * time.Second}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	return f(s, client.NewRuns(s.broker))
}

func (a *app) listRuns(ctx context.Context, q runsQuery) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	return a.withRuns(ctx, func(_ *session, runs *client.Runs) error {
		if q.batches {
			a.say("reading what batches hold, for those that nobody declared")
		}
		page, more, err := runs.List(ctx, query)
		if err != nil {
			return err
		}
		if a.json() {
			for _, e := range page {
				if err := a.printJSON(runstate.ViewOf(e)); err != nil {
					return err
				}
			}
		} else if err := a.runsTable(page); err != nil {
			return err
		}
		if more {
			a.say("there are more: --before %s goes on, --limit 0 shows all", runstate.NameOf(page[len(page)-1].Run))
		}
		return nil
	})
}

func (a *app) runsTable(page []messages.RunEntry) error {
	if len(page) == 0 {
		a.say("no run is like that")
		return nil
	}
	rows := make([][]string, len(page))
	for i, e := range page {
		calls, bad := "", ""
		switch {
		case e.Over != nil:
			calls, bad = thousands(int(e.Over.Calls)), thousands(int(runstate.Failed(e.Over.RunCounts)))
		case e.Closed != nil && e.Closed.Calls != nil:
			calls = thousands(int(*e.Closed.Calls))
		case e.Spec != nil && e.Spec.Expected > 0:
			calls = "about " + thousands(int(e.Spec.Expected))
		}
		rows[i] = []string{oneLine(runstate.NameOf(e.Run), 60), stateOf(e), e.Created.Local().Format(time.DateTime), calls, bad, oneLine(labelsOf(e), 60)}
	}
	return table(a.Out, []string{"RUN", "STATE", "SINCE", "CALLS", "NOT SUCCEEDED", "LABELS"}, rows)
}

func labelsOf(e messages.RunEntry) string {
	if e.Spec == nil {
		return ""
	}
	var parts []string
	for k, v := range e.Spec.Labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// stateOf tells a hard end by its kind.
func stateOf(e messages.RunEntry) string {
	switch {
	case e.Delete != nil:
		return "deleting"
	case e.Import != nil:
		return "importing"
	case e.Ended != nil:
		return string(e.Ended.Status)
	}
	return string(runstate.Of(e))
}

func (a *app) runsCancelCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "cancel RUN",
		Short:   "End a run: its calls end cancelled, what has ended stays",
		Long:    "Cancel ends every call of a run, wherever it is, and returns when that wish is durable.\nCalls that come later are refused.",
		Example: "  mulligan runs cancel nightly --reason \"wrong input\"",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			return a.withRuns(ctx, func(s *session, runs *client.Runs) error {
				if _, err := runs.Get(ctx, run); err != nil {
					return err
				}
				if _, err := s.client.Cancel(ctx, messages.CancelRequest{Run: run, Reason: reason}); err != nil {
					return err
				}
				a.say("cancelled: run %s is over; calls of it that come later are refused", runstate.NameOf(run))
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the story of the calls")
	return c
}

func (a *app) runsCloseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "close RUN",
		Short: "Say that no call comes into a run any more",
		Long: `Close says that no call comes into a declared run any more: it is over when those
that were accepted have ended. ` + "`mulligan run`" + ` closes its run at the end of its file.`,
		Example: "  mulligan runs close nightly",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			return a.withRuns(ctx, func(s *session, _ *client.Runs) error {
				if _, err := s.client.CloseRun(ctx, run, -1); err != nil {
					return err
				}
				a.say("closed: no call comes into run %s any more", runstate.NameOf(run))
				return nil
			})
		},
	}
}

func plural64(n int64, one, many string) string { return fmt.Sprint(plural(int(n), one, many)) }
