package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// lease of the clusters: how soon the work of a killed process is given to
// another; longer than a busy machine holds up one that lives.
const lease = 5 * time.Second

// patience bounds what must come to an end; far above what it takes.
const patience = 4 * time.Minute

var binaries string // the folder of the commands, built once

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	if isHands() {
		return 0
	}
	dir, err := os.MkdirTemp("", "mulligan-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "mulligan/cmd/...")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the commands: %v\n%s", err, out)
		return 1
	}
	binaries = dir
	return m.Run()
}

// process is one command that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// cluster is a broker and services in processes of their own.
type cluster struct {
	t         *testing.T
	dir       string
	server    *embedded.Server // in this process; nil where the broker has one of its own
	url       string
	token     string
	lease     time.Duration
	pool      *jetstream.Pool
	client    *client.Client
	mu        sync.Mutex
	processes []*process
}

// start makes a broker and n processes of each service. Tools have no breaker:
// they are to fail as often as a test wants.
func start(t *testing.T, n int, workerFlags ...string) *cluster {
	t.Helper()
	c := alone(t, lease)
	for i := range n {
		c.run("coordinator", i, "--policy", c.noBreaker())
		c.run("reflector", i)
		c.run("worker", i, workerFlags...)
	}
	return c
}

// alone makes a broker, with leases of this length, that nobody serves yet.
func alone(t *testing.T, lease time.Duration) *cluster {
	t.Helper()
	server := natstest.Server(t)
	c := connectedWith(t, server.ClientURL(), server.Token(), lease)
	c.server = server
	if err := c.pool.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// connected is a cluster without processes at the broker with this address.
func connected(t *testing.T, url, token string) *cluster {
	t.Helper()
	return connectedWith(t, url, token, lease)
}

func connectedWith(t *testing.T, url, token string, lease time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), url: url, token: token, lease: lease}
	var err error
	if c.pool, err = jetstream.Connect(t.Context(), jetstream.Config{URL: url, Token: token, Lease: lease}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	if c.client, err = client.New(c.pool, client.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	t.Cleanup(c.end)
	return c
}

// noBreaker is the file of a policy without breakers.
func (c *cluster) noBreaker() string {
	return writeFile(c.t, c.dir, "no-breaker.yaml", "pool: {breaker: off}\n")
}

// run starts one service; it is waited for in end.
func (c *cluster) run(service string, i int, flags ...string) *process {
	c.t.Helper()
	return c.launch(filepath.Join(binaries, service), fmt.Sprintf("%s-%d", service, i), nil, flags...)
}

// launch starts a program as a service of the pool, with an environment beside
// that of the test.
func (c *cluster) launch(program, name string, env []string, flags ...string) *process {
	c.t.Helper()
	p := &process{name: name, done: make(chan struct{})}
	p.log = filepath.Join(c.dir, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	args := append([]string{"--server", c.url, "--lease", c.lease.String(), "--name", p.name}, flags...)
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.dir, log, log
	p.cmd.Env = append(append(os.Environ(), env...), "MULLIGAN_TOKEN="+c.token)
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		_ = log.Close()
		close(p.done)
	}()
	c.mu.Lock()
	c.processes = append(c.processes, p)
	c.mu.Unlock()
	return p
}

// kill is kill -9: the process gets no chance to say a word.
func (c *cluster) kill(name string) {
	for _, p := range c.all() {
		if p.name != name {
			continue
		}
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			c.t.Errorf("kill %s: %v", name, err)
		}
		<-p.done
		if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); runtime.GOOS != "windows" && (!ok || s.Signal() != syscall.SIGKILL) {
			c.t.Errorf("%s was not killed: %v", name, p.cmd.ProcessState)
		}
	}
}

func (c *cluster) all() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*process(nil), c.processes...)
}

func (c *cluster) end() {
	for _, p := range c.all() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if c.t.Failed() {
			b, _ := os.ReadFile(p.log)
			c.t.Logf("%s:\n%s", p.name, tail(b, 3000))
		}
	}
}

func contextWithPatience(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(t.Context(), patience, errors.New("patience is at its end"))
}

// eventually repeats f until it succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
	}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// serving waits until the tools are offered by n workers.
func (c *cluster) serving(n int) {
	c.t.Helper()
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	offers := map[string]bool{}
	err := c.pool.Watch(ctx, messages.BucketTools, "offer.>", func() {}, func(e messages.Entry) {
		if offers[e.Key] = !e.Deleted; len(offers) == n {
			cancel()
		}
	})
	if len(offers) < n {
		c.t.Fatalf("%d of %d workers offer their tools: %v", len(offers), n, err)
	}
}

// submit submits calls, and again those of which nobody knows what became: a
// cluster may take longer to find its leaders than a submitter is patient.
func (c *cluster) submit(calls []messages.Submission) {
	c.t.Helper()
	if refused, err := submitSurely(c.t, c.client, calls); err != nil || len(refused) > 0 {
		c.t.Fatalf("submit: %v, refused %+v", err, refused)
	}
}

// submitSurely submits until it is known what became of the calls, which keep
// their ids: what is brought in twice is accepted once (P7.11).
func submitSurely(t *testing.T, cl *client.Client, calls []messages.Submission) ([]messages.Refusal, error) {
	ctx, cancel := contextWithPatience(t)
	defer cancel()
	refused, err := cl.Submit(ctx, calls)
	for uncertain(err) && ctx.Err() == nil {
		t.Logf("submitted again: %v", err)
		refused, err = cl.Batch().Resubmit(ctx, calls)
	}
	return refused, err
}

func uncertain(err error) bool {
	var unsure *client.UncertainError
	return errors.As(err, &unsure)
}

// ended is what became of calls.
type ended struct {
	results map[string]messages.Result
	at      map[string]time.Time
}

// results waits for the results of all calls; each is called after each, with
// how many there are. A call with two results fails the test.
func (c *cluster) results(calls []messages.Submission, each func(int)) ended {
	c.t.Helper()
	ctx, cancel := contextWithPatience(c.t)
	defer cancel()
	want := make(map[string]bool, len(calls))
	for _, s := range calls {
		want[s.Call] = true
	}
	e := ended{results: map[string]messages.Result{}, at: map[string]time.Time{}}
	err := c.client.Results(ctx, client.Query{}, func(r messages.Result) error {
		if !want[r.Call] {
			return nil
		}
		if _, twice := e.results[r.Call]; twice {
			c.t.Errorf("call %s has two results", r.Call)
		}
		e.results[r.Call], e.at[r.Call] = r, time.Now()
		each(len(e.results))
		if len(e.results) == len(calls) {
			return client.ErrStop
		}
		return nil
	})
	if err != nil {
		c.t.Fatalf("%d of %d calls have a result: %v", len(e.results), len(calls), err)
	}
	return e
}

// backlog is what a consumer of CALLS still has to do and has given out.
func (c *cluster) backlog(queue string, lane messages.Lane) (waiting, unacked int) {
	c.t.Helper()
	w, u, err := c.pool.Backlog(c.t.Context(), messages.StreamCalls, c.pool.Names().LaneConsumer(queue, lane))
	if err != nil {
		c.t.Fatal(err)
	}
	return w, u
}

func call(tool, input string) messages.Submission {
	return messages.Submission{Call: messages.NewCallID(), Tool: tool, Input: []byte(input)}
}
