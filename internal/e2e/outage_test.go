package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// TestReflectorsThatAreGoneHoldUpNobody kills every reflector and then submits
// 200 calls that fail. They wait, or end at their deadlines as S5.1 and S7.7
// say; none is lost, none holds anything of its queue, and good calls keep their
// speed. Then a reflector comes back.
func TestReflectorsThatAreGoneHoldUpNobody(t *testing.T) {
	c := start(t, 2, "--builtin", "--slots", "16", "--tools", unsafeTools(t))
	c.serving(2)
	before := newOutage(time.Hour).all()
	c.submit(before)
	good := 100
	with := c.good()
	c.results(before, func(int) {})
	c.kill("reflector-0")
	c.kill("reflector-1")

	o := newOutage(max(12*time.Second, 5*with))
	c.submit(o.all())
	good += 100
	without := c.good()
	limit := 2*with + 2*time.Second
	for try := 1; try < 5 && without > limit; try++ { // the machine may have had more to do; what is held stays held
		good += 100
		without = c.good()
	}
	t.Logf("100 good calls took %v behind failing ones with reflectors, %v without any", with, without)
	if without > limit {
		t.Errorf("100 good calls always took more than %v without reflectors, the last time %v", limit, without)
	}
	c.released()
	o.ended(t, c.results(o.short, func(int) {}))
	o.waits(t, c)

	c.run("reflector", 2)
	o.recovered(t, c.results(o.patient, func(int) {}))
	c.idle()
	ends, want := c.ends(), good+2*len(before)
	if len(ends) != want {
		t.Errorf("%d calls have results, want %d", len(ends), want)
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("call %s has %d results", id, n)
		}
	}
}

// unsafeTools declares pay, which had an effect or had not: nobody knows.
func unsafeTools(t *testing.T) string {
	return writeFile(t, t.TempDir(), "tools.yaml", `tools:
  - {name: pay, command: [sh, -c, 'echo "the answer was lost"; exit 7'], env: [PATH], exit_codes: {7: ambiguous}}
`)
}

// outage is what is submitted while nobody can say why a call failed.
type outage struct {
	deadline time.Time
	short    []messages.Submission // that have the deadline; every fourth is of an unsafe tool
	patient  []messages.Submission // that have none; every fourth fails for ever
}

// newOutage makes 40 calls whose deadline is so far ahead, which is to leave
// them time to fail before it, and 160 that have time.
func newOutage(ahead time.Duration) outage {
	o := outage{deadline: time.Now().Add(ahead)}
	for i := range 40 {
		s := call("fail", `{"kind":"retry_after","retry_after_ms":100}`)
		if i%4 == 0 {
			s = call("pay", fmt.Sprintf(`{"invoice":%d}`, i))
		}
		s.Deadline = o.deadline
		o.short = append(o.short, s)
	}
	for i := range 160 {
		s := call("fail", `{"times":1,"kind":"retry_after","retry_after_ms":100}`)
		if i%4 == 0 {
			s = call("fail", `{}`)
		}
		o.patient = append(o.patient, s)
	}
	return o
}

func (o outage) all() []messages.Submission {
	return append(o.short[:len(o.short):len(o.short)], o.patient...)
}

// ended: what had a deadline ends at it. Where an unsafe tool ran, nobody knows
// what it did.
func (o outage) ended(t *testing.T, e ended) {
	t.Helper()
	ran := map[string]int{}
	for _, s := range o.short {
		r, want := e.results[s.Call], messages.Expired
		if s.Tool == "pay" && r.Attempts > 0 {
			want = messages.StatusUnknown
		}
		if r.Status != want || r.Ended.Before(o.deadline) {
			t.Errorf("a call of %s with %d attempts ended %s (%s), %v after its deadline, want %s", s.Tool, r.Attempts, r.Status, r.Reason, r.Ended.Sub(o.deadline), want)
		}
		if r.Attempts > 0 {
			ran[s.Tool]++
		}
	}
	if ran["pay"] == 0 || ran["fail"] == 0 {
		t.Errorf("of the calls with a deadline only these ran before it: %v", ran)
	}
}

// waits: what has no deadline has no end.
func (o outage) waits(t *testing.T, c *cluster) {
	t.Helper()
	ends := c.ends()
	for _, s := range o.patient {
		if ends[s.Call] > 0 {
			t.Errorf("call %s ended while there was no reflector", s.Call)
		}
	}
	waiting, unacked, err := c.pool.Backlog(t.Context(), messages.StreamRecovery, messages.ConsumerReflector)
	if err != nil || waiting+unacked < len(o.patient) {
		t.Errorf("%d failures wait for a reflector and %d are with one, of %d calls: %v", waiting, unacked, len(o.patient), err)
	}
}

func (o outage) recovered(t *testing.T, e ended) {
	t.Helper()
	for i, s := range o.patient {
		r, want, text := e.results[s.Call], messages.Succeeded, "succeeded after 1 failure"
		if i%4 == 0 {
			want, text = messages.Failed, "failed as asked, dispatch 0"
		}
		if r.Status != want || string(r.Output.Inline) != text {
			t.Errorf("call %s ended %s (%s) with %q, want %s with %q", s.Call, r.Status, r.Reason, r.Output.Inline, want, text)
		}
	}
}

// released waits until the queue has nothing to hand out and nobody holds
// anything of it.
func (c *cluster) released() {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for _, lane := range messages.Lanes() {
		for waiting, unacked := c.backlog("default", lane); waiting+unacked > 0; waiting, unacked = c.backlog("default", lane) {
			select {
			case <-tick.C:
			case <-end:
				c.t.Fatalf("lane %s: %d calls wait and %d are given out, after %v", lane, waiting, unacked, patience)
			}
		}
	}
}

// ends counts the results of each call.
func (c *cluster) ends() map[string]int {
	c.t.Helper()
	n := map[string]int{}
	err := c.pool.List(c.t.Context(), messages.StreamResults, []string{"mulligan.result.>"}, func(m messages.Stored) bool {
		r, err := c.pool.Names().DecodeResult(m.Message)
		if err != nil {
			c.t.Error(err)
		}
		n[r.Call]++
		return true
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}
