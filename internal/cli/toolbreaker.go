package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mulligan/internal/catalogue"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func (a *app) breakerCommand() *cobra.Command {
	var f struct {
		open, close bool
		lasts       time.Duration
		reason      string
	}
	c := &cobra.Command{
		Use:   "breaker NAME --open [--for 10m] | --close",
		Short: "Open or close the circuit breaker of a tool",
		Long: `Breaker shuts a tool for a time, or lets its calls through again, whatever its calls
did. While it is open, calls of the tool end at once, or wait for it where the policy
of the tool says breaker: defer. When the time is over one call is let through to
try: its success closes the breaker, its failure opens it again for the reset time of
the policy. To close it forgets the failures that were counted.`,
		Example: `  mulligan tools breaker send_mail --open --for 10m --reason "the mail server moves"
  mulligan tools breaker send_mail --close`,
		Args: exactly("the name of the tool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := messages.BreakerRequest{Tool: args[0], Action: messages.BreakerForceClose, For: messages.Millis(f.lasts), Reason: f.reason}
			switch {
			case r.Tool == "":
				return usage("the name of the tool is empty; `mulligan tools` lists them")
			case f.open == f.close:
				return usage("give --open or --close, one of the two")
			case f.close && f.lasts != 0:
				return usage("--for goes with --open; what is closed stays closed until calls fail")
			case f.lasts < 0:
				return usage("--for %s is negative; leave it out for the reset time of the policy", f.lasts)
			case f.open:
				r.Action = messages.BreakerForceOpen
			}
			return a.setBreaker(cmd.Context(), r)
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeTools(cmd), cobra.ShellCompDirectiveNoFileComp
		},
	}
	fs := c.Flags()
	fs.BoolVar(&f.open, "open", false, "let no call of the tool run")
	fs.BoolVar(&f.close, "close", false, "let its calls run")
	fs.DurationVar(&f.lasts, "for", 0, "how long it stays open, at most 72h; 0 means the reset time of the policy")
	fs.StringVar(&f.reason, "reason", "", "why, for those who see the tool shut")
	return c
}

func (a *app) setBreaker(ctx context.Context, r messages.BreakerRequest) (err error) {
	s, err := a.open(ctx, pooling{slots: 1, lease: ownLease}, "")
	if err != nil {
		return err
	}
	defer s.closing(ctx, &err)
	b, err := s.client.SetBreaker(ctx, r)
	if err != nil {
		return a.breakerError(ctx, s.broker, r.Tool, err)
	}
	if a.json() {
		return a.printJSON(b)
	}
	a.say("tool %s: circuit breaker %s", oneLine(r.Tool, 60), breakerText(b, 0, time.Now()))
	return nil
}

// breakerError gives a refusal its exit code. The coordinator's words name the
// tools that the pool has, and what a value may be.
func (a *app) breakerError(ctx context.Context, src catalogue.Entries, name string, refusal error) error {
	tools, err := catalogue.Tools(ctx, src, func(string, ...any) {})
	var refused *client.BreakerError
	switch has := slices.ContainsFunc(tools, func(t catalogue.Tool) bool { return t.Name == name }); {
	case err == nil && !has:
		return withCode(exitNotFound, refusal)
	case errors.As(refusal, &refused) && refused.Code == messages.CodeBadCall:
		return withCode(exitUsage, refusal)
	}
	return refusal
}

// breakerText says how a breaker stands, threshold being 0 where nobody knows it.
func breakerText(b messages.Breaker, threshold int, now time.Time) string {
	b = b.At(now)
	said := ""
	if b.By != "" {
		said = " by " + oneLine(b.By, 60)
	}
	if b.Reason != "" {
		said += " (" + oneLine(b.Reason, 60) + ")"
	}
	switch {
	case b.State == messages.BreakerHalfOpen && b.Probe != nil:
		return "half open, trying call " + b.Probe.Call
	case b.State == messages.BreakerOpen && !now.Before(b.Until):
		return "open, the next call is tried" + said
	case b.State == messages.BreakerOpen:
		return "open until " + b.Until.UTC().Format(time.RFC3339) + said
	case len(b.Failures) > 0 && threshold > 0:
		return fmt.Sprintf("closed, %d of %d failures%s", len(b.Failures), threshold, said)
	}
	return "closed" + said
}

// breakerOf says how the breaker of a tool stands.
func breakerOf(t catalogue.Tool, d recovery.Document, now time.Time) string {
	if t.Breaker == nil {
		return "closed"
	}
	threshold := 0
	if p, _, err := d.Effective(t.Queue, t.Name, nil); err == nil {
		threshold = p.BreakerRules().Threshold
	}
	return breakerText(*t.Breaker, threshold, now)
}
