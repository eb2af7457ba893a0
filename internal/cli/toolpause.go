package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/pkg/messages"
)

func (a *app) toolPauseCommand() *cobra.Command {
	var lasts time.Duration
	var reason string
	c := &cobra.Command{
		Use:   "pause NAME --for 10m",
		Short: "Let the calls of one tool wait for a time",
		Long: `Pause opens the circuit breaker of a tool (` + "`mulligan tools breaker`" + `), so that its calls
wait until the time is over or ` + "`mulligan tools resume`" + ` lets them go on. They wait only
where the policy of the tool says breaker: defer; where it does not, they would end at
once, and nothing is done. Calls that run go on. When the time is over one call is let
through to try. ` + "`mulligan queues pause`" + ` stops a whole queue, without an end and whatever
the policies.`,
		Example: "  mulligan tools pause send_mail --for 2h --reason \"the mail server moves\"",
		Args:    exactly("the name of the tool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasts <= 0 {
				return usage("--for %s: give how long it is paused, such as 10m, at most 72h", lasts)
			}
			if err := a.defers(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.setBreaker(cmd.Context(), messages.BreakerRequest{Tool: args[0], Action: messages.BreakerForceOpen, For: messages.Millis(lasts), Reason: reason})
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().DurationVar(&lasts, "for", 0, "how long, at most 72h")
	c.Flags().StringVar(&reason, "reason", "", "why, for those who see the tool stand still")
	return c
}

func (a *app) toolResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "resume NAME",
		Short:   "Let the calls of a tool go on",
		Long:    "Resume closes the circuit breaker of a tool, whether a pause, an operator or failures\nopened it, and forgets the failures that were counted.",
		Example: "  mulligan tools resume send_mail",
		Args:    exactly("the name of the tool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setBreaker(cmd.Context(), messages.BreakerRequest{Tool: args[0], Action: messages.BreakerForceClose})
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// defers says that the calls of a tool wait while its breaker is open. Of a tool
// that is not known the coordinator has the last word.
func (a *app) defers(ctx context.Context, name string) (err error) {
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	tools, policies, err := catalogue.Read(ctx, s.broker, time.Now(), func(string, ...any) {})
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name != name {
			continue
		}
		p, _, err := policies.Effective(t.Queue, t.Name, nil)
		if err != nil {
			return err
		}
		if p.Breaker != messages.BreakerDefer {
			return withCode(exitUsage, fmt.Errorf("tool %s: its policy says breaker: %s, so that its calls would end and not wait; say breaker: defer for it (`mulligan policy`), "+
				"pause its queue (`mulligan queues pause %s`), or let them end (`mulligan tools breaker %s --open`)", oneLine(name, 60), p.Breaker, t.Queue, oneLine(name, 60)))
		}
		return nil
	}
	return nil
}
