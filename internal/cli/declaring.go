package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mulligan/internal/calls"
	"mulligan/internal/runstate"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// declaring are the flags that say what a run is declared with.
type declaring struct {
	name     string
	labels   []string
	policy   string
	inFlight int
	budget   messages.RunBudget
	deadline string
	webhook  string
	keep     time.Duration
}

func (d *declaring) flags(f *pflag.FlagSet) {
	f.StringVar(&d.name, "run", "", "name of the run of those calls that name none")
	f.StringSliceVar(&d.labels, "label", nil, "label of the run, as name=value, to find it by; may be given several times")
	f.StringVar(&d.policy, "run-policy", "", "policy of all calls of the run, in JSON, such as {\"max_retries\":1}")
	f.IntVar(&d.inFlight, "in-flight", 0, "how many calls of the run may be queued or running at a time; 0 for no limit")
	f.Int64Var(&d.budget.Calls, "budget-calls", 0, "how many calls the run may have; those above are refused")
	f.Int64Var(&d.budget.Retries, "budget-retries", 0, "how many retries the calls of the run may have together")
	f.Int64Var(&d.budget.Tokens, "budget-tokens", 0, "how many tokens a model may take for the failures of the run")
	f.Int64Var(&d.budget.Cost, "budget-cost", 0, "what a model may cost for the failures of the run, in millionths of your currency")
	f.StringVar(&d.deadline, "run-deadline", "", "when what has not ended of the run expires: a time of RFC 3339, or a duration such as 6h, counted from the first start")
	f.StringVar(&d.webhook, "webhook", "", "address that is told when the run is over, where the coordinators allow it")
	f.DurationVar(&d.keep, "keep", 0, "after what time from its end everything of the run is deleted, such as 24h; 0 leaves it to the pool")
}

func (d *declaring) check() error {
	_, err := d.spec(time.Now(), 0)
	return err
}

// spec is what the flags say.
func (d *declaring) spec(now time.Time, expected int) (messages.RunSpec, error) {
	s := messages.RunSpec{InFlight: d.inFlight, Budget: d.budget, Webhook: d.webhook, Expected: int64(expected), Keep: messages.Millis(d.keep)}
	if d.keep < 0 {
		return s, usage("--keep %s is negative; 0 leaves it to the pool", d.keep)
	}
	for _, l := range d.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return s, usage("--label %q is not of the form name=value", l)
		}
		if s.Labels == nil {
			s.Labels = make(messages.Labels)
		}
		s.Labels[k] = v
	}
	if d.policy != "" {
		s.Policy = json.RawMessage(d.policy)
		if _, err := recovery.CallValues(s.Policy); err != nil {
			return s, usage("--run-policy: %w", err)
		}
	}
	if d.deadline != "" {
		at, err := time.Parse(time.RFC3339, d.deadline)
		if err != nil {
			after, derr := time.ParseDuration(d.deadline)
			if derr != nil || after <= 0 {
				return s, usage("--run-deadline %q is neither a time such as 2026-03-01T18:00:00Z nor a duration such as 6h", d.deadline)
			}
			at = now.Add(after).Truncate(time.Second)
		}
		s.Deadline = at.UTC()
	}
	if err := s.Check(); err != nil {
		return s, withCode(exitUsage, err)
	}
	return s, nil
}

// afterStart says whether the deadline is a duration.
func (d *declaring) afterStart() bool {
	_, err := time.ParseDuration(d.deadline)
	return err == nil
}

// window keeps from being submitted what the run would only refuse for now.
func (d *declaring) window(n int) int {
	if d.inFlight > 0 {
		return min(n, d.inFlight)
	}
	return n
}

// asks says whether anything was asked of the run.
func (d *declaring) asks() bool {
	return d.name != "" || len(d.labels) > 0 || d.policy != "" || d.inFlight > 0 || d.budget != (messages.RunBudget{}) || d.deadline != "" || d.webhook != "" || d.keep > 0
}

// declareRun has the run of the file declared before its calls, and closed behind
// them. A run of which nothing is asked is declared for the list alone: a pool
// that does not let it be, or is of an older version, runs its calls all the same.
func (a *app) declareRun(s *session, d declaring, file *calls.File, o *calls.Options) {
	declared := false
	o.Begin = func(ctx context.Context, run messages.Run) error {
		spec, err := d.spec(time.Now(), file.Calls)
		if err != nil {
			return err
		}
		if !d.asks() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, quickDeclaration)
			defer cancel()
		}
		_, err = s.client.DeclareRun(ctx, run, spec)
		var re *client.RunError
		if errors.As(err, &re) && re.Field == "deadline" && d.afterStart() {
			err = nil // it was declared when an earlier session started
		}
		declared = err == nil
		switch {
		case err == nil:
			if d.asks() {
				a.say("run %s", runstate.NameOf(run))
			}
		case !d.asks():
			return nil
		case errors.As(err, &re) && re.Code == messages.CodeRunIsOver:
			return withCode(exitUsage, fmt.Errorf("%w; give another name (--run), or delete this run first (`mulligan runs delete`)", err))
		case errors.As(err, &re) && (re.Code == messages.CodeBadRun || re.Code == messages.CodeRunDiffers):
			return withCode(exitUsage, err)
		}
		return err
	}
	o.Submitted = func(ctx context.Context, run messages.Run, accepted int64) {
		if !declared {
			return
		}
		if _, err := s.client.CloseRun(ctx, run, accepted); err != nil && ctx.Err() == nil {
			a.say("run %s could not be closed: %v; `mulligan runs close` does it", runstate.NameOf(run), err)
		}
	}
}

// quickDeclaration bounds the declaration of a run of which nothing is asked.
const quickDeclaration = 2 * time.Second

// oneAndCommand wants one argument, and lets a command stand behind --.
func oneAndCommand(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		own := args
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			own = args[:n]
		}
		return exactly(what)(cmd, own)
	}
}
