package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// TestListingsOfAFullPool looks at a pool that keeps many results, of many tools
// and runs: each listing gives its first page, and what has to read all results
// prints hits as it finds them and can be interrupted. With MULLIGAN_RESULTS (make
// listings) there are as many results, of 1,000 tools, and a page may take a second.
func TestListingsOfAFullPool(t *testing.T) {
	t.Parallel()
	results, tools, runs := 2000, 40, 20
	bound := time.Duration(0)
	if text := os.Getenv("MULLIGAN_RESULTS"); text != "" {
		var err error
		if results, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		tools, runs, bound = 1000, 1000, time.Second
	}
	c := alone(t, lease)
	c.run("coordinator", 0)
	var declared strings.Builder
	declared.WriteString("tools:\n")
	for i := range tools {
		fmt.Fprintf(&declared, "  - {name: tool-%d, queue: q%d, effect: read_only, command: ['true'], schema: {type: object}}\n", i, i%20)
	}
	c.run("worker", 0, "--tools", writeFile(t, c.dir, "tools.yaml", declared.String()))
	c.serving(1)

	// One result in fifty failed, the oldest of all alone in its way.
	names := c.pool.Names()
	var some messages.Result
	for stored := 0; stored < results; {
		ms := make([]messages.Message, min(5000, results-stored))
		for i := range ms {
			n := stored + i
			r := messages.Result{
				Call: messages.NewCallID(), Run: messages.NamedRun(fmt.Sprintf("run-%d", n%runs)), Tool: fmt.Sprintf("tool-%d", n%tools),
				Status: messages.Succeeded, Attempts: 1, Worker: "worker-0", Ended: time.Now().UTC(),
				Output: messages.Body{Inline: []byte(`{"text":"` + strings.Repeat("x", 200) + `"}`)},
			}
			if n%50 == 0 {
				r.Status, r.Code, r.Output.Inline = messages.Failed, messages.CodeRecoveryGaveUp, fmt.Appendf(nil, "seat %d is taken", n)
			}
			if n == 0 {
				r.Output.Inline = []byte("the needle")
			}
			ms[i], some = names.EncodeResult(r), r
		}
		if err := errors.Join(c.pool.PublishAll(t.Context(), ms)...); err != nil {
			t.Fatal(err)
		}
		stored += len(ms)
	}
	for i := range runs {
		run := messages.NamedRun(fmt.Sprintf("run-%d", i))
		if _, err := c.client.DeclareRun(t.Context(), run, messages.RunSpec{Labels: messages.Labels{"team": strconv.Itoa(i % 7)}}); err != nil {
			t.Fatal(err)
		}
	}

	fresh := make([]messages.Submission, 200)
	for i := range fresh {
		fresh[i] = messages.Submission{Tool: "tool-1", Run: "fresh", Input: []byte(`{}`)}
	}
	c.submit(fresh)
	c.results(fresh, func(int) {})

	page := func(wants string, args ...string) {
		t.Helper()
		begun := time.Now()
		out := c.mulligan(0, args...)
		took := time.Since(begun)
		if !strings.Contains(out, wants) {
			t.Errorf("mulligan %s does not show %q:\n%s", strings.Join(args, " "), wants, tail([]byte(out), 1000))
		}
		if bound > 0 && took > bound {
			t.Errorf("mulligan %s took %s", strings.Join(args, " "), took)
		}
		t.Logf("%8s  mulligan %s", took.Round(time.Millisecond), strings.Join(args, " "))
	}
	last := fmt.Sprintf("run-%d", (results-1)%runs)
	page(some.Tool, "tools")
	page(some.Tool, "tools", "-o", "json")
	page(some.Tool, "tools", "show", some.Tool)
	page("q19", "queues", "list")
	page("run-", "runs")
	page("run-", "runs", "--label", "team=3")
	page(last, "runs", "--name", last)
	page(last, "runs", "get", last)
	page("", "inbox")
	page("is taken", "failures")
	page("is taken", "failures", "--since", "1h")
	page(fresh[0].Call, "explain", fresh[0].Call)
	page("200", "runs", "get", "fresh")

	// What reads all says nothing about how long it takes, but begins at once.
	scans := func(wants string, args ...string) {
		t.Helper()
		cmd := c.command(args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, first, found := bufio.NewReader(out), time.Duration(0), false
		for {
			line, err := lines.ReadString('\n')
			if line != "" && first == 0 {
				first = time.Since(begun)
			}
			found = found || strings.Contains(line, wants)
			if err == io.EOF {
				break
			}
		}
		if err := cmd.Wait(); err != nil || !found {
			t.Errorf("mulligan %s: %v, %q found: %v", strings.Join(args, " "), err, wants, found)
		}
		if bound > 0 && first > bound {
			t.Errorf("mulligan %s shows its first line after %s", strings.Join(args, " "), first)
		}
		t.Logf("%8s  to the first line, %s to the last: mulligan %s", first.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), strings.Join(args, " "))
	}
	scans(fresh[199].Call, "runs", "results", "fresh")
	scans("needle", "failures", "--limit", "0", "-o", "json")
	scans("is taken", "failures", "--tool", "tool-0", "--limit", "0")

	cmd := c.command("failures", "--text", "nobody said this", "--limit", "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGINT) })
	begun := time.Now()
	_ = cmd.Wait() // at a small size it is done before
	if took := time.Since(begun); bound > 0 && (took > bound || cmd.ProcessState.ExitCode() != 130) {
		t.Errorf("an interrupted search ended with code %d after %s", cmd.ProcessState.ExitCode(), took)
	}
}
