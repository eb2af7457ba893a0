package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/calls"
	"mulligan/internal/runstate"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// manyResults is from how many on it is said that they are read.
const manyResults = 20_000

func (a *app) runsGetCommand() *cobra.Command {
	var quick bool
	c := &cobra.Command{
		Use:   "get RUN",
		Short: "Show how far a run is: its calls by outcome and tool, and an estimate",
		Long: `Get shows what a run was declared with and how far it is. How many calls have ended,
are queued or running, wait or are parked is counted by the broker. What came of them
is kept with a run that is over; of another one the headers of its results are read,
which takes seconds for a million, and can be interrupted; --quick leaves it out.

RUN is a name, or / and the id of a batch.`,
		Example: "  mulligan runs get nightly\n  mulligan runs get nightly --quick -o json | jq .progress",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(_ *session, runs *client.Runs) error {
				return a.getRun(cmd.Context(), runs, run, quick)
			})
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "read no results: leave out what came of the calls")
	return c
}

func (a *app) getRun(ctx context.Context, runs *client.Runs, run messages.Run, quick bool) error {
	e, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	p, err := runs.Progress(ctx, e)
	if err != nil {
		return err
	}
	var counts *messages.RunCounts
	if !quick {
		if e.Over == nil && p.Ended >= manyResults {
			a.say("reading the headers of %s; --quick leaves that out", plural64(p.Ended, "result", "results"))
		}
		read, err := runs.Counts(ctx, e, func(messages.RunCounts) bool { return ctx.Err() == nil })
		if err != nil {
			return err
		}
		counts = &read
	}
	line := runstate.ViewOf(e).With(p, counts, time.Now())
	if a.json() {
		return a.printJSON(line)
	}
	return a.tellRun(line)
}

func (a *app) tellRun(l runstate.View) error {
	out := func(format string, args ...any) { fmt.Fprintf(a.Out, format+"\n", args...) }
	out("run       %s", runstate.NameOf(l.Run))
	out("state     %s", stateText(l.RunEntry))
	if l.Spec != nil {
		out("declared  %s by %s", l.Created.Local().Format(time.DateTime), l.By)
		tellSpec(out, *l.Spec)
	}
	p := *l.Progress
	total := thousands(int(p.Total))
	if !p.Sure {
		total += " that are known"
	}
	out("calls     %s of %s have ended", thousands(int(p.Ended)), total)
	if p.Queued+p.Waiting+p.Parked > 0 {
		out("          %s queued or running, %s waiting, %s parked", thousands(int(p.Queued)), thousands(int(p.Waiting)), thousands(int(p.Parked)))
	}
	if l.Left != nil && p.Left() > 0 {
		out("left      about %s, at the pace so far", l.Left.Duration().Round(time.Second))
	}
	if l.Counts == nil || l.Counts.Calls == 0 {
		return nil
	}
	out("outcomes  %s", outcomes(*l.Counts))
	return a.toolsOfRun(*l.Counts)
}

func tellSpec(out func(string, ...any), s messages.RunSpec) {
	if len(s.Labels) > 0 {
		out("labels    %s", labelsOf(messages.RunEntry{Spec: &s}))
	}
	var limits []string
	add := func(n int64, text string) {
		if n > 0 {
			limits = append(limits, fmt.Sprintf(text, thousands(int(n))))
		}
	}
	add(int64(s.InFlight), "%s in flight")
	add(s.Budget.Calls, "%s calls")
	add(s.Budget.Retries, "%s retries")
	add(s.Budget.Tokens, "%s tokens")
	add(s.Budget.Cost, "%s millionths of money")
	if !s.Deadline.IsZero() {
		limits = append(limits, "until "+s.Deadline.Local().Format(time.DateTime))
	}
	if s.Keep > 0 {
		limits = append(limits, "kept for "+s.Keep.Duration().String()+" after its end")
	}
	if len(limits) > 0 {
		out("limits    %s", strings.Join(limits, ", "))
	}
	if len(s.Policy) > 0 {
		out("policy    %s", s.Policy)
	}
	if s.Origin != "" {
		out("replays   %s", runstate.NameOf(s.Origin))
	}
}

func stateText(e messages.RunEntry) string {
	switch {
	case e.Gone():
		return "deleted"
	case e.Delete != nil:
		return "being deleted, as asked for at " + e.Delete.At.Local().Format(time.DateTime)
	case e.Import != nil:
		return "being brought in since " + e.Import.At.Local().Format(time.DateTime) + ", and not whole"
	case e.Ended != nil:
		return fmt.Sprintf("%s at %s: %s", e.Ended.Status, e.Ended.At.Local().Format(time.DateTime), oneLine(e.Ended.Reason, 200))
	case e.Over != nil:
		return "over since " + e.Over.Last.Local().Format(time.DateTime)
	case e.Closed != nil:
		return "closed at " + e.Closed.At.Local().Format(time.DateTime)
	case e.Spec == nil:
		return "open, and nobody declared it"
	}
	return "open"
}

// outcomes tells counts to people, the good news first.
func outcomes(c messages.RunCounts) string {
	var parts []string
	for _, s := range messages.Ends() {
		if n := c.Outcomes[s]; n > 0 {
			text := thousands(int(n)) + " " + string(s)
			if s == messages.Succeeded && c.Recovered > 0 {
				text += fmt.Sprintf(" (%s of them recovered)", thousands(int(c.Recovered)))
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) toolsOfRun(c messages.RunCounts) error {
	rows := make([][]string, 0, len(c.Tools))
	for _, tool := range slices.Sorted(maps.Keys(c.Tools)) {
		of := messages.RunCounts{Outcomes: c.Tools[tool]}
		rows = append(rows, []string{oneLine(cmp.Or(tool, "(others)"), 60), outcomes(of)})
	}
	return table(a.Out, []string{"TOOL", "OUTCOMES"}, rows)
}

func (a *app) runsWaitCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "wait RUN [-- COMMAND…]",
		Short: "Wait until a run is over",
		Long: `Wait returns when a run is over: when it was closed and all its calls have ended, or
it was ended and they have; a run that nobody declared or closed, when no call of it
is left. What stands behind -- is run then, without a shell, with the run as JSON on
its standard input and its name in MULLIGAN_ENDED_RUN.

Exit code: 0 all succeeded, 1 COMMAND failed, 3 some did not succeed, 4 --wait was over.`,
		Example: "  mulligan runs wait nightly --wait 2h\n  mulligan runs wait nightly -- notify-send \"nightly is over\"",
		Args:    oneAndCommand("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			if wait < 0 {
				return usage("--wait %s is negative; 0 waits for as long as it takes", wait)
			}
			ctx := cmd.Context()
			if wait > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeoutCause(ctx, wait, errWaitOver)
				defer stop()
			}
			return a.withRuns(ctx, func(_ *session, runs *client.Runs) error { return a.waitRun(ctx, runs, run, args[1:]) })
		},
	}
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait, such as 10m; 0 for as long as it takes")
	return c
}

func (a *app) waitRun(ctx context.Context, runs *client.Runs, run messages.Run, then []string) error {
	e, err := runs.Wait(ctx, run, a.runProgress())
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return withCode(exitCode(cause), fmt.Errorf("%w: run %s goes on", cause, runstate.NameOf(run)))
		}
		return err
	}
	counts, err := runs.Counts(ctx, e, func(messages.RunCounts) bool { return ctx.Err() == nil })
	if err != nil {
		return err
	}
	line := runstate.ViewOf(e)
	line.Counts = &counts
	if a.json() {
		err = a.printJSON(line)
	} else {
		a.say("run %s is over: %s", runstate.NameOf(run), cmp.Or(outcomes(counts), "it has no calls"))
	}
	if err == nil {
		err = a.then(ctx, then, run, line)
	}
	if err == nil && runstate.Failed(counts) > 0 {
		return quietly(exitSome)
	}
	return err
}

// runProgress shows how far a run is, on a terminal.
func (a *app) runProgress() func(client.RunProgress, time.Duration, bool) {
	if !a.Terminal {
		return func(client.RunProgress, time.Duration, bool) {}
	}
	return func(p client.RunProgress, rest time.Duration, known bool) {
		text := fmt.Sprintf("%s of %s have ended", thousands(int(p.Ended)), thousands(int(p.Total)))
		if p.Parked > 0 {
			text += fmt.Sprintf(", %s parked", thousands(int(p.Parked)))
		}
		if known && p.Left() > 0 {
			text += fmt.Sprintf(", about %s left", rest.Round(time.Second))
		}
		fmt.Fprintf(a.Err, "\r\x1b[K%s", text)
		if p.Left() == 0 {
			fmt.Fprint(a.Err, "\r\x1b[K")
		}
	}
}

func (a *app) runsResultsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "results RUN",
		Short: "Print the results of a run, in the order in which its calls were submitted",
		Long: `Results prints one JSON object for each call of a run that has ended, as ` + "`mulligan run`" + `
does, in the order in which they were submitted. The headers of all results are read
first; that takes seconds for a million calls, and 16 bytes of memory for each.

Exit code: 0 all that were printed succeeded, 3 some did not.`,
		Example: "  mulligan runs results nightly > results.jsonl\n  mulligan runs results nightly | jq -r 'select(.is_error) | .ref'",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s *session, runs *client.Runs) error {
				return a.runResults(cmd.Context(), s, runs, run)
			})
		},
	}
	return c
}

func (a *app) runResults(ctx context.Context, s *session, runs *client.Runs, run messages.Run) error {
	e, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	var counts messages.RunCounts
	out := newLineWriter(a.Out)
	err = runs.Results(ctx, e, func(n int) {
		if n == manyResults {
			a.say("reading the headers of the results first, for their order")
		}
	}, func(r messages.Result) error {
		output, err := s.client.Output(ctx, r)
		if errors.Is(err, messages.ErrNotFound) {
			r.Reason = fmt.Sprintf("the output of %d bytes has outlived its retention; %s", r.Output.Size(), r.Reason)
		} else if err != nil {
			return err
		}
		runstate.Add(&counts, r)
		return out.print(calls.Ended(r, output))
	})
	if err = errors.Join(err, out.flush()); err != nil {
		return err
	}
	if p, err := runs.Progress(ctx, e); err == nil && p.Left() > 0 {
		a.say("%s of this run have not ended", plural64(p.Left(), "call", "calls"))
	}
	if runstate.Failed(counts) > 0 {
		return quietly(exitSome)
	}
	return nil
}
