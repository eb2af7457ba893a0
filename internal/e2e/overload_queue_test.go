//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// submitter is a client with a connection of its own.
func (c *cluster) submitter(name string, patience time.Duration) *client.Client {
	c.t.Helper()
	return c.submitterWith(client.Config{Patience: patience, By: name})
}

func (c *cluster) submitterWith(cfg client.Config) *client.Client {
	c.t.Helper()
	p, err := jetstream.Connect(c.t.Context(), jetstream.Config{URL: c.url, Token: c.token, Name: cfg.By})
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := client.New(p, cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		s.Close()
		p.Close()
	})
	return s
}

// TestAFullQueueRefusesClearly fills a queue of 40 with 200 calls. What finds no
// place is told which queue is full, how full, and what to do; none of it runs.
// What was accepted ends, and then the rest finds its place.
func TestAFullQueueRefusesClearly(t *testing.T) {
	t.Parallel()
	const limit, slots = 40, 4
	declaration, witness := witnessed(t, messages.Idempotent)
	c := start(t, 0)
	c.run("coordinator", 0, "--policy", c.noBreaker(), "--max-queued", fmt.Sprint(limit))
	c.run("reflector", 0)
	c.run("worker", 0, "--tools", declaration, "--slots", fmt.Sprint(slots))
	c.serving(1)
	calls := make([]messages.Submission, 200)
	var lines strings.Builder
	for i := range calls {
		calls[i] = call("pay", `{}`)
		fmt.Fprintln(&lines, `{"tool":"pay","input":{}}`)
	}
	refused, err := c.submitter("hasty", -1).Submit(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused {
		if r.Code != messages.CodeQueueFull || r.RetryAfter <= 0 || !strings.Contains(r.Text, "queue 'default' is full") ||
			!strings.Contains(r.Text, fmt.Sprintf(" of %d calls", limit)) || !strings.Contains(r.Text, "try again in") {
			t.Fatalf("refused with %+v", r)
		}
	}
	if n := len(calls) - len(refused); n < limit || n > limit+2*slots {
		t.Errorf("%d calls were accepted into a queue of %d in front of %d slots", n, limit, slots)
	}
	path := writeFile(t, c.dir, "calls.jsonl", lines.String())
	told := decodeResults(t, c.mulligan(3, "run", path, "--patience", "1ms"))
	for _, r := range told {
		if r.Status == messages.Refused && (r.Output == nil || !strings.Contains(*r.Output, "queue 'default' is full")) {
			t.Errorf("a line of a refused call is %+v", r)
		}
	}
	if len(told) != len(calls) {
		t.Errorf("%d lines for %d calls", len(told), len(calls))
	}

	writeFile(t, filepath.Dir(witness), "witness.released", "")
	accepted, late := sorted(calls, refused)
	c.results(accepted, func(int) {})
	c.idle()
	paid := effects(t, witness)
	for _, r := range refused {
		if paid[r.Call] != 0 {
			t.Errorf("call %s was refused, and ran", r.Call)
		}
	}
	c.submit(late) // with patience
	c.results(calls, func(int) {})
	c.once(calls)
}

// sorted tells what was accepted from what was refused.
func sorted(calls []messages.Submission, refusals []messages.Refusal) (accepted, refused []messages.Submission) {
	no := make(map[string]bool, len(refusals))
	for _, r := range refusals {
		no[r.Call] = true
	}
	for _, s := range calls {
		if no[s.Call] {
			refused = append(refused, s)
		} else {
			accepted = append(accepted, s)
		}
	}
	return accepted, refused
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come within %v", what, patience)
		panic("unreachable")
	}
}

// TestAFloodLeavesTheHighLaneAlone: one submitter keeps 20,000 calls and more
// waiting in the normal and the low lane. The high calls of another are begun
// next, whatever waits: what counts is how many calls of the flood begin between
// the acceptance of a high call and its own begin.
func TestAFloodLeavesTheHighLaneAlone(t *testing.T) {
	const slots, ahead, highs = 8, 20_000, 100
	c := start(t, 0)
	for i := range 2 {
		c.run("coordinator", i, "--policy", c.noBreaker())
	}
	var floods atomic.Int64      // calls of the flood that have begun
	begun := make(chan int64, 1) // of a high call: the floods before it
	open := make(chan struct{})
	flood := tool.Raw("flood", nil, func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		<-open
		floods.Add(1)
		select { // the work of the tool
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
		}
		return tool.Output{}, nil
	}, tool.Effect(messages.ReadOnly))
	urgent := tool.Raw("urgent", nil, func(context.Context, tool.Call) (tool.Output, error) {
		begun <- floods.Load()
		return tool.Output{}, nil
	}, tool.Effect(messages.ReadOnly))
	c.within("worker", slots, flood, urgent)
	c.serving(1)

	var stored atomic.Int64 // calls of the flood that were accepted
	flooder := c.submitter("flooder", 0)
	pour := func(ctx context.Context, n int) {
		calls := make([]messages.Submission, n)
		for i := range calls {
			calls[i] = call("flood", `{}`)
			calls[i].Lane = []messages.Lane{messages.LaneNormal, messages.LaneLow}[i%2]
		}
		if refused, err := flooder.Submit(ctx, calls); ctx.Err() == nil && (err != nil || len(refused) > 0) {
			t.Errorf("the flood: %v, %d refused", err, len(refused))
		}
		stored.Add(int64(n))
	}
	pour(t.Context(), ahead)
	flooding, dam := context.WithCancel(t.Context())
	var pouring sync.WaitGroup
	pouring.Go(func() {
		for flooding.Err() == nil {
			pour(flooding, messages.MaxChunkCalls)
		}
	})
	close(open)

	other := c.submitter("other", 0)
	var passed, during []int64
	for range highs {
		s := call("urgent", `{}`)
		s.Lane = messages.LaneHigh
		before := stored.Load()
		if refused, err := submitSurely(t, other, []messages.Submission{s}); err != nil || len(refused) > 0 {
			t.Fatalf("%v, %+v", err, refused)
		}
		accepted := floods.Load()
		during = append(during, stored.Load()-before)
		passed = append(passed, max(0, await(t, "the begin of a high call", begun)-accepted))
	}
	left := stored.Load() - floods.Load()
	dam()
	pouring.Wait()
	slices.Sort(passed)
	slices.Sort(during)
	t.Logf("with %d calls ahead, and %d left at the end: between acceptance and begin of a high call began %d of the flood (median), %d at most; while one was submitted %d of the flood were accepted (median), %d at most",
		ahead, left, passed[highs/2], passed[highs-1], during[highs/2], during[highs-1])
	if left < ahead/10 {
		t.Fatalf("the flood was over: %d calls are left", left)
	}
	if passed[highs/2] > 4*slots || passed[highs-1] > ahead/10 {
		t.Errorf("high calls waited for %d calls of the flood (median), %d at most", passed[highs/2], passed[highs-1])
	}
	if during[highs/2] > 16*messages.MaxChunkCalls {
		t.Errorf("while a high call was submitted %d of the flood were taken in (median)", during[highs/2])
	}
}
