package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// TestFailingCallsThatWaitHoldNothing: 1,000 calls of a tool that fails and
// asks for half an hour stand in front of 100 good ones of the same queue. If they
// held anything, these would not end before.
func TestFailingCallsThatWaitHoldNothing(t *testing.T) {
	c := start(t, 2, "--builtin", "--slots", "8")
	c.serving(2)
	const n = 1000
	alone := c.good()
	bad := make([]messages.Submission, n)
	for i := range bad {
		bad[i] = call("fail", `{"kind":"retry_after","retry_after_ms":1800000,"text":"come back in half an hour"}`)
	}
	c.submit(bad)
	t.Logf("100 good calls took %v alone, %v behind calls that wait for half an hour", alone, c.good())
	c.settled(n)
	for _, lane := range messages.Lanes() {
		if waiting, unacked := c.backlog("default", lane); waiting+unacked > 0 {
			t.Errorf("lane %s: %d wait and %d are given out while all failing calls sleep", lane, waiting, unacked)
		}
	}
}

// good is how long 100 calls of a good tool take, to the last result.
func (c *cluster) good() time.Duration {
	calls := make([]messages.Submission, 100)
	for i := range calls {
		calls[i] = call("echo", `{"good":true}`)
	}
	begun := time.Now()
	c.submit(calls)
	c.results(calls, func(int) {})
	return time.Since(begun)
}

// settled waits until n records wait for their time.
func (c *cluster) settled(n int) {
	c.t.Helper()
	waiting := map[string]bool{}
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	err := c.pool.Watch(ctx, messages.BucketAttempts, ">", func() {}, func(e messages.Entry) {
		if r, err := messages.DecodeRecord(e.Value); err == nil && r.State == messages.Waiting {
			waiting[e.Key] = true
		}
		if len(waiting) == n {
			cancel()
		}
	})
	if len(waiting) < n {
		c.t.Fatalf("%d of %d calls wait: %v", len(waiting), n, err)
	}
}

// TestManyShortWaitsHoldUpNobody: 2,000 failures at once, first without a delay
// and then with one of most of a second. Waits that hold nothing cost their own
// length once, whatever the machine; waits that held what decides would cost it
// many times over.
func TestManyShortWaitsHoldUpNobody(t *testing.T) {
	c := start(t, 2, "--builtin", "--slots", "32")
	c.serving(2)
	all := func(delay int) time.Duration {
		calls := make([]messages.Submission, 2000)
		for i := range calls {
			calls[i] = call("fail", fmt.Sprintf(`{"times":1,"kind":"retry_after","retry_after_ms":%d,"text":"busy"}`, delay))
		}
		begun := time.Now()
		c.submit(calls)
		c.results(calls, func(int) {})
		return time.Since(begun)
	}
	for range 5 { // the machine may have had more to do during one of the two
		atOnce, waiting := all(1), all(900)
		t.Logf("2,000 calls that fail once took %v with a delay of 1 ms and %v with 900 ms", atOnce, waiting)
		if waiting < 2*atOnce+5*time.Second {
			return
		}
	}
	t.Error("with a delay of 900 ms they always took twice as long as without, and more")
}
