package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// shaky declares an unsafe tool that does what a file says: down, hang or well.
func shaky(t *testing.T, dir string) (declaration, state string) {
	t.Helper()
	state = writeFile(t, dir, "state", "down")
	return writeFile(t, dir, "tools.yaml", `tools:
  - name: shaky
    timeout: 300s
    command: [sh, -c, 'case "$(cat "$STATE")" in down) echo "the backend is down" >&2; exit 1;; hang) exec sleep 200;; esac; echo fine']
    env: [PATH]
    set_env: {STATE: "`+state+`"}
`), state
}

// breaker returns when the breaker of shaky is as wanted, of which a watch tells.
func (c *cluster) breaker(what string, ok func(messages.Breaker) bool) messages.Breaker {
	c.t.Helper()
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	var last, found messages.Breaker
	_ = c.pool.Watch(ctx, messages.BucketControl, messages.BreakerPrefix+">", func() {}, func(e messages.Entry) {
		b, err := messages.DecodeBreaker(e.Value)
		if last = b; err == nil && found.State == "" && ok(b) {
			found = b
			cancel()
		}
	})
	if found.State == "" {
		c.t.Fatalf("the breaker is not %s: %+v", what, last)
	}
	return found
}

// started is who began dispatch 0 of an unsafe call.
func (c *cluster) started(s messages.Submission) string {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	subject := c.pool.Names().StartSubject(messages.NamedRun(s.Run), s.Call, 0)
	for end := time.After(patience); ; {
		m, err := c.pool.Get(c.t.Context(), subject)
		if err == nil {
			start, err := messages.DecodeStory[messages.Start](m.Body)
			if err != nil || start.Tombstone != "" {
				c.t.Fatalf("%+v, %v", start, err)
			}
			return start.Worker
		}
		if !errors.Is(err, messages.ErrNotFound) {
			c.t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-end:
			c.t.Fatalf("call %s was not started", s.Call)
		}
	}
}

func TestS8_4_TheWorkerOfTheProbeIsKilled(t *testing.T) {
	t.Parallel()
	const reset = 15 * time.Second // longer than what is to happen before it is over takes on a busy machine
	c := start(t, 0)
	declaration, state := shaky(t, c.dir)
	policy := writeFile(t, c.dir, "policy.yaml", fmt.Sprintf("pool: {max_retries: 0, breaker_reset_ms: %d}\n", reset.Milliseconds()))
	for i := range 2 {
		c.run("coordinator", i, "--policy", policy)
		c.run("reflector", i)
		c.run("worker", i, "--tools", declaration, "--slots", "4")
	}
	c.serving(2)
	is := func(s string) {
		if err := os.WriteFile(state, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := func() messages.Submission {
		s := call("shaky", `{}`)
		s.Run = "r"
		return s
	}
	ask := func() messages.Result {
		r, err := c.client.Call(t.Context(), one())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	for range 5 {
		if r := ask(); r.Status != messages.Failed || r.Code != messages.CodeRecoveryGaveUp {
			t.Fatalf("%+v", r)
		}
	}
	opened := c.breaker("open", func(b messages.Breaker) bool { return b.State == messages.BreakerOpen })
	if r := ask(); r.Code != messages.CodeBreakerOpen {
		t.Fatalf("%+v", r)
	}

	is("hang")
	<-time.After(time.Until(opened.Until))
	probe := one()
	c.submit([]messages.Submission{probe})
	c.breaker("half open", func(b messages.Breaker) bool {
		return b.State == messages.BreakerHalfOpen && b.Probe.Call == probe.Call
	})
	c.kill(c.started(probe))
	if r := ask(); r.Code != messages.CodeBreakerOpen {
		t.Fatalf("a second call passes while the probe is out: %+v", r)
	}
	again := c.breaker("open again", func(b messages.Breaker) bool { return b.State == messages.BreakerOpen && b.Trips == 2 })
	if d := again.Until.Sub(again.Opened); d != reset {
		t.Errorf("open for %s, want a full reset", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r, err := c.client.Call(ctx, probe); err != nil || r.Status != messages.StatusUnknown {
		t.Errorf("the probe ended %s (%s), %v: its tool may have had its effect", r.Status, r.Reason, err)
	}

	is("well")
	<-time.After(time.Until(again.Until))
	if r := ask(); r.Status != messages.Succeeded {
		t.Fatalf("%+v", r)
	}
	c.breaker("closed", func(b messages.Breaker) bool { return b.State == messages.BreakerClosed })
	if r := ask(); r.Status != messages.Succeeded {
		t.Fatalf("%+v", r)
	}
}
