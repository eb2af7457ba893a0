package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// replays is how many failed calls are replayed, unless MULLIGAN_REPLAYS says
// otherwise (make replays).
const replays = 500

// TestS11_5_AReplayLosesNothingAndRepeatsNothing replays calls of an unsafe tool
// that failed, with a patch, at 200 a second. A coordinator is killed in the middle, and
// whoever replays, twice.
func TestS11_5_AReplayLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	n := replays
	if text := os.Getenv("MULLIGAN_REPLAYS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := alone(t, lease)
	for i := range 2 {
		c.coordinator(i)
		c.hands(i, "--slots", "16")
	}
	c.run("reflector", 0)
	c.serving(2)

	calls := orders(n, messages.Unsafe, order{Fail: 9, Ms: 100}) // so that some are under way when somebody dies
	for i := range calls {
		calls[i].Policy = []byte(`{"max_retries":0}`)
	}
	for part := range slices.Chunk(calls, 2000) {
		c.submit(part)
		for id, r := range c.results(part, func(int) {}).results {
			if r.Status != messages.Failed {
				t.Fatalf("call %s ended %s", id, r.Status)
			}
		}
	}
	listed := time.Now()
	if got := strings.Count(c.mulligan(0, "failures", "--limit", "0", "-o", "json"), "\n"); got != n {
		t.Errorf("%d failures are listed, want %d", got, n)
	}
	t.Logf("%d failures listed in %s", n, time.Since(listed).Round(time.Millisecond))
	before := c.fresh(t, func() bool { return false })

	flags := []string{"replay", "--tool", string(messages.Unsafe), "--patch", `[{"op":"replace","path":"/fail","value":0}]`, "--rate", "200", "--dir", "again", "-o", "json"}
	first := c.replay(flags...)
	c.replayed(n / 4)
	c.kill("coordinator-0")
	c.replayed(n / 3)
	kill(t, first)
	second := c.replay("replay", "resume", "again")
	during := c.fresh(t, func() bool { return c.count("again/calls.jsonl.journal", `{"done":`) < n/2 })
	c.replayed(n / 2)
	kill(t, second)
	var report struct {
		After struct{ Submitted, Succeeded int }
	}
	if err := json.Unmarshal([]byte(c.mulligan(0, "replay", "resume", "again", "-o", "json")), &report); err != nil || report.After.Succeeded != n || report.After.Submitted != n {
		t.Errorf("%+v, %v", report, err)
	}
	t.Logf("fresh calls in lane high: p99 %s before, %s while calls were replayed", p99(before), p99(during))
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

// count is how many lines of a file begin so.
func (c *cluster) count(file, prefix string) int {
	b, _ := os.ReadFile(filepath.Join(c.dir, file)) // it may not be there yet
	return strings.Count("\n"+string(b), "\n"+prefix)
}

// replayed waits until so many replays have ended.
func (c *cluster) replayed(n int) {
	c.t.Helper()
	done := func() int { return c.count("again/calls.jsonl.journal", `{"done":`) }
	for at := done(); at < n; at = done() { // step by step, since all of them may take long
		next := min(n, at+1000)
		c.eventually(func() string { return wantNumber("replays that ended", done(), next) })
	}
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

// fresh makes calls in lane high, one after another, at least a hundred and as
// long as more says, and gives how long each took.
func (c *cluster) fresh(t *testing.T, more func() bool) []time.Duration {
	t.Helper()
	cl, err := client.New(c.pool, client.Config{Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var took []time.Duration
	for len(took) < 100 || more() {
		began := time.Now()
		s := call(string(messages.ReadOnly), `{}`)
		s.Call, s.Lane = "", messages.LaneHigh
		if r, err := cl.Call(t.Context(), s); err != nil || r.Status != messages.Succeeded {
			t.Fatalf("%+v, %v", r, err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100].Round(10 * time.Microsecond)
}
