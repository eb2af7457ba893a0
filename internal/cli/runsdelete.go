package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"mulligan/internal/pace"
	"mulligan/internal/runstate"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// deleting are the flags of `runs delete`.
type deleting struct {
	yes, cancel bool
	wait        time.Duration
}

func (a *app) runsDeleteCommand() *cobra.Command {
	var d deleting
	c := &cobra.Command{
		Use:   "delete RUN",
		Short: "Delete everything that the pool keeps of a run",
		Long: `Delete removes a run for good: results, stories, records, large inputs and outputs that
nobody else refers to, and its entry. A run of which a call has not ended is not
deleted; --cancel cancels it first. The coordinators do the work, a lease (a minute,
10 s in ` + "`mulligan up`" + `) after they were asked, and go on with it whatever becomes of this
command, which waits for the end and prints what went. Said again, it waits again.

` + "`mulligan runs export`" + ` keeps a copy; ` + "`mulligan run --keep`" + ` has a run deleted by itself.

Exit code: 0 it is gone, 2 a call has not ended or --yes is missing, 4 --wait was over,
6 there is no such run.`,
		Example: "  mulligan runs delete nightly\n  mulligan runs delete nightly --cancel --yes -o json",
		Args:    exactly("the run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := runOf(args[0])
			if err != nil {
				return err
			}
			if d.wait < 0 {
				return usage("--wait %s is negative; 0 waits for as long as it takes", d.wait)
			}
			ctx := cmd.Context()
			if d.wait > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeoutCause(ctx, d.wait, errWaitOver)
				defer stop()
			}
			return a.withRuns(ctx, func(s *session, runs *client.Runs) error { return a.deleteRun(ctx, s, runs, run, d) })
		},
	}
	f := c.Flags()
	f.BoolVar(&d.yes, "yes", false, "do it without asking; needed where nobody can be asked")
	f.BoolVar(&d.cancel, "cancel", false, "cancel the run first, where calls of it have not ended")
	f.DurationVar(&d.wait, "wait", 0, "how long to wait for the end, such as 10m; 0 for as long as it takes")
	return c
}

func (a *app) deleteRun(ctx context.Context, s *session, runs *client.Runs, run messages.Run, d deleting) error {
	e, err := runs.Get(ctx, run)
	if err != nil {
		return err
	}
	if e.Delete == nil {
		if err := a.sureToDelete(ctx, runs, e, d.yes); err != nil {
			return err
		}
	}
	if d.cancel && e.Over == nil && e.Delete == nil {
		if err := a.endFirst(ctx, s, runs, run); err != nil {
			return err
		}
	}
	e, err = s.client.DeleteRun(ctx, run)
	var re *client.RunError
	if errors.As(err, &re) && re.Code == messages.CodeRunNotOver {
		return withCode(exitUsage, fmt.Errorf("%w; --cancel does that", err))
	}
	if err != nil {
		return err
	}
	if !e.Gone() {
		a.say("run %s is to be deleted; that begins within a lease", runstate.NameOf(run))
	}
	for !e.Gone() {
		if !pace.Sleep(ctx, deleteLook) {
			cause := context.Cause(ctx)
			return withCode(exitCode(cause), fmt.Errorf("%w: run %s is being deleted all the same", cause, runstate.NameOf(run)))
		}
		if e, err = entryOf(ctx, s, run); errors.Is(err, messages.ErrNotFound) {
			e = messages.RunEntry{Run: run, Delete: &messages.RunDelete{Removed: &messages.RunRemoved{}}} // seen too late
			a.say("what went with it was counted, and is not told any more")
		} else if err != nil && ctx.Err() == nil {
			return err
		}
	}
	if a.json() {
		return a.printJSON(struct {
			Run  string `json:"run"`
			Name string `json:"name"`
			messages.RunRemoved
		}{string(run), runstate.NameOf(run), *e.Delete.Removed})
	}
	gone := *e.Delete.Removed
	a.say("deleted: run %s, with %s, %s of their stories, %s, %s and %s", runstate.NameOf(run), plural64(gone.Results, "result", "results"),
		plural64(gone.Story, "message", "messages"), plural64(gone.Records, "record", "records"),
		plural64(gone.Entries, "note", "notes"), plural64(gone.Payloads, "large input or output", "large inputs and outputs"))
	return nil
}

// entryOf reads what RUNS says of a run, also where it is gone.
func entryOf(ctx context.Context, s *session, run messages.Run) (messages.RunEntry, error) {
	e, err := s.broker.Load(ctx, messages.BucketRuns, messages.RunKey(run))
	if err != nil {
		return messages.RunEntry{}, err
	}
	return messages.DecodeRun(e.Value)
}

// deleteLook is between two looks whether a run is gone.
const deleteLook = 200 * time.Millisecond

// sureToDelete asks, where somebody can be asked.
func (a *app) sureToDelete(ctx context.Context, runs *client.Runs, e messages.RunEntry, yes bool) error {
	if yes {
		return nil
	}
	in, ok := a.In.(*os.File)
	if !ok || !a.Terminal || !isatty.IsTerminal(in.Fd()) {
		return usage("run %s is deleted for good, and nobody can be asked here; --yes does it", runstate.NameOf(e.Run))
	}
	p, err := runs.Progress(ctx, e)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "Delete run %s with %s for good? [y/N] ", runstate.NameOf(e.Run), plural64(p.Ended, "result", "results"))
	line, _ := bufio.NewReader(in).ReadString('\n') // no answer is a no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return usage("nothing was deleted")
	}
	return nil
}

// endFirst cancels a run and waits until all its calls have ended.
func (a *app) endFirst(ctx context.Context, s *session, runs *client.Runs, run messages.Run) error {
	if _, err := s.client.Cancel(ctx, messages.CancelRequest{Run: run, Reason: "to be deleted"}); err != nil {
		return err
	}
	if _, err := runs.Wait(ctx, run, a.runProgress()); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return withCode(exitCode(cause), fmt.Errorf("%w: run %s is cancelled and not deleted", cause, runstate.NameOf(run)))
		}
		return err
	}
	return nil
}
