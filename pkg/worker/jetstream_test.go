package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

// takeOffers is a coordinator that only makes the consumers of a queue.
func takeOffers(t *testing.T, p *jetstream.Pool) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Serve(ctx, messages.EndpointOffer, nil, func(ctx context.Context, request []byte) []byte {
			var reply messages.OfferReply
			o, err := messages.DecodeService[messages.OfferRequest](request)
			for _, s := range o.Tools {
				err = errors.Join(err, p.EnsureQueue(ctx, s.Queue))
			}
			if err != nil {
				reply.Error = err.Error()
			}
			return must(messages.EncodeService(reply))
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// outcomes waits for n messages on a stream.
func outcomes(t *testing.T, p *jetstream.Pool, stream messages.Stream, filter string, n int) []messages.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("not all outcomes came"))
	defer cancel()
	var got []messages.Stored
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := p.Follow(ctx, stream, []string{filter}, 1, func(m messages.Stored) {
		if got = append(got, m); len(got) == n {
			stop(enough)
		}
	})
	if !errors.Is(context.Cause(ctx), enough) {
		t.Fatalf("%d of %d outcomes: %v", len(got), n, errors.Join(err, context.Cause(ctx)))
	}
	return got
}

func TestAWorkerOnJetStream(t *testing.T) {
	const lease = time.Minute
	p := natstest.Connect(t, natstest.Server(t), jetstream.Config{Lease: lease})
	if err := p.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	takeOffers(t, p)
	var mu sync.Mutex
	ran := make(map[string]int)
	x := tool.Raw("x/y.z", nil, func(_ context.Context, c tool.Call) (tool.Output, error) {
		mu.Lock()
		ran[c.ID]++
		mu.Unlock()
		if c.Ref == "bad" {
			return tool.Output{}, errors.New("bad")
		}
		return tool.Output{Body: c.Input}, nil
	}, tool.Queue("a queue"))
	w := must(worker.New(worker.Config{Broker: p, Tools: []*tool.Tool{x}, Lease: lease, Slots: 4}))
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-w.Started()
	const n = 200
	var calls []messages.Message
	for i := range n {
		id := messages.NewCallID()
		c := messages.Call{
			ID: id, Run: messages.UnnamedRun(id), Tool: "x/y.z", Queue: "a queue", Lane: messages.Lanes()[i%4], Effect: messages.Effects()[i%3+i%2],
			Key: id, Dispatch: i % 4 / 3, Input: messages.Text(fmt.Sprintf(`{"i": %d}`, i)),
		}
		if i%5 == 0 {
			c.Ref = "bad"
		}
		calls = append(calls, p.Names().EncodeCall(c))
	}
	for i, err := range p.PublishAll(t.Context(), calls) {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	outcomes(t, p, messages.StreamResults, p.Names().ResultsFilter(""), n-n/5)
	outcomes(t, p, messages.StreamRecovery, p.Names().Prefix()+".failure.>", n/5)
	start := time.Now()
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 9*time.Second { // a long poll lasts 10
		t.Errorf("stopped after %v", d)
	}
	for _, l := range messages.Lanes() { // the last acks may be under way
		lane := p.Names().LaneConsumer("a queue", l)
		waits, unacked, err := p.Backlog(t.Context(), messages.StreamCalls, lane)
		for end := time.Now().Add(lease / 2); err == nil && waits+unacked > 0 && time.Now().Before(end); {
			waits, unacked, err = p.Backlog(t.Context(), messages.StreamCalls, lane)
		}
		if waits+unacked != 0 || err != nil {
			t.Errorf("%s: %d waiting, %d un-acked, %v", l, waits, unacked, err)
		}
	}
	for id, times := range ran {
		if times != 1 {
			t.Errorf("%s ran %d times", id, times)
		}
	}
}

// The example in a module of its own, built and run as its reader would.
func TestTheGreetExampleRuns(t *testing.T) {
	binary := buildGreet(t)
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	if err := p.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	takeOffers(t, p)
	greet := exec.Command(binary)
	greet.Env = append(os.Environ(), "MULLIGAN_SERVER="+s.ClientURL(), "MULLIGAN_TOKEN="+s.Token())
	greet.Stdout, greet.Stderr = os.Stderr, os.Stderr
	if err := greet.Start(); err != nil {
		t.Fatal(err)
	}
	id := messages.NewCallID()
	c := messages.Call{
		ID: id, Run: messages.UnnamedRun(id), Tool: "greet", Queue: "greet", Lane: messages.LaneNormal, Effect: messages.ReadOnly,
		Key: id, Input: messages.Text(`{"name": "Ada"}`),
	}
	if err := p.Publish(t.Context(), p.Names().EncodeCall(c)); err != nil {
		t.Fatal(err)
	}
	m := outcomes(t, p, messages.StreamResults, p.Names().ResultsFilter(c.Run), 1)[0]
	if string(m.Body) != `{"text":"Hello, Ada"}` {
		t.Errorf("got %s", m.Body)
	}
	if err := greet.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := greet.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// buildGreet builds a copy, so that the repository stays as it is, and asks no
// network: what the module needs is what this one needs.
func buildGreet(t *testing.T) string {
	t.Helper()
	root := must(filepath.Abs("../.."))
	dir := t.TempDir()
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		b := string(must(os.ReadFile(filepath.Join(root, "examples", "greet", name))))
		switch name {
		case "go.mod":
			b = strings.Replace(b, "=> ../..", "=> "+root, 1)
		case "go.sum":
			b += string(must(os.ReadFile(filepath.Join(root, "go.sum"))))
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "greet.exe")
	build := exec.Command("go", "build", "-mod=mod", "-o", binary, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
