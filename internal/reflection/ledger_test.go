package reflection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/reflection"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// costly takes 100 tokens for each failure that its budget allows.
func costly(asked *int) reflector {
	return func(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
		spent, err := c.Spent(ctx)
		if err != nil {
			return recovery.Reflection{By: "costly"}, recovery.Internal(err.Error())
		}
		if over := c.Budget.Over(spent); over != "" {
			return recovery.Reflection{By: "costly"}, recovery.Skip(over)
		}
		*asked++
		got := answer()
		got.Usage = &messages.Usage{Model: "m", Requests: 1, InputTokens: 90, OutputTokens: 10, CostMicros: 7}
		return got, nil
	}
}

func budget(tokens int64, asked *int) func(*reflection.Config) {
	return func(c *reflection.Config) {
		c.Reflector = costly(asked)
		c.Policies = recovery.Document{Pool: recovery.Policy{BudgetTokens: tokens}.Values()}
	}
}

// A run's budget is held by what the stream says, so that a reflector which
// comes anew, or another one beside it, knows what was spent.
func TestS9_6_TheBudgetOfARunIsInItsStory(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		first, _ := r.start(budget(250, &asked))
		var decisions []messages.Decision
		for range 2 {
			decisions = append(decisions, r.decision(r.failed(nil)))
		}
		if err := first.Stop(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.start(budget(250, &asked))
		for range 3 {
			decisions = append(decisions, r.decision(r.failed(nil)))
		}
		for i, d := range decisions {
			if i < 3 && (d.Usage == nil || d.Usage.Tokens() != 100 || d.Action.Type != messages.ActRetry) {
				t.Errorf("%d: %+v", i, d)
			}
			if i >= 3 && (d.Usage != nil || d.Action.String() != "fail: reflection skipped: the run has used its budget of 250 tokens (budget_tokens): 300 are spent") {
				t.Errorf("%d: %+v", i, d)
			}
		}
		other := r.failed(func(f *messages.Failure) { f.Call.Run = messages.NamedRun("other") })
		if d := r.decision(other); d.Usage == nil || asked != 4 {
			t.Errorf("another run pays for this one: %+v", d)
		}
	})
}

// Each decision is read once, however often the run is asked about.
func TestTheLedgerReadsEachDecisionOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		_, b := r.start(budget(1e6, &asked))
		b.ResetCounts()
		for range 5 {
			r.decision(r.failed(nil))
		}
		if lists := b.Count(memory.OpList, ">"); lists != 5 || asked != 5 {
			t.Errorf("%d lists, asked %d times", lists, asked)
		}
	})
}

// A broker that does not answer for a moment ends no call.
func TestTheLedgerWaitsForTheBroker(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		_, b := r.start(budget(1000, &asked))
		b.Fail(memory.OpList, ">", 2, errors.New("away"))
		c := r.failed(nil)
		r.pass(time.Second)
		if d := r.decision(c); d.Usage == nil || asked != 1 {
			t.Errorf("%+v", d)
		}
	})
}

func TestTheLedgerForgetsTheOldestRun(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		r.start(budget(100, &asked))
		for i := range 1100 {
			c := r.failed(func(f *messages.Failure) { f.Call.Run = messages.NamedRun(fmt.Sprint("run ", i)) })
			r.decision(c)
		}
		c := r.failed(func(f *messages.Failure) { f.Call.Run = messages.NamedRun("run 0") })
		if d := r.decision(c); !strings.Contains(d.Action.Reason, "100 are spent") || asked != 1100 {
			t.Errorf("%+v, asked %d times", d, asked)
		}
	})
}

// The rules come first, and a model is asked about what they only guess at; a
// process without one answers with the guess.
func TestAModelIsAskedAfterTheRules(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		r.start(func(c *reflection.Config) { c.Model = costly(&asked) })
		for text, by := range map[string]string{"the frobnicator is sulking": "test", "user 7 not found": "test", "Permission denied": "rules", "Too many requests": "rules"} {
			if d := r.decision(r.failed(func(f *messages.Failure) { f.Error = text })); d.By != by || (d.Usage != nil) != (by == "test") {
				t.Errorf("%s: %+v", text, d)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
	bubble(t, func(r *rig) {
		r.start(nil)
		if d := r.decision(r.failed(func(f *messages.Failure) { f.Error = "the frobnicator is sulking" })); d.By != "rules" || d.Rule != "unknown" {
			t.Errorf("%+v", d)
		}
	})
}

// A budget is exceeded by what is under way when it is used up, and no more.
func TestS9_6_ABudgetIsExceededByWhatRunsAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := make(chan struct{}, 100)
		r.start(func(c *reflection.Config) {
			c.Concurrency = 4
			c.Policies = recovery.Document{Pool: recovery.Policy{BudgetCostMicros: 5}.Values()}
			c.Reflector = reflector(func(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
				one := 0
				got, err := costly(&one)(ctx, c)
				if one == 1 {
					asked <- struct{}{}
					<-time.After(time.Second)
				}
				return got, err
			})
		})
		var calls []messages.Call
		for range 20 {
			calls = append(calls, r.failed(nil))
		}
		r.pass(5 * time.Second)
		for _, c := range calls {
			if d := r.decision(c); d.Usage == nil && !strings.Contains(d.Action.Reason, "budget of 5 millionths (budget_cost_micros)") {
				t.Errorf("%+v", d)
			}
		}
		if len(asked) != 4 {
			t.Errorf("asked %d times, four at once", len(asked))
		}
	})
}
