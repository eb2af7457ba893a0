package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// replays is how many failed calls are replayed, unless MULLIGAN_REPLAYS says
// otherwise (make replays).
const replays = 500

// TestS11_5_AReplayLosesNothingAndRepeatsNothing replays calls of an unsafe tool
// that failed, found by a filter among others, with a patch, at 200 a second. A coordinator is
// killed half way, and whoever replays, twice. Fresh calls in lane high are
// timed before and meanwhile.
func TestS11_5_AReplayLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	n, fresh := replays, 2*time.Second
	if text := os.Getenv("MULLIGAN_REPLAYS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		fresh = 30 * time.Second
	}
	c := alone(t, lease)
	for i := range 2 {
		c.coordinator(i)
		c.hands(i, "--slots", "32")
	}
	c.run("reflector", 0)
	c.serving(2)

	calls := append(orders(n, messages.Unsafe, order{Fail: 9}), orders(n/4, messages.ReadOnly, order{Fail: 9})...)
	for i := range calls {
		calls[i].Policy = []byte(`{"max_retries":0}`)
	}
	began := time.Now()
	for part := range slices.Chunk(calls, 10_000) {
		c.submit(part)
	}
	for id, r := range c.results(calls, func(int) {}).results {
		if r.Status != messages.Failed {
			t.Fatalf("call %s ended %s", id, r.Status)
		}
	}
	t.Logf("%d calls failed within %s", len(calls), time.Since(began).Round(time.Millisecond))
	for _, look := range []struct {
		flags []string
		hits  int
	}{
		{nil, 50},
		{[]string{"--tool", string(messages.Unsafe)}, 50},
		{[]string{"--code", string(messages.CodeRecoveryGaveUp), "--text", "reset by p[aeiou]{2}r", "--where", `attempts == 1`}, 50},
		{[]string{"--limit", "0"}, len(calls)},
	} {
		looked := time.Now()
		if got := strings.Count(c.mulligan(0, append([]string{"failures", "-o", "json"}, look.flags...)...), "\n"); got != look.hits {
			t.Errorf("%d failures are listed by %q, want %d", got, look.flags, look.hits)
		}
		t.Logf("%d failures listed by %q within %s", look.hits, look.flags, time.Since(looked).Round(time.Millisecond))
	}
	calls = calls[:n]
	before := c.fresh(t)
	<-time.NewTimer(fresh).C
	told := before()

	// Calls of the replay take a while, so that some are under way when somebody dies.
	flags := []string{"replay", "--tool", string(messages.Unsafe), "--rate", "200", "--dir", "again", "-o", "json",
		"--patch", `[{"op":"replace","path":"/fail","value":0},{"op":"add","path":"/ms","value":100}]`}
	during := c.fresh(t)
	var done counted
	first := c.replay(flags...)
	c.replayed(&done, n/3)
	kill(t, first)
	second := c.replay("replay", "resume", "again")
	c.replayed(&done, n/2)
	c.kill("coordinator-0")
	c.replayed(&done, n*3/4)
	kill(t, second)
	var report struct {
		After struct{ Submitted, Succeeded int }
	}
	if err := json.Unmarshal([]byte(c.mulligan(0, "replay", "resume", "again", "-o", "json")), &report); err != nil || report.After.Succeeded != n || report.After.Submitted != n {
		t.Errorf("%+v, %v", report, err)
	}
	for ms, took := range during() {
		t.Logf("fresh calls of %d ms in lane high: p99 %s before (of %d), %s while calls were replayed (of %d)", ms, p99(told[ms]), len(told[ms]), p99(took), len(took))
	}
	c.onceReplayed(calls)
}

// replay starts the command against the cluster.
func (c *cluster) replay(args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "MULLIGAN_SERVER="+c.url, "MULLIGAN_TOKEN="+c.token)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Process.Kill() // that it had ended would be said below
	if err := cmd.Wait(); err == nil {
		t.Fatal("the replay was over before it could be killed")
	}
}

// replayed waits until so many replays have ended, as their journal says.
func (c *cluster) replayed(done *counted, n int) {
	c.t.Helper()
	path := filepath.Join(c.dir, "again", "calls.jsonl.journal")
	for at := 0; at < n; { // step by step, since all of them may take long
		at = min(n, at+1000)
		c.eventually(func() string { return wantNumber("replays that ended", done.count(path, `{"done":`), at) })
	}
}

// counted is how many lines with a beginning a growing file had, up to an offset.
type counted struct {
	offset int64
	lines  int
}

// count goes on where it stopped: to read a large file each time would be what
// the machine does, in place of what is measured.
func (c *counted) count(path, prefix string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0 // it may not be there yet
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(f, c.offset, math.MaxInt64-c.offset))
	if err != nil {
		return c.lines
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	c.offset += int64(len(b))
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(line, []byte(prefix)) {
			c.lines++
		}
	}
	return c.lines
}

// onceReplayed says that each call has one replay, which ran once and ended once.
func (c *cluster) onceReplayed(calls []messages.Submission) {
	c.t.Helper()
	entries, err := c.pool.Entries(c.t.Context(), messages.BucketRuns, messages.ReplayKey("*", "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	of := make(map[string][]string)
	for _, e := range entries {
		r, err := messages.DecodeReplay(e.Value)
		if err != nil {
			c.t.Fatal(err)
		}
		of[r.Original] = append(of[r.Original], r.Call)
	}
	ran, ends := times(c.executions()), c.ends()
	for _, s := range calls {
		if len(of[s.Call]) != 1 {
			c.t.Errorf("call %s has the replays %v", s.Call, of[s.Call])
			continue
		}
		if id := of[s.Call][0]; ran[id] != 1 || ends[id] != 1 || ran[s.Call] != 1 || ends[s.Call] != 1 {
			c.t.Errorf("call %s ran %d times and ended %d times, its replay %d and %d", s.Call, ran[s.Call], ends[s.Call], ran[id], ends[id])
		}
	}
}

// fresh makes calls in lane high, of tools that take 0 and 50 ms, twenty of each a
// second. The function that it gives ends that, and gives how long each took, by
// what its tool takes.
func (c *cluster) fresh(t *testing.T) (stop func() map[int][]time.Duration) {
	t.Helper()
	cl, err := client.New(c.pool, client.Config{Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	took := map[int][]time.Duration{0: nil, 50: nil}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var calls sync.WaitGroup
	for ms := range took {
		calls.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				calls.Go(func() {
					began := time.Now()
					s := call(string(messages.ReadOnly), fmt.Sprintf(`{"ms":%d}`, ms))
					s.Call, s.Lane = "", messages.LaneHigh
					if r, err := cl.Call(t.Context(), s); err != nil || r.Status != messages.Succeeded {
						t.Errorf("a fresh call: %+v, %v", r, err)
					}
					mu.Lock()
					defer mu.Unlock()
					took[ms] = append(took[ms], time.Since(began))
				})
			}
		})
	}
	return func() map[int][]time.Duration {
		cancel()
		calls.Wait()
		cl.Close()
		return took
	}
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100].Round(10 * time.Microsecond)
}
