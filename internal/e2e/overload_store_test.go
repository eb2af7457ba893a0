//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// fates is what a client was told of its calls.
type fates struct {
	mu                           sync.Mutex
	accepted, refused, uncertain []messages.Submission
	refusals                     []messages.Refusal
	errs                         []error
}

// press submits chunks of calls side by side, until so many have been told that
// there is no room, and keeps what became of each.
func press(c *cluster, s *client.Client, chunk, enough int, make func() messages.Submission) *fates {
	c.t.Helper()
	f := &fates{}
	full := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.refused) + len(f.uncertain)
	}
	end := time.Now().Add(patience)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for full() < enough && time.Now().Before(end) {
				var calls []messages.Submission
				for range chunk {
					calls = append(calls, make())
				}
				refused, err := s.Submit(c.t.Context(), calls)
				f.mu.Lock()
				var unsure *client.UncertainError
				accepted, no := sorted(calls, refused)
				switch {
				case err == nil:
					f.accepted, f.refused, f.refusals = append(f.accepted, accepted...), append(f.refused, no...), append(f.refusals, refused...)
				case errors.As(err, &unsure):
					f.uncertain, f.errs = append(f.uncertain, calls...), append(f.errs, err)
				default: // nothing of it was accepted
					f.refused, f.errs = append(f.refused, calls...), append(f.errs, err)
				}
				f.mu.Unlock()
			}
		})
	}
	all.Wait()
	if full() < enough {
		c.t.Fatalf("%d calls were accepted, and there is still room", len(f.accepted))
	}
	return f
}

// hold checks what was told against what is: what was accepted has one result,
// what was refused has none, and of what is uncertain nothing has two.
func (f *fates) hold(c *cluster) {
	c.t.Helper()
	c.results(f.accepted, func(int) {})
	c.idle()
	ends := c.ends()
	for _, s := range f.accepted {
		if ends[s.Call] != 1 {
			c.t.Errorf("call %s was accepted and has %d results", s.Call, ends[s.Call])
		}
	}
	for _, s := range f.refused {
		if ends[s.Call] != 0 {
			c.t.Errorf("call %s was refused and has %d results", s.Call, ends[s.Call])
		}
	}
	for _, s := range f.uncertain {
		if ends[s.Call] > 1 {
			c.t.Errorf("call %s has %d results", s.Call, ends[s.Call])
		}
	}
}

func (f *fates) String() string {
	return fmt.Sprintf("%d accepted, %d refused, %d uncertain, %d errors", len(f.accepted), len(f.refused), len(f.uncertain), len(f.errs))
}

// padded is a call of echo with so many bytes.
func padded(size int) func() messages.Submission {
	text := strings.Repeat("x", size)
	return func() messages.Submission { return call("echo", fmt.Sprintf(`{"text":%q}`, text)) }
}

// work starts the services of a pool whose coordinators know no limit.
func (c *cluster) work() {
	for i := range 2 {
		c.run("coordinator", i, "--policy", c.noBreaker())
		c.run("reflector", i)
		c.run("worker", i, "--builtin", "--slots", "8")
	}
	c.serving(2)
}

// traffic is how many messages a second the broker is sent, over three seconds.
func (n *brokerNode) traffic() int64 {
	n.t.Helper()
	var before, after struct {
		In int64 `json:"in_msgs"`
	}
	const over = 3
	err := n.ask("/varz", &before)
	<-time.After(over * time.Second)
	if err = errors.Join(err, n.ask("/varz", &after)); err != nil {
		n.t.Fatal(err)
	}
	return (after.In - before.In) / over
}

// quietly is well above what services that wait for room send a second, each
// outcome again now and then and their standing requests, and well below what
// one send that is repeated without a pause comes to.
const quietly = 1000

// TestAFullBrokerGoesOnWhenItsLimitIsRaised fills a broker to the last byte,
// under coordinators that know no limit: outcomes find no room either. Submitters
// are told, nobody spins, and when the limit is raised everything goes on by
// itself, also a run that was waiting for it.
func TestAFullBrokerGoesOnWhenItsLimitIsRaised(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 1)
	node := b.nodes[0]
	node.limits = "max_file_store: 12MB"
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	c.work()
	f := press(c, c.submitter("hasty", -1), 8, 64, padded(10_000))
	t.Log(f)
	for _, r := range f.refusals {
		if r.Code != messages.CodeQueueFull && r.Code != messages.CodeNotStored || r.RetryAfter <= 0 || !strings.Contains(r.Text, "again") {
			t.Fatalf("refused with %+v", r)
		}
	}
	if len(f.refusals) == 0 || !strings.Contains(f.refusals[0].Text, "the pool has no room for more calls") {
		t.Errorf("no submitter was told that there is no room: %+v, %v", f.refusals, f.errs)
	}
	if n := node.traffic(); n > quietly {
		t.Errorf("while it was full the broker was sent %d messages a second", n)
	}
	lines := strings.Repeat(fmt.Sprintf(`{"tool":"echo","input":{"text":%q}}`+"\n", strings.Repeat("x", 10_000)), 20)
	path := writeFile(t, c.dir, "calls.jsonl", lines)
	run := c.command("run", path)
	waiting := make(chan []byte, 1)
	go func() {
		out, err := run.Output()
		if err != nil {
			t.Errorf("the run that waited for room: %v", err)
		}
		waiting <- out
	}()
	node.limits = "max_file_store: 1GB"
	node.reload()
	f.hold(c)
	if got := decodeResults(t, string(await(t, "the end of the run", waiting))); len(got) != 20 {
		t.Errorf("%d lines for 20 calls", len(got))
	}
	c.unharmed()
}

// TestAFullStreamGoesOnWhenItHasRoom: RESULTS alone is full. Calls are taken in
// and wait with their outcome; a purge of old results lets some end, a larger
// limit all.
func TestAFullStreamGoesOnWhenItHasRoom(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 1)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	c.work()
	const fits, more = 100, 150
	resize := func(bytes int64) {
		t.Helper()
		if err := c.pool.Provision(t.Context(), jetstream.TopologyConfig{ResultsBytes: bytes}); err != nil {
			t.Fatal(err)
		}
	}
	resize(fits * 10_500)
	calls := make([]messages.Submission, fits+more)
	for i := range calls {
		calls[i] = padded(10_000)()
	}
	c.submit(calls)
	stuck := func(want int) {
		t.Helper()
		eventually(t, "results fill their stream", func() error {
			_, unacked := c.backlog("default", messages.LaneNormal)
			if n := len(c.ends()); n < want || unacked < 16 {
				return fmt.Errorf("%d results, %d calls in hand", n, unacked)
			}
			return nil
		})
	}
	stuck(fits - fits/10)
	if n := b.nodes[0].traffic(); n > quietly {
		t.Errorf("while it was full the broker was sent %d messages a second", n)
	}
	first := c.ends()
	if len(first) > fits {
		t.Fatalf("%d results are in a stream with room for %d", len(first), fits)
	}
	if err := c.pool.Purge(t.Context(), "mulligan.result.>"); err != nil {
		t.Fatal(err)
	}
	stuck(fits - fits/10)
	second := c.ends()
	resize(1 << 30)
	_, left := endedAmong(calls, first)
	c.results(left, func(int) {})
	c.idle()
	last := c.ends()
	for _, s := range calls {
		if n := max(first[s.Call], second[s.Call], last[s.Call]); n != 1 {
			t.Errorf("call %s has %d results", s.Call, n)
		}
		if first[s.Call] > 0 && last[s.Call] > 0 {
			t.Errorf("call %s ended again after its result was purged", s.Call)
		}
	}
	c.unharmed()
}

// endedAmong tells the calls with a result from those without.
func endedAmong(calls []messages.Submission, ends map[string]int) (done, left []messages.Submission) {
	for _, s := range calls {
		if ends[s.Call] > 0 {
			done = append(done, s)
		} else {
			left = append(left, s)
		}
	}
	return done, left
}
