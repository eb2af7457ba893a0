package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/internal/story"
	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
)

// told is an observer that remembers and can be waited for.
type told struct {
	mu   sync.Mutex
	seen map[string][]hook.Attempt
	more chan struct{}
}

func (o *told) after(_ context.Context, a hook.Attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[a.ID] = append(o.seen[a.ID], a)
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// of waits until n attempts of a call were seen.
func (o *told) of(t *testing.T, call string, n int) []hook.Attempt {
	t.Helper()
	for {
		o.mu.Lock()
		got := slices.Clone(o.seen[call])
		o.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-o.more:
		case <-t.Context().Done():
			t.Fatalf("%d attempts of %s were seen, want %d", len(got), call, n)
		case <-time.After(patience):
			t.Fatalf("%d attempts of %s were seen, want %d", len(got), call, n)
		}
	}
}

func storyOf(t *testing.T, src story.Source, call string) string {
	t.Helper()
	m, err := story.Gather(t.Context(), src, call)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := story.Build(m, time.Now()).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// S6.T7 in a whole pool: vetoes of the policies and of a worker, with their
// reasons, before a first and a later dispatch, and an observer of it all.
func TestS6_T7_APoolWithHooks(t *testing.T) {
	obs := &told{seen: make(map[string][]hook.Attempt), more: make(chan struct{}, 1)}
	reg := prometheus.NewRegistry()
	p := startPool(t, Config{
		Coordinators: 2, Reflectors: 1, Workers: 2, Metrics: reg,
		Document: json.RawMessage(`{"hooks":[
			{"name":"secrets","when":"input.text == \"secret\"","veto":"keep it to yourself"},
			{"name":"once","when":"labels.once == \"yes\" && attempt > 0","veto":"once is enough"},
			{"name":"seen","when":"outcome == \"succeeded\" && attempt == 1","note":"it took two attempts"}]}`),
		Hooks: []hook.Hook{
			{Name: "guard", Before: func(_ context.Context, c hook.Call) (string, error) {
				if c.Labels["team"] == "red" {
					return "team red is on holiday", nil
				}
				return "", nil
			}},
			{Name: "watch", After: obs.after},
		},
	})
	c, src := connect(t, p)
	call := func(tool, text string, labels messages.Labels) messages.Result {
		t.Helper()
		r, err := c.Call(t.Context(), messages.Submission{Tool: tool, Input: fmt.Appendf(nil, `{"text":%q}`, text), Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, tc := range []struct {
		tool, text string
		labels     messages.Labels
		code       messages.Code
		output     string
		reason     string
		attempts   int // seen by the observer
	}{
		{"upper", "hello", nil, "", "HELLO", "", 1},
		{"flaky", "hello", nil, "", "hello", "", 2},
		{"upper", "secret", nil, messages.CodeHookVeto, "keep it to yourself", `vetoed by hook "secrets": keep it to yourself`, 0},
		{"flaky", "hello", messages.Labels{"once": "yes"}, messages.CodeHookVeto, "503 Service Unavailable", `vetoed by hook "once": once is enough`, 1},
		{"upper", "hello", messages.Labels{"team": "red"}, messages.CodeHookVeto, "team red is on holiday", `vetoed by hook "guard": team red is on holiday`, 1},
	} {
		r := call(tc.tool, tc.text, tc.labels)
		if r.Code != tc.code || string(r.Output.Inline) != tc.output || r.Reason != tc.reason || r.IsError != (tc.code != "") {
			t.Errorf("%s %s %v: %+v", tc.tool, tc.text, tc.labels, r)
		}
		seen := obs.of(t, r.Call, tc.attempts)
		if len(seen) != tc.attempts {
			t.Errorf("%s: %d attempts seen: %+v", tc.reason, len(seen), seen)
		}
		if tc.reason != "" {
			if text := storyOf(t, src, r.Call); !strings.Contains(text, tc.reason) || tc.attempts == 0 && !strings.Contains(text, "not dispatched: hook_veto") {
				t.Errorf("explain does not name the hook:\n%s", text)
			}
		}
	}
	var names []string
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, name := range []string{"mulligan_coordinator_vetoes_total", "mulligan_worker_vetoes_total", "mulligan_worker_notes_total"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %s", name)
		}
	}
}
