//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// mostMemory is what a client and a coordinator may be resident with.
const mostMemory = 150 << 20

// TestAFileOfManyCalls runs a file of calls that do nothing, interrupts it and
// goes on: none is lost or repeated, memory does not grow with the file, and the
// results of the run come in the order of the file. Then it cancels another run
// in its middle. MULLIGAN_CALLS (make million) says how many calls.
func TestAFileOfManyCalls(t *testing.T) {
	t.Parallel()
	n := 20_000
	if text := os.Getenv("MULLIGAN_CALLS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := alone(t, lease)
	coordinator := c.run("coordinator", 0)
	c.run("reflector", 0)
	var ran atomic.Int64
	c.within("worker", 64, tool.Raw("nothing", nil, func(context.Context, tool.Call) (tool.Output, error) {
		ran.Add(1)
		return tool.Output{Body: []byte("done")}, nil
	}, tool.Effect(messages.Unsafe)))
	c.serving(1)
	c.callsFile("calls.jsonl", n)

	begun := time.Now()
	cmd := c.begin("run", "calls.jsonl", "--run", "all", "--out", "out.jsonl")
	first := c.watched(cmd)
	c.eventually(func() string {
		if ran.Load() <= int64(n)/3 {
			return fmt.Sprintf("%d of %d calls have run", ran.Load(), n)
		}
		return ""
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	held := <-first
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("interrupted it ended with code %d", got)
	}
	var run struct{ Progress struct{ Ended, Total int64 } }
	c.json(&run, "runs", "get", "all", "-o", "json")
	if p := run.Progress; p.Ended == 0 || p.Ended > p.Total || p.Total > int64(n) {
		t.Errorf("in the middle the progress is %+v", p)
	}
	cmd = c.begin("run", "calls.jsonl", "--run", "all", "--out", "out.jsonl")
	held = max(held, <-c.watched(cmd))
	if got := cmd.ProcessState.ExitCode(); got != 0 {
		t.Errorf("the second run ended with code %d", got)
	}
	took := time.Since(begun)
	c.inOrder(filepath.Join(c.dir, "out.jsonl"), n)
	if got := ran.Load(); got != int64(n) {
		t.Errorf("%d calls ran %d times", n, got)
	}
	c.json(&run, "runs", "get", "all", "-o", "json")
	if p := run.Progress; p.Ended != int64(n) || p.Total != int64(n) {
		t.Errorf("at the end the progress is %+v", p)
	}
	listed := time.Now()
	results := c.begin("runs", "results", "all")
	listing := <-c.watched(results)
	if got := results.ProcessState.ExitCode(); got != 0 {
		t.Errorf("the list of results ended with code %d", got)
	}
	c.inOrder(filepath.Join(c.dir, "runs.out"), n)
	coordinated := resident(coordinator.cmd)
	t.Logf("%d calls in %s, results listed in %s; resident at most: client %d MiB, list of results %d MiB, coordinator %d MiB",
		n, took.Round(time.Second), time.Since(listed).Round(time.Millisecond), held>>20, listing>>20, coordinated>>20)
	for what, bytes := range map[string]int64{"the client": held, "the list of results": listing, "the coordinator": coordinated} {
		if bytes == 0 || bytes > mostMemory {
			t.Errorf("%s was resident with %d MiB", what, bytes>>20)
		}
	}

	ran.Store(0)
	c.callsFile("more.jsonl", n)
	cmd = c.begin("run", "more.jsonl", "--run", "cancelled", "--out", "cancelled.jsonl")
	c.eventually(func() string {
		if ran.Load() <= int64(n)/5 {
			return fmt.Sprintf("%d of %d calls have run", ran.Load(), n)
		}
		return ""
	})
	asked := time.Now()
	c.mulligan(0, "runs", "cancel", "cancelled")
	_ = cmd.Wait() // its code is looked at
	if got := cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("a cancelled run ended with code %d", got)
	}
	ends := c.inOrder(filepath.Join(c.dir, "cancelled.jsonl"), n)
	if int64(ends[messages.Succeeded]) > ran.Load() || ends[messages.Succeeded] == n {
		t.Errorf("%d ran, %v", ran.Load(), ends)
	}
	t.Logf("cancelled after %d had run, over %s later: %v", ran.Load(), time.Since(asked).Round(time.Millisecond), ends)
}

func (c *cluster) callsFile(name string, n int) {
	c.t.Helper()
	f, err := os.Create(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(out, `{"ref":"%d","tool":"nothing","input":{"n":%d}}`+"\n", i, i)
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		c.t.Fatal(err)
	}
}

// begin starts the command; what it prints is in a file that is named after
// its first word.
func (c *cluster) begin(args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := c.command(args...)
	out, err := os.Create(filepath.Join(c.dir, args[0]+".out"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = out.Close() })
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return cmd
}

func (c *cluster) json(to any, args ...string) {
	c.t.Helper()
	if out := c.mulligan(0, args...); json.Unmarshal([]byte(out), to) != nil {
		c.t.Fatalf("mulligan %s printed %s", strings.Join(args, " "), out)
	}
}

// inOrder counts the ends in a file that has one result for each of n calls, in
// their order.
func (c *cluster) inOrder(file string, n int) map[messages.Status]int {
	c.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	ends, i := make(map[messages.Status]int), 0
	for lines := bufio.NewScanner(f); lines.Scan(); i++ {
		var r struct {
			Ref    string          `json:"ref"`
			Status messages.Status `json:"status"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Ref != strconv.Itoa(i) {
			c.t.Fatalf("%s: line %d is %.200s (%v)", file, i+1, lines.Bytes(), err)
		}
		ends[r.Status]++
	}
	if i != n {
		c.t.Errorf("%s has %d lines, want %d", file, i, n)
	}
	return ends
}

// watched waits for the end of a command and gives the most memory that it was
// resident with, in bytes. What the system says of a process that has ended counts
// ours too, which it began as.
func (c *cluster) watched(cmd *exec.Cmd) <-chan int64 {
	most, done := make(chan int64, 1), make(chan struct{})
	go func() {
		_ = cmd.Wait() // its code is looked at
		close(done)
	}()
	go func() {
		var last int64
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				most <- last
				return
			case <-tick.C:
				last = max(last, resident(cmd))
			}
		}
	}()
	return most
}

// resident is the most memory that a process was resident with so far, in bytes;
// 0 where it has ended.
func resident(cmd *exec.Cmd) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if err != nil || !ok {
		return 0
	}
	_, _ = fmt.Sscan(rest, &kib) // it stays 0
	return kib << 10
}
