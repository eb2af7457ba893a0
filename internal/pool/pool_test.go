package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"mulligan/internal/story"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type text struct {
	Text string `json:"text"`
}

func tools() []*tool.Tool {
	return []*tool.Tool{
		tool.New("upper", func(_ context.Context, in text) (string, error) { return strings.ToUpper(in.Text), nil }, tool.Effect(messages.ReadOnly)),
		tool.New("flaky", func(ctx context.Context, in text) (string, error) {
			if tool.FromContext(ctx).Attempt == 0 {
				return "", errors.New("503 Service Unavailable")
			}
			return in.Text, nil
		}, tool.Effect(messages.ReadOnly)),
	}
}

func startPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.Tools = tools()
	p, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	return p
}

func stop(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, p *Pool) (*client.Client, story.Source) {
	t.Helper()
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		b.Close()
	})
	return c, b
}

func TestAPoolRunsRecoversAndTells(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := startPool(t, Config{Coordinators: 2, Reflectors: 2, Workers: 2, Metrics: reg})
	if err := p.Healthy(); err != nil {
		t.Fatal(err)
	}
	c, src := connect(t, p)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			name, want := "upper", fmt.Sprintf("CALL %d", i)
			if i%5 == 0 {
				name, want = "flaky", fmt.Sprintf("call %d", i)
			}
			r, err := c.Call(t.Context(), messages.Submission{Tool: name, Input: fmt.Appendf(nil, `{"text":"call %d"}`, i)})
			if err != nil || r.Status != messages.Succeeded || string(r.Output.Inline) != want || (r.Attempts == 2) != (name == "flaky") {
				t.Errorf("call %d of %s: %+v, err %v", i, name, r, err)
			}
		})
	}
	wg.Wait()
	r, err := c.Call(t.Context(), messages.Submission{Tool: "flaky", Input: []byte(`{"text":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := story.Gather(t.Context(), src, r.Call)
	if err != nil {
		t.Fatal(err)
	}
	s := story.Build(m, r.Ended)
	if s.State != story.Ended || len(s.Dispatches) != 2 || s.Dispatches[0].Analysis == nil || s.Dispatches[1].Outcome != "succeeded" {
		t.Fatalf("%+v", s)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, f := range families {
		seen[f.GetName()] = true
	}
	for _, name := range []string{"mulligan_executions_total", "mulligan_worker_slots", "mulligan_reflector_decisions_total", "mulligan_coordinator_submitted_calls_total"} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// A call that was submitted by one process is found by the next.
func TestAnotherClientAttachesToACall(t *testing.T) {
	p := startPool(t, Config{})
	call := messages.Submission{Call: messages.NewCallID(), Tool: "upper", Input: []byte(`{"text":"x"}`)}
	first, _ := connect(t, p)
	if _, err := first.Call(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	second, _ := connect(t, p)
	r, err := second.Call(t.Context(), call)
	if err != nil || string(r.Output.Inline) != "X" {
		t.Fatalf("%+v, %v", r, err)
	}
	known, err := second.Known(t.Context(), r.Run, r.Call)
	if err != nil || !known {
		t.Fatalf("known %v, %v", known, err)
	}
	if known, err = second.Known(t.Context(), r.Run, messages.NewCallID()); err != nil || known {
		t.Fatalf("a call that was never submitted: known %v, %v", known, err)
	}
}

func TestAPoolKeepsItsStateInItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := startPool(t, Config{Dir: dir, Address: true})
	address, err := embedded.ReadAddress(dir)
	if err != nil || address.URL != p.URL() || address.Token != p.Token() {
		t.Fatalf("%+v, %v", address, err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir, Tools: tools()}); !errors.Is(err, embedded.ErrLocked) {
		t.Fatalf("a second pool in the folder: %v", err)
	}
	b, err := p.Connect(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Call(t.Context(), messages.Submission{Tool: "upper", Run: "r", Input: []byte(`{"text":"x"}`)})
	c.Close()
	b.Close()
	if err != nil {
		t.Fatal(err)
	}
	stop(t, p)
	if _, err := embedded.ReadAddress(dir); !os.IsNotExist(err) {
		t.Fatalf("the address is still there: %v", err)
	}
	again := startPool(t, Config{Dir: dir})
	c2, _ := connect(t, again)
	if old, err := c2.Ended(t.Context(), r.Run, r.Call); err != nil || string(old.Output.Inline) != "X" {
		t.Fatalf("%+v, %v", old, err)
	}
}

func TestATemporaryPoolLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := startPool(t, Config{})
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 1 {
		t.Fatalf("%v, %v", left, err)
	}
	stop(t, p)
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Fatalf("left: %v, %v", left, err)
	}
}

func TestAPoolThatDoesNotRun(t *testing.T) {
	p, err := New(Config{Tools: tools()})
	if err != nil {
		t.Fatal(err)
	}
	if p.URL() != "" || p.Token() != "" || p.Healthy() == nil {
		t.Fatal("a pool that was not started is somewhere")
	}
	if _, err := p.Connect(t.Context(), "x"); err == nil {
		t.Fatal("connected to nothing")
	}
	stop(t, p)
	for _, cfg := range []Config{{}, {Tools: tools(), Workers: -1}, {Tools: tools(), Prefix: "Not a name"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	broken := tool.New[text, string]("x", nil)
	if _, err := Start(t.Context(), Config{Tools: []*tool.Tool{broken}}); err == nil || !strings.Contains(err.Error(), "worker-1") {
		t.Fatalf("err %v", err)
	}
}
