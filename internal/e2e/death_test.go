package e2e_test

import (
	"slices"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// latest is when the last of these executions began, at the earliest from.
func latest(all []execution, from time.Time) time.Duration {
	last := from
	for _, e := range all {
		if e.At.After(last) {
			last = e.At
		}
	}
	return last.Sub(from)
}

// TestS7_3_ADeadWorkerIsNoticedWithinTwoLeases kills a worker with -9 while
// tools of every effect run on it, beside one that has room for all of them.
// Within two leases what may run again runs there, within its attempt; what is
// unsafe never does: it is unknown, or a human is asked.
func TestS7_3_ADeadWorkerIsNoticedWithinTwoLeases(t *testing.T) {
	t.Parallel()
	const (
		lease  = 4 * time.Second // long beside what a busy machine takes to start a tool
		margin = time.Second     // for that machine
		each   = 8
	)
	c := alone(t, lease)
	c.coordinator(0)
	c.run("reflector", 0)
	c.hands(0, "--slots", "64")
	c.serving(1)
	hold := order{Hold: true}
	again := slices.Concat(orders(each, messages.ReadOnly, hold), orders(each, messages.Idempotent, hold), orders(each, messages.Keyed, hold))
	lost := orders(each, messages.Unsafe, hold)
	asked := parking(orders(each, messages.Unsafe, hold))
	first := slices.Concat(again, lost, asked)
	c.submit(first)
	c.begun(len(first))
	c.hands(1, "--slots", "64")
	c.serving(2)

	killed := time.Now()
	c.kill("worker-0")
	fresh := orders(each, messages.Idempotent, order{})
	c.submit(fresh) // the broker may still think of the dead one, which had asked for more
	all := c.begun(len(first) + len(again) + len(fresh))
	places := c.parked(each)
	e := c.results(lost, func(int) {})
	c.release()
	ends := c.results(slices.Concat(again, fresh), func(int) {})

	rerun := latest(all, killed)
	told := c.lostWorkers(slices.Concat(lost, asked), killed)
	t.Logf("with leases of %v: %d calls ran elsewhere within %v of the kill, and %d of an unsafe tool were found within %v", lease, len(again), rerun, 2*each, told)
	if limit := 2*lease + margin; rerun > limit || told > limit {
		t.Errorf("that is more than two leases and %v", margin)
	}
	for id, r := range ends.results {
		if r.Status != messages.Succeeded || r.Attempts != 1 {
			t.Errorf("call %s ended %s after %d attempts: %s", id, r.Status, r.Attempts, r.Reason)
		}
	}
	for id, r := range e.results {
		if r.Status != messages.StatusUnknown {
			t.Errorf("call %s of an unsafe tool ended %s: %s", id, r.Status, r.Reason)
		}
	}
	for _, p := range places {
		r := messages.AnswerRequest{Run: p.Run, Call: p.Call, Dispatch: p.Dispatch, Kind: messages.AnswerFail, By: "anna"}
		if err := c.client.Answer(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	c.results(asked, func(int) {})
	n := times(c.executions())
	for _, s := range again {
		if n[s.Call] != 2 {
			t.Errorf("call %s of tool %s was executed %d times", s.Call, s.Tool, n[s.Call])
		}
	}
	for _, s := range slices.Concat(lost, asked, fresh) {
		if n[s.Call] != 1 {
			t.Errorf("call %s of tool %s was executed %d times", s.Call, s.Tool, n[s.Call])
		}
	}
	c.onceEach(first, fresh)
}

// lostWorkers is how long after from, by the broker's clock, the last of the
// calls was found with its worker lost.
func (c *cluster) lostWorkers(calls []messages.Submission, from time.Time) time.Duration {
	c.t.Helper()
	last := from
	stored := c.recovery("failure")
	for _, s := range calls {
		if len(stored[s.Call]) != 1 {
			c.t.Fatalf("call %s has %d failures", s.Call, len(stored[s.Call]))
		}
		m := stored[s.Call][0]
		f, err := messages.DecodeFailure(m.Body)
		if err != nil || f.Code != messages.CodeWorkerLost || !f.Ambiguous {
			c.t.Errorf("call %s failed with %s, ambiguous %t: %v", s.Call, f.Code, f.Ambiguous, err)
		}
		if m.Time.After(last) {
			last = m.Time
		}
	}
	return last.Sub(from)
}
