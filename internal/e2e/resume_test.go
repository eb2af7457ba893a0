package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/freeport"
	"mulligan/pkg/messages"
)

// bench is a folder with a file of calls to witnessed tools, half of them
// unsafe, and a pool that runs in a process of its own.
type bench struct {
	t       *testing.T
	dir     string
	witness string
	n       int
	port    string
	up      *exec.Cmd
}

func newBench(t *testing.T, n int) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), n: n, port: strconv.Itoa(freeport.Get(t))}
	b.witness = filepath.Join(b.dir, "witness")
	command := `[sh, -c, 'echo "$MULLIGAN_REF" >>"$WITNESS"; sleep 0.02; echo "paid $MULLIGAN_REF"']`
	writeFile(t, b.dir, "tools.yaml", `tools:
  - {name: pay, command: `+command+`, env: [PATH], set_env: {WITNESS: "`+b.witness+`"}}
  - {name: note, effect: idempotent, command: `+command+`, env: [PATH], set_env: {WITNESS: "`+b.witness+`"}}
`)
	writeFile(t, b.dir, "witness", "")
	b.calls(n)
	b.start()
	t.Cleanup(func() { b.stop(syscall.SIGKILL) })
	return b
}

func (b *bench) calls(n int) {
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, `{"ref":"%d","tool":"%s","input":{}}`+"\n", i, []string{"pay", "note"}[i%2])
	}
	writeFile(b.t, b.dir, "calls.jsonl", file.String())
}

// start starts `mulligan up` and returns when it is ready.
func (b *bench) start() {
	b.t.Helper()
	b.up = exec.Command(filepath.Join(binaries, "mulligan"), "up", "--tools", "tools.yaml", "--lease", lease.String(), "--port", b.port, "--slots", "4", "-o", "json")
	b.up.Dir, b.up.Stderr = b.dir, b.errors()
	out, err := b.up.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.up.Start(); err != nil {
		b.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || !json.Valid(line) {
		b.t.Fatalf("up said %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

func (b *bench) stop(s os.Signal) {
	_ = b.up.Process.Signal(s)
	_ = b.up.Wait()
}

// run starts `mulligan run` of the file, whose results go to a file.
func (b *bench) run(flags ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), append([]string{"run", "calls.jsonl", "--out", "out.jsonl"}, flags...)...)
	cmd.Dir = b.dir
	cmd.Stderr = b.errors()
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return cmd
}

// errors is where the commands complain; it is shown when the test fails.
func (b *bench) errors() *os.File {
	b.t.Helper()
	f, err := os.CreateTemp(b.dir, "stderr-")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if said, err := os.ReadFile(f.Name()); err == nil && b.t.Failed() {
			b.t.Logf("%s:\n%s", filepath.Base(f.Name()), tail(said, 2000))
		}
		_ = f.Close()
	})
	return f
}

// code waits for the command and returns its exit code, −1 for a signal.
func (b *bench) code(cmd *exec.Cmd) int {
	b.t.Helper()
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-done
		b.t.Fatalf("%s did not end", cmd)
	}
	return cmd.ProcessState.ExitCode()
}

// reached waits until so many effects have happened.
func (b *bench) reached(n int) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		if raw, err := os.ReadFile(b.witness); err == nil && strings.Count(string(raw), "\n") >= n {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			b.t.Fatalf("%d effects have not happened", n)
		}
	}
}

// ended reads the results, which must be one for each call in the order of the
// file, and returns how often each call had its effect.
func (b *bench) ended(want ...messages.Status) map[string]int {
	b.t.Helper()
	out, err := os.ReadFile(filepath.Join(b.dir, "out.jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	results := decodeResults(b.t, string(out))
	if len(results) != b.n {
		b.t.Fatalf("%d results of %d calls", len(results), b.n)
	}
	allowed := map[messages.Status]bool{}
	for _, s := range want {
		allowed[s] = true
	}
	for i, r := range results {
		if r.Ref != fmt.Sprint(i) || !allowed[r.Status] {
			b.t.Errorf("result %d is of call %s, which ended %s: %s", i, r.Ref, r.Status, r.Reason)
		}
	}
	return effects(b.t, b.witness)
}

// TestARunThatIsKilledGoesOn ends `mulligan run` in the middle, several times
// with kill -9 and once with Ctrl-C. The last one finds every result, and no
// call was executed again. A small window keeps the runs submitting all the
// time, so that some are killed between a submission and its answer.
func TestARunThatIsKilledGoesOn(t *testing.T) {
	b := newBench(t, 300)
	for n := 20; n <= 100; n += 20 {
		killed := b.run("--window", "8")
		b.reached(n)
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := b.code(killed); code != -1 {
			t.Fatalf("a run ended with %d before it could be killed", code)
		}
	}
	second := b.run("--window", "30") // which leaves calls to submit when it is interrupted
	b.reached(130)
	if err := second.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := b.code(second); code != 130 {
		t.Fatalf("the interrupted run ended with %d", code)
	}
	if code := b.code(b.run()); code != 0 {
		t.Fatalf("the last run ended with %d", code)
	}
	for ref, n := range b.ended(messages.Succeeded) {
		if n != 1 {
			t.Errorf("call %s had its effect %d times", ref, n)
		}
	}
	b.calls(b.n - 1)
	if code := b.code(b.run()); code != 2 {
		t.Errorf("a run of the changed file ended with %d", code)
	}
	if got := len(effects(t, b.witness)); got != b.n {
		t.Errorf("%d calls had an effect, want %d", got, b.n)
	}
}

// TestAPoolThatIsKilledUnderARunComesBack kills the whole pool with -9 in the
// middle and starts it again. The run ends by itself, with every result; no
// unsafe tool ran twice.
func TestAPoolThatIsKilledUnderARunComesBack(t *testing.T) {
	b := newBench(t, 200)
	run := b.run()
	b.reached(60)
	b.stop(syscall.SIGKILL)
	b.start()
	if code := b.code(run); code != 0 && code != 3 {
		t.Fatalf("the run ended with %d", code)
	}
	for ref, n := range b.ended(messages.Succeeded, messages.StatusUnknown) {
		var i int
		if _, err := fmt.Sscan(ref, &i); err != nil || n > 1 && (i%2 == 0 || n > 2) {
			t.Errorf("call %s had its effect %d times", ref, n)
		}
	}
	b.stop(syscall.SIGTERM)
	if code := b.up.ProcessState.ExitCode(); code != 0 {
		t.Errorf("up ended with %d", code)
	}
}
