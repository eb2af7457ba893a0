package cli

import (
	"context"

	"github.com/spf13/cobra"

	"mulligan/internal/story"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

func (a *app) cancelCommand() *cobra.Command {
	var run, reason string
	c := &cobra.Command{
		Use:   "cancel CALL | --run NAME",
		Short: "End a call or a run",
		Long: `Cancel ends a call, or every call of a named run, wherever it is: queued, waiting,
parked or running. It returns when the wish is durable. A call of an unsafe tool
that runs already ends with what it reaches. A run is over from then on. One of which
nothing is known, such as by a misspelt name, is not found (exit code 6).`,
		Example: `  mulligan cancel 01890000-0000-7000-8000-000000000001
  mulligan cancel --run nightly --reason "wrong input"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			call := ""
			if len(args) == 1 {
				call = args[0]
			}
			if (call == "") == (run == "") {
				return usage("give the id of a call or --run NAME, one of the two")
			}
			return a.cancel(cmd.Context(), call, run, reason)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	a.conn.flags(f)
	f.StringVar(&run, "run", "", "name of the run to end")
	f.StringVar(&reason, "reason", "", "why, for the story of the calls")
	return c
}

func checkTarget(call, run string) error {
	if call != "" {
		return messages.CheckCallID(call)
	}
	return messages.CheckName("run", run, messages.MaxName)
}

func (a *app) cancel(ctx context.Context, call, run, reason string) (err error) {
	if err := checkTarget(call, run); err != nil {
		return withCode(exitUsage, err)
	}
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	request := messages.CancelRequest{Run: messages.NamedRun(run), Call: call, Reason: reason}
	if call != "" {
		m, err := story.Gather(ctx, s.broker, call)
		if err != nil {
			return err
		}
		request.Run = m.Run
	} else if _, err := client.NewRuns(s.broker).Get(ctx, request.Run); err != nil {
		return err
	}
	reply, err := s.client.Cancel(ctx, request)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(map[string]any{"call": call, "run": request.Run.Name(), "ended_before": string(reply.Ended)})
	}
	if reply.Ended != "" {
		a.say("call %s had ended before: %s", call, reply.Ended)
		return nil
	}
	if call == "" {
		a.say("cancelled: run %s is over; calls of it that come later are refused", run)
		return nil
	}
	a.say("cancelled")
	return nil
}
