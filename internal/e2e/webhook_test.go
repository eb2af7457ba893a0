package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"mulligan/pkg/messages"
)

// told is a webhook that keeps what it was told; the first time it does not
// answer until its sender is dead.
type told struct {
	mu   sync.Mutex
	keys []string
	runs []messages.RunEntry
	once chan struct{} // closed when it is told for the first time
	dead chan struct{} // closed when who told it is dead
}

func (w *told) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	entry, err2 := messages.DecodeRun(body)
	if err != nil || err2 != nil {
		http.Error(rw, "this is no run", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.keys, w.runs = append(w.keys, r.Header.Get("Idempotency-Key")), append(w.runs, entry)
	first := len(w.keys) == 1
	w.mu.Unlock()
	if first {
		close(w.once)
		<-w.dead
	}
}

func (w *told) times() (keys []string, last messages.RunEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(keys, w.keys...), w.runs[len(w.runs)-1]
}

// TestAWebhookIsToldAfterItsCoordinatorWasKilled kills the coordinator between
// the end of a run and the answer of its webhook: another one tells it again,
// under the same id, and once it took it nobody does any more.
func TestAWebhookIsToldAfterItsCoordinatorWasKilled(t *testing.T) {
	t.Parallel()
	w := &told{once: make(chan struct{}), dead: make(chan struct{})}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	c := alone(t, lease)
	flags := []string{"--webhooks", "--webhook-allow", "127.0.0.0/8"}
	c.run("coordinator", 0, flags...)
	c.run("worker", 0, "--builtin")
	c.serving(1)
	ctx, cancel := contextWithPatience(t)
	defer cancel()
	run := messages.NamedRun("told")
	if _, err := c.client.DeclareRun(ctx, run, messages.RunSpec{Webhook: server.URL}); err != nil {
		t.Fatal(err)
	}
	s := call("echo", `{"text":"x"}`)
	s.Run = "told"
	c.submit([]messages.Submission{s})
	if _, err := c.client.CloseRun(ctx, run, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.once:
	case <-ctx.Done():
		t.Fatal("the webhook is not told")
	}
	c.kill("coordinator-0")
	close(w.dead)
	c.run("coordinator", 1, flags...)
	var entry messages.RunEntry
	c.eventually(func() string {
		e, err := c.pool.Load(ctx, messages.BucketRuns, messages.RunKey(run))
		if err != nil {
			return err.Error()
		}
		if entry, err = messages.DecodeRun(e.Value); err != nil {
			return err.Error()
		}
		if entry.Over == nil || entry.Over.Notified.IsZero() {
			return "RUNS does not say that the webhook was told"
		}
		return ""
	})
	keys, last := w.times()
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("told under %q", keys)
	}
	if last.Over == nil || !last.Over.At.Equal(entry.Over.At) || last.Over.Calls != 1 {
		t.Errorf("told of %+v, kept is %+v", last.Over, entry.Over)
	}
}
