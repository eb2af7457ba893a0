package e2e_test

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// rollingVariable makes the rolling deploy go round as often as it says.
const rollingVariable = "MULLIGAN_ROUNDS"

// deploy is a rolling deploy under load, and what it is held to.
type deploy struct {
	*cluster
	drain   time.Duration
	next    int // index of the next process of any service
	loads   [][]messages.Submission
	fails   map[string]bool // calls whose first attempt fails
	waits   int             // how many were measured
	longest time.Duration
}

// TestS4_4_ARollingDeploySpendsNothing stops every process of a pool with
// SIGTERM, one after the other, each with a replacement once it is gone, under
// steady load of calls of every effect: quick ones, slow ones that only a drain
// lets end, and some whose first attempt fails. No attempt is spent, nothing
// runs twice, nothing is unknown, and no call waits longer for its start than a
// drain may take and a second. Leases are far longer than that, so that what
// would be left to the end of one is seen.
func TestS4_4_ARollingDeploySpendsNothing(t *testing.T) {
	t.Parallel()
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv(rollingVariable)); err == nil {
		rounds = n
	}
	d := &deploy{cluster: alone(t, 30*time.Second), drain: 10 * time.Second, fails: map[string]bool{}}
	var all []*process
	for range 2 {
		all = append(all, d.fresh("coordinator"), d.fresh("reflector"), d.fresh("worker"), d.fresh("worker"))
	}
	d.serving(4)
	stop, loading := make(chan struct{}), sync.WaitGroup{}
	loading.Go(func() { d.load(stop, 1000*rounds) })
	for range rounds {
		for i, p := range all {
			d.terminate(p)
			all[i] = d.fresh(d.service(p))
			d.ready(all[i])
		}
	}
	close(stop)
	loading.Wait()
	calls := slices.Concat(d.loads...)
	e := d.results(calls, func(int) {})
	d.idle()
	d.onceEach(calls)
	d.judge(calls, e)
	t.Logf("%d processes were replaced under %d calls; of %d starts the latest came after %v (drain %v)", rounds*len(all), len(calls), d.waits, d.longest, d.drain)
}

// fresh starts one more process of a service.
func (d *deploy) fresh(service string) *process {
	d.t.Helper()
	i := d.next
	d.next++
	switch service {
	case "coordinator":
		return d.coordinator(i)
	case "worker":
		return d.hands(i, "--slots", "16", "--drain-tools", d.drain.String())
	}
	return d.run(service, i)
}

func (d *deploy) service(p *process) string {
	for _, s := range []string{"coordinator", "reflector"} {
		if len(p.name) > len(s) && p.name[:len(s)] == s {
			return s
		}
	}
	return "worker"
}

// terminate is SIGTERM, and waits for a clean end.
func (c *cluster) terminate(p *process) {
	c.t.Helper()
	c.signal(p.name, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		c.t.Fatalf("%s does not stop", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("%s ended with code %d", p.name, code)
	}
}

// load submits until stop is closed and n calls are in.
func (d *deploy) load(stop <-chan struct{}, n int) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for in := 0; ; {
		select {
		case <-stop:
			if in >= n {
				return
			}
			stop = nil
		default:
		}
		if stop == nil && in >= n {
			return
		}
		calls := d.batch()
		refused, err := submitSurely(d.t, d.client, calls)
		if err != nil || len(refused) > 0 {
			d.t.Errorf("submit: %v, refused %+v", err, refused)
			return
		}
		d.loads, in = append(d.loads, calls), in+len(calls)
		<-tick.C
	}
}

// batch is a mix: of each effect two that are quick and one that fails at first;
// and a slow one of a tool that may run again, and of one that must not.
func (d *deploy) batch() []messages.Submission {
	var calls []messages.Submission
	for _, effect := range []messages.Effect{messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Unsafe} {
		calls = append(calls, orders(2, effect, order{Ms: 20})...)
		failing := orders(1, effect, order{Fail: 1})
		d.fails[failing[0].Call] = true
		calls = append(calls, failing...)
	}
	calls = append(calls, orders(1, messages.Idempotent, order{Ms: 2000})...)
	return append(calls, orders(1, messages.Unsafe, order{Ms: 2000})...)
}

// judge holds every call to what a deploy may cost: nothing.
func (d *deploy) judge(calls []messages.Submission, e ended) {
	d.t.Helper()
	failures, began := d.failures(), map[string][]execution{}
	for _, x := range d.executions() {
		began[x.Call] = append(began[x.Call], x)
	}
	for _, s := range calls {
		attempts := 1
		if d.fails[s.Call] {
			attempts = 2
		}
		r := e.results[s.Call]
		if r.Status != messages.Succeeded || r.Attempts != attempts {
			d.t.Errorf("call %s of tool %s ended %s (%s) after %d attempts, want %d", s.Call, s.Tool, r.Status, r.Reason, r.Attempts, attempts)
		}
		if got := len(began[s.Call]); got != attempts {
			d.t.Errorf("call %s of tool %s was executed %d times, want %d", s.Call, s.Tool, got, attempts)
		}
		if got := len(failures[s.Call]); got != attempts-1 {
			d.t.Errorf("call %s of tool %s failed %d times, want %d", s.Call, s.Tool, got, attempts-1)
		}
		for _, f := range failures[s.Call] {
			if f.Code != messages.CodeToolError || f.Ambiguous || f.Call.Dispatch != 0 {
				d.t.Errorf("dispatch %d of call %s failed with %s, ambiguous %t", f.Call.Dispatch, s.Call, f.Code, f.Ambiguous)
			}
		}
	}
	d.measure(began)
}

// measure finds the longest wait for a start: from the submission, or from when
// the retry was due.
func (d *deploy) measure(began map[string][]execution) {
	d.t.Helper()
	decisions := map[string]messages.Decision{}
	for call, ms := range d.recovery("decision") {
		decision, err := messages.DecodeDecision(ms[0].Body)
		if err != nil {
			d.t.Fatal(err)
		}
		decisions[call] = decision
	}
	for call, executions := range began {
		for _, x := range executions {
			due := messages.CallTime(call)
			if x.Dispatch > 0 {
				due = decisions[call].At.Add(decisions[call].Action.Delay.Duration())
			}
			wait := x.At.Sub(due)
			d.waits++
			d.longest = max(d.longest, wait)
			if wait > d.drain+time.Second {
				d.t.Errorf("dispatch %d of call %s waited %v for its start on %s, more than a drain and a second", x.Dispatch, call, wait, x.Worker)
			}
		}
	}
}
