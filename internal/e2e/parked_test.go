package e2e_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/freeport"
	"mulligan/internal/inbox"
	"mulligan/pkg/messages"
)

// asksOnce declares pay, an unsafe tool: nobody knows what came of its first
// dispatch, so that a human is asked; a later one leaves a line and succeeds.
func asksOnce(t *testing.T, dir string) (declaration, witness string) {
	t.Helper()
	witness = writeFile(t, dir, "witness", "")
	return writeFile(t, dir, "tools.yaml", `tools:
  - name: pay
    command: [sh, -c, '[ "$MULLIGAN_DISPATCH" = 0 ] && exit 7; echo "$MULLIGAN_CALL" >>"$WITNESS"; sleep 0.02; echo "paid $(cat)"']
    env: [PATH]
    set_env: {WITNESS: "`+witness+`"}
    exit_codes: {7: ambiguous}
`), witness
}

// parked waits until n calls wait for a human.
func (c *cluster) parked(n int) []inbox.Place {
	c.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		places, err := inbox.Places(c.t.Context(), c.pool, inbox.AnyRun)
		if err == nil && len(places) == n {
			return places
		}
		select {
		case <-tick.C:
		case <-end:
			c.t.Fatalf("%d of %d calls wait for a human, %v", len(places), n, err)
		}
	}
}

// answerAll answers all that waits, and calls each after so many answers.
func (c *cluster) answerAll(places []inbox.Place, kind func(i int) messages.AnswerKind, each func(done int)) {
	c.t.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	var done atomic.Int32
	for i, p := range places {
		g.Go(func() error {
			r := messages.AnswerRequest{Run: p.Run, Call: p.Call, Dispatch: p.Dispatch, Kind: kind(i), By: "anna"}
			if r.Kind == messages.AnswerEdit {
				r.Input = new(messages.Text(`{"edited":true}`))
			}
			err := c.client.Answer(c.t.Context(), r)
			each(int(done.Add(1)))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		c.t.Error(err)
	}
}

// resultsWhile waits for the results and looks around meanwhile.
func (c *cluster) resultsWhile(calls []messages.Submission, look func()) ended {
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look()
			case <-done:
				return
			}
		}
	})
	defer looking.Wait()
	defer close(done)
	return c.results(calls, func(int) {})
}

// TestS5_3_KilledWhileParkedAndWhileAnswered kills one process of each service
// while every call waits for a human, and the others while they are answered.
func TestS5_3_KilledWhileParkedAndWhileAnswered(t *testing.T) {
	t.Parallel()
	const n = 200
	declaration, witness := asksOnce(t, t.TempDir())
	flags := []string{"--tools", declaration, "--slots", "8"}
	c := start(t, 2, flags...)
	c.serving(2)
	calls := make([]messages.Submission, n)
	for i := range calls {
		calls[i] = call("pay", fmt.Sprintf(`{"i":%d}`, i))
		calls[i].Run, calls[i].Policy = "payments", []byte(`{"ask_user":"park"}`)
	}
	c.submit(calls)
	places := c.parked(n)
	for _, victim := range []string{"coordinator-0", "reflector-0", "worker-0"} {
		c.kill(victim)
	}
	c.run("coordinator", 2)
	c.run("worker", 2, flags...)
	kinds := []messages.AnswerKind{messages.AnswerRetry, messages.AnswerSkip, messages.AnswerEdit}
	kind := func(i int) messages.AnswerKind { return kinds[i%3] }
	c.answerAll(places, kind, func(done int) {
		switch done {
		case n / 4:
			c.kill("coordinator-1")
			c.run("coordinator", 3)
		case n / 2:
			c.kill("worker-1")
			c.run("worker", 3, flags...)
		}
	})
	// What the killed worker ran may have had its effect, and is asked about again.
	e := c.resultsWhile(calls, func() {
		again, err := inbox.Places(c.t.Context(), c.pool, inbox.AnyRun)
		if err != nil {
			return
		}
		for _, p := range again {
			if p.Dispatch > 0 {
				r := messages.AnswerRequest{Run: p.Run, Call: p.Call, Dispatch: p.Dispatch, Kind: messages.AnswerFail, By: "anna"}
				_ = c.client.Answer(c.t.Context(), r) // answered, if the last look saw it too
			}
		}
	})
	paid := effects(t, witness)
	count := map[messages.Status]int{}
	for i, p := range places {
		r := e.results[p.Call]
		count[r.Status]++
		skipped := kind(i) == messages.AnswerSkip
		switch {
		case skipped && (r.Status != messages.Failed || r.Code != messages.CodeDenied || paid[p.Call] != 0):
			t.Errorf("skipped call %s ended %s (%s) and paid %d times", p.Call, r.Status, r.Code, paid[p.Call])
		case !skipped && (paid[p.Call] > 1 || r.Status == messages.Succeeded && paid[p.Call] != 1):
			t.Errorf("call %s, answered %s, ended %s and paid %d times", p.Call, kind(i), r.Status, paid[p.Call])
		case r.Status == messages.Succeeded && kind(i) == messages.AnswerEdit && string(r.Output.Inline) != "paid {\"edited\":true}\n":
			t.Errorf("an edited call answered %q", r.Output.Inline)
		}
	}
	t.Logf("%v", count)
	if count[messages.Succeeded] < n/2 {
		t.Errorf("only %d calls succeeded: %v", count[messages.Succeeded], count)
	}
}

// heap is what the last collection of garbage left in a process that serves
// metrics, in bytes: the least of some looks, which make some garbage themselves.
func (c *cluster) heap(p *process) float64 {
	c.t.Helper()
	log, err := os.ReadFile(p.log)
	address := regexp.MustCompile(`"http":"(127[.0-9]+:[0-9]+)"`).FindSubmatch(log)
	if err != nil || address == nil {
		c.t.Fatalf("%s does not say where its metrics are: %v", p.name, err)
	}
	least := math.Inf(1)
	for range 20 {
		r, err := http.Get("http://" + string(address[1]) + "/metrics")
		if err != nil {
			c.t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		m := regexp.MustCompile(`(?m)^go_gc_heap_live_bytes (.*)$`).FindSubmatch(b)
		if err != nil || m == nil {
			c.t.Fatalf("no heap in the metrics of %s: %v", p.name, err)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			c.t.Fatal(err)
		}
		least = min(least, v)
	}
	return least
}

// TestACoordinatorDoesNotGrowWithParkedCalls: what waits for a human is in the
// broker and nowhere else.
func TestACoordinatorDoesNotGrowWithParkedCalls(t *testing.T) {
	const batch = 500
	t.Setenv("GOGC", "10") // what is measured is what is kept, and little garbage
	c := start(t, 0)
	coordinator := c.run("coordinator", 0, "--http", "0")
	c.run("reflector", 0)
	declaration := writeFile(t, t.TempDir(), "tools.yaml", "tools:\n  - {name: pay, command: ['true'], schema: {type: object, properties: {city: {type: string, enum: [London, Paris]}}, required: [city]}}\n")
	c.run("worker", 0, "--tools", declaration)
	c.serving(1)
	park := func() {
		calls := make([]messages.Submission, batch)
		for i := range calls {
			calls[i] = call("pay", `{"city":"Londonn"}`) // needs no worker, and which city is for a human to say
			calls[i].Policy = []byte(`{"ask_user":"park"}`)
		}
		c.submit(calls)
	}
	park()
	c.parked(batch)
	c.idle()
	first := c.heap(coordinator)
	for n := 2; n <= 4; n++ {
		park()
		c.parked(n * batch)
	}
	c.idle()
	// What is kept stays; what is garbage, or in a buffer, goes with time.
	const most = 400 // bytes of each call
	grown := func() float64 { return (c.heap(coordinator) - first) / (3 * batch) }
	last := grown()
	for end := time.Now().Add(patience); last > most && time.Now().Before(end); last = min(last, grown()) {
	}
	t.Logf("a coordinator had %.0f KiB in use with %d parked calls, and grew by %.0f bytes with each one more", first/1024, batch, last)
	if last > most {
		t.Errorf("a coordinator grows by %.0f bytes with each parked call", last)
	}
}

// parkingBench is a pool in a process of its own and a file of n calls that
// need a human.
func parkingBench(t *testing.T, n int) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), n: n, port: strconv.Itoa(freeport.Get(t))}
	_, b.witness = asksOnce(t, b.dir)
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, `{"ref":"%d","run":"r","tool":"pay","input":{"i":%d}}`+"\n", i, i)
	}
	writeFile(t, b.dir, "calls.jsonl", file.String())
	b.start()
	t.Cleanup(func() { b.stop(syscall.SIGKILL) })
	return b
}

// command starts a command in the folder of the pool.
func (b *bench) command(args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "mulligan"), args...)
	cmd.Dir, cmd.Stderr, cmd.Env = b.dir, b.errors(), os.Environ()
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return cmd
}

// TestS5_3_APoolThatIsKilledKeepsItsQuestions kills broker and all, with -9,
// while every call waits for a human and again while they are answered.
func TestS5_3_APoolThatIsKilledKeepsItsQuestions(t *testing.T) {
	t.Parallel()
	const n = 120
	b := parkingBench(t, n)
	if code := b.code(b.run("--park")); code != 4 {
		t.Fatalf("a run that waits for humans ended with %d", code)
	}
	b.stop(syscall.SIGKILL)
	b.start()
	if got := strings.Count(b.ends(outside{name: "inbox", args: []string{"inbox", "--limit", "0", "-o", "json"}}), "\n"); got != n {
		t.Fatalf("%d of %d questions are there after a restart", got, n)
	}
	answering := b.command("answer", "retry", "--all", "--yes")
	b.reached(n / 4)
	b.stop(syscall.SIGKILL)
	b.start()
	if code := b.code(answering); code != 0 && code != 3 {
		t.Errorf("the answers ended with %d", code)
	}
	for range 20 { // what was killed under way is asked about again
		code := b.code(b.run("--park"))
		if code != 4 {
			break
		}
		_ = b.code(b.command("answer", "fail", "--all", "--yes"))
	}
	ends := b.ended(messages.Succeeded, messages.Failed, messages.StatusUnknown)
	for ref, times := range ends {
		if times > 1 {
			t.Errorf("call %s paid %d times", ref, times)
		}
	}
	if len(ends) < n/2 {
		t.Errorf("%d of %d calls paid", len(ends), n)
	}
}
