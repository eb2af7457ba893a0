//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// TestWhoDoesNotReadHurtsNobody freezes a submitter when it has submitted all,
// so that more results come for it than the broker lets wait for one connection,
// and one of two workers with the calls that it was about to read. Others go on
// meanwhile, and nobody is cut off. Thawed, the run has every result, once and in
// order; what the worker held has ended elsewhere.
func TestWhoDoesNotReadHurtsNobody(t *testing.T) {
	const results, size = 700, 120_000 // 84 MB; a connection may leave 64 MiB unread
	b := newBrokers(t, 1)
	b.up()
	c := b.cluster(jetstream.TopologyConfig{})
	for i := range 2 {
		c.run("coordinator", i, "--policy", c.noBreaker())
		c.run("reflector", i)
		c.run("worker", i, "--builtin", "--slots", "8")
	}
	c.serving(2)
	signal := func(p *exec.Cmd, s syscall.Signal) {
		t.Helper()
		if err := p.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	workers := []*exec.Cmd{c.named("worker-0").cmd, c.named("worker-1").cmd}
	for _, w := range workers {
		signal(w, syscall.SIGSTOP)
	}

	large := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", size))
	var lines strings.Builder
	for i := range results {
		fmt.Fprintf(&lines, `{"ref":"%d","tool":"echo","input":%s}`+"\n", i, large)
	}
	out := filepath.Join(c.dir, "out.jsonl")
	run := c.command("run", writeFile(t, c.dir, "calls.jsonl", lines.String()), "--out", out)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	eventually(t, "all is submitted", func() error {
		waiting, unacked := c.backlog("default", messages.LaneNormal)
		if n := waiting + unacked + c.stored(); n < results {
			return fmt.Errorf("%d of %d calls are there", n, results)
		}
		return nil
	})
	signal(run, syscall.SIGSTOP)
	signal(workers[1], syscall.SIGCONT)

	others := make([]messages.Submission, 50)
	for i := range others {
		others[i] = call("echo", `{"other":true}`)
		others[i].Lane = messages.LaneHigh
	}
	begun := time.Now()
	c.submit(others)
	c.results(others, func(int) {})
	t.Logf("50 calls of another submitter took %v meanwhile", time.Since(begun).Round(time.Millisecond))
	eventually(t, "all has ended that the frozen submitter waits for", func() error {
		if n := c.stored() - len(others); n < results {
			return fmt.Errorf("%d of %d results", n, results)
		}
		return nil
	})
	signal(workers[0], syscall.SIGCONT)
	signal(run, syscall.SIGCONT)
	if err := run.Wait(); err != nil {
		t.Fatalf("the run ended with %v", err)
	}
	told := decodeResults(t, string(readFile(t, out)))
	if len(told) != results {
		t.Fatalf("%d lines for %d calls", len(told), results)
	}
	for i, r := range told {
		if r.Ref != fmt.Sprint(i) || r.Status != messages.Succeeded || len(*r.Output) != len(large) {
			t.Fatalf("line %d is of call %s, which ended %s", i, r.Ref, r.Status)
		}
	}
	c.idle()
	for id, n := range c.ends() {
		if n != 1 {
			t.Errorf("call %s has %d results", id, n)
		}
	}
	var v struct {
		SlowOnes int `json:"slow_consumers"`
	}
	if err := b.nodes[0].ask("/varz", &v); err != nil || v.SlowOnes > 0 {
		t.Errorf("the broker cut %d connections that were too slow, %v", v.SlowOnes, err)
	}
}

// stored is how many results there have been.
func (c *cluster) stored() int {
	c.t.Helper()
	n, err := c.pool.LastSequence(c.t.Context(), messages.StreamResults)
	if err != nil {
		c.t.Fatal(err)
	}
	return int(n)
}

// named is the process with this name.
func (c *cluster) named(name string) *process {
	c.t.Helper()
	for _, p := range c.all() {
		if p.name == name {
			return p
		}
	}
	c.t.Fatalf("no process is named %s", name)
	return nil
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
