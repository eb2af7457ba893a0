package hook_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

func hooks(audit *log.Logger, now func() time.Time) []hook.Hook {
	return []hook.Hook{
		{
			Name: "office-hours",
			Before: func(_ context.Context, c hook.Call) (string, error) {
				if h := now().Hour(); c.Effect == messages.Unsafe && (h < 8 || h >= 18) {
					return "Nothing is changed outside office hours (8 to 18). Try again in the morning.", nil
				}
				return "", nil
			},
		},
		{
			Name:     "audit",
			Priority: 100,
			After: func(_ context.Context, a hook.Attempt) {
				audit.Printf("%s for %s: succeeded %v, code %q, took %s", a.Tool, a.Labels["team"], a.Succeeded(), a.Code, a.Took)
			},
		},
	}
}

// Hooks in Go are given to a worker, as Hooks of its Config. Here they are
// asked as a worker asks them.
func Example() {
	night := func() time.Time { return time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC) }
	chain, err := hook.NewChain(hooks(log.New(os.Stdout, "", 0), night)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, call := context.Background(), hook.Call{Tool: "pay", Effect: messages.Unsafe, Labels: messages.Labels{"team": "blue"}}
	if veto := chain.Before(ctx, call); veto != nil {
		fmt.Println(veto.Said())
	}
	if err := chain.After(ctx, hook.Attempt{Call: call, Code: messages.CodeTimeout, Took: time.Minute}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// vetoed by hook "office-hours": Nothing is changed outside office hours (8 to 18). Try again in the morning.
	// pay for blue: succeeded false, code "timeout", took 1m0s
}
