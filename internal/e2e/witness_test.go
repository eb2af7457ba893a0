package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// witnessed declares a tool of this effect whose only effect is a line in a
// file, written when it begins: what happened outside, whatever the pool says.
// It goes on when the test releases it.
func witnessed(t *testing.T, effect messages.Effect) (declaration, witness string) {
	t.Helper()
	dir := t.TempDir()
	witness = writeFile(t, dir, "witness", "")
	declaration = filepath.Join(dir, "tools.yaml")
	yaml := `tools:
  - name: pay
    effect: ` + string(effect) + `
    command: [sh, -c, 'echo "$MULLIGAN_CALL" >>"$WITNESS"; while [ ! -e "$WITNESS.released" ]; do sleep 0.05; done; echo paid']
    env: [PATH]
    set_env: {WITNESS: "` + witness + `"}
`
	if err := os.WriteFile(declaration, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return declaration, witness
}

// effects counts the lines of a witness by call.
func effects(t *testing.T, witness string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(witness)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

// killFullWorker submits 300 calls of the tool to two workers of 8 slots, kills
// one when all slots of both run it, and waits for the results. So what the
// killed one ran is known: 8 calls.
func killFullWorker(t *testing.T, effect messages.Effect) (e ended, paid map[string]int) {
	t.Helper()
	declaration, witness := witnessed(t, effect)
	c := start(t, 2, "--tools", declaration, "--slots", "8")
	c.serving(2)
	calls := make([]messages.Submission, 300)
	for i := range calls {
		calls[i] = call("pay", `{}`)
	}
	c.submit(calls)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); len(effects(t, witness)) < 16; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d calls run in 16 slots", len(effects(t, witness)))
		}
	}
	c.kill("worker-0")
	writeFile(t, filepath.Dir(witness), "witness.released", "")
	e = c.results(calls, func(int) {})
	return e, effects(t, witness)
}

// TestS7_4_KilledWorkerRepeatsNoUnsafeTool kills a worker with -9 while unsafe
// tools run on it. The witness has each call at most once; whoever was running
// ends unknown, the rest succeeds on the other worker.
func TestS7_4_KilledWorkerRepeatsNoUnsafeTool(t *testing.T) {
	t.Parallel()
	e, paid := killFullWorker(t, messages.Unsafe)
	ends := map[messages.Status]int{}
	for id, r := range e.results {
		ends[r.Status]++
		switch {
		case paid[id] > 1:
			t.Errorf("call %s was paid %d times", id, paid[id])
		case r.Status == messages.Succeeded && paid[id] != 1:
			t.Errorf("call %s succeeded and was paid %d times", id, paid[id])
		case r.Status != messages.Succeeded && r.Status != messages.StatusUnknown:
			t.Errorf("call %s ended %s: %s", id, r.Status, r.Reason)
		}
	}
	t.Logf("%v", ends)
	if ends[messages.StatusUnknown] < 8 || ends[messages.StatusUnknown] > 16 {
		t.Errorf("%d calls are unknown; the killed worker ran 8", ends[messages.StatusUnknown])
	}
}

// TestS4_6_KilledWorkerRepeatsAnIdempotentTool: what ran on the killed worker
// runs again on the other one, within the same attempt.
func TestS4_6_KilledWorkerRepeatsAnIdempotentTool(t *testing.T) {
	t.Parallel()
	e, paid := killFullWorker(t, messages.Idempotent)
	again := 0
	for id, n := range paid {
		if n > 1 {
			again++
		}
		if r := e.results[id]; r.Status != messages.Succeeded || r.Attempts != 1 || n > 2 {
			t.Errorf("call %s ended %s after %d attempts and %d executions: %s", id, r.Status, r.Attempts, n, r.Reason)
		}
	}
	t.Logf("%d calls were executed a second time", again)
	if again < 8 || again > 16 {
		t.Errorf("%d calls were executed again; the killed worker ran 8", again)
	}
}
