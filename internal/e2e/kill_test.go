package e2e_test

import (
	"fmt"
	"testing"

	"mulligan/pkg/messages"
)

// TestS5_1_KillOneOfEach kills one process with -9 in the middle of 1,000
// calls, a third of which are put off once and come back: every call has one result.
func TestS5_1_KillOneOfEach(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"worker-0", "coordinator-0", "reflector-0"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			c := start(t, 2, "--builtin", "--slots", "16")
			c.serving(2)
			const n = 1000
			calls := make([]messages.Submission, n)
			for i := range calls {
				switch i % 3 {
				case 0:
					calls[i] = call("sleep", `{"ms":20}`)
				case 1:
					calls[i] = call("fail", `{"times":1,"kind":"retry_after","retry_after_ms":300}`)
				default:
					calls[i] = call("echo", fmt.Sprintf(`{"i":%d}`, i))
				}
			}
			c.submit(calls)
			killed := false
			e := c.results(calls, func(done int) {
				if done == n/4 {
					c.kill(victim)
					killed = true
				}
			})
			if !killed {
				t.Fatal("nothing was killed")
			}
			ends := map[messages.Status]int{}
			for id, r := range e.results {
				ends[r.Status]++
				if r.Attempts > messages.MaxAttempts {
					t.Errorf("call %s took %d attempts", id, r.Attempts)
				}
				if r.Status != messages.Succeeded {
					t.Errorf("call %s ended %s: %s", id, r.Status, r.Reason)
				}
			}
			t.Logf("%v", ends)
		})
	}
}
