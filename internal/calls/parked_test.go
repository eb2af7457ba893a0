package calls

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

// humans is a pool in which calls of the tool ask wait for a human.
type humans struct {
	*fakePool
	batch   map[string]string // of the parked calls
	looking error             // of Parked
}

func newHumans() *humans {
	h := &humans{fakePool: newPool(), batch: make(map[string]string)}
	h.end = func(s messages.Submission) *messages.Result {
		if s.Tool == "ask" {
			return nil
		}
		return &messages.Result{Status: messages.Succeeded, Attempts: 1}
	}
	return h
}

func (h *humans) Submit(ctx context.Context, batch string, n int, repeat bool, calls []messages.Submission) ([]messages.Refusal, error) {
	h.mu.Lock()
	for _, s := range calls {
		if s.Tool == "ask" {
			h.batch[s.Call] = batch
		}
	}
	h.mu.Unlock()
	return h.fakePool.Submit(ctx, batch, n, repeat, calls)
}

// parked is what [Options.Parked] wants.
func (h *humans) parked(context.Context, []messages.Run) (map[string]bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]bool{"019ca8bb-b5c0-7c3a-9f00-5a1f0c2b7d10": true} // of somebody else
	for call := range h.batch {
		out[call] = true
	}
	return out, h.looking
}

// answer ends every parked call.
func (h *humans) answer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for call, batch := range h.batch {
		h.finish(batch, h.accepted[call], messages.Result{Status: messages.Succeeded, Attempts: 2})
		delete(h.batch, call)
	}
}

func (h *humans) options() Options {
	return Options{Policy: json.RawMessage(`{"ask_user":"park"}`), Parked: h.parked}
}

// asking is a file of n calls, every second of which needs a human.
func asking(n int) string {
	parts := strings.SplitAfter(echo(n), "\n")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.Replace(parts[i], `"tool":"echo"`, `"tool":"ask"`, 1)
	}
	return strings.Join(parts, "")
}

// What waits for a human takes no room in the window; when only that is left the
// run ends, and a later one takes up the results.
func TestRunEndsWhenOnlyHumansAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, path := newHumans(), write(t, asking(40))
		o := pool.options()
		o.Window = 5
		most := 0
		o.Progress = func(s Summary) { most = max(most, s.Parked) }
		for range 2 {
			got := run(t, t.Context(), pool, path, false, o)
			if !errors.Is(got.err, ErrParked) || got.summary.Parked != 20 || got.summary.Succeeded != 20 || most != 20 {
				t.Fatalf("%+v, most %d, err %v", got.summary, most, got.err)
			}
		}
		for _, s := range pool.accepted {
			if string(s.Policy) != `{"ask_user":"park"}` {
				t.Fatalf("policy %s", s.Policy)
			}
		}
		pool.answer()
		got := run(t, t.Context(), pool, path, false, o)
		if got.err != nil || got.summary.Succeeded != 40 || got.summary.Recovered != 20 || got.summary.Parked != 0 || len(got.lines) != 40 {
			t.Fatalf("%+v, %d lines, err %v", got.summary, len(got.lines), got.err)
		}
		for call, n := range pool.runs {
			if n != 1 {
				t.Errorf("call %s ran %d times", call, n)
			}
		}
	})
}

func TestRunStaysForTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newHumans()
		o := pool.options()
		o.Stay = true
		time.AfterFunc(time.Hour, pool.answer)
		began := time.Now()
		got := run(t, t.Context(), pool, write(t, asking(10)), false, o)
		if got.err != nil || got.summary.Succeeded != 10 || time.Since(began) < time.Hour {
			t.Fatalf("%+v after %v, err %v", got.summary, time.Since(began), got.err)
		}
	})
}

// In a sequence the calls behind a parked one are not submitted, and do not
// keep the run from ending.
func TestRunInSequenceWaitsBehindAParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newHumans()
		o := pool.options()
		o.Sequence = true
		path := write(t, strings.ReplaceAll(asking(4), `"tool"`, `"run":"x","tool"`))
		got := run(t, t.Context(), pool, path, false, o)
		if !errors.Is(got.err, ErrParked) || got.summary.Parked != 1 || got.summary.Ended() != 1 || len(pool.accepted) != 2 {
			t.Fatalf("%+v, %d accepted, err %v", got.summary, len(pool.accepted), got.err)
		}
	})
}

// A look that fails is no look: the run goes on until one succeeds.
func TestRunOutlivesALookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newHumans()
		pool.looking = errors.New("the broker is away")
		time.AfterFunc(time.Minute, func() {
			pool.mu.Lock()
			defer pool.mu.Unlock()
			pool.looking = nil
		})
		began := time.Now()
		got := run(t, t.Context(), pool, write(t, asking(2)), false, pool.options())
		if !errors.Is(got.err, ErrParked) || time.Since(began) < time.Minute {
			t.Fatalf("after %v: %v", time.Since(began), got.err)
		}
	})
}
