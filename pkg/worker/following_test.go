package worker_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// live are tools that a test changes.
type live struct {
	mu      sync.Mutex
	now     []*tool.Tool
	changed chan struct{}
}

func (*live) Queue() string { return "q" }

func (l *live) Tools() ([]*tool.Tool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.changed
}

func (l *live) set(names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = nil
	for _, name := range names {
		l.now = append(l.now, tool.Raw(name, nil, func(context.Context, tool.Call) (tool.Output, error) {
			return tool.Output{Body: []byte(name)}, nil
		}, tool.Queue("q"), tool.Effect(messages.ReadOnly)))
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// offered are the tools of the worker's offer, or nil where it has none.
func (r *rig) offered() []string {
	r.t.Helper()
	synctest.Wait()
	es := must(r.admin.Entries(r.t.Context(), messages.BucketTools, "offer.>"))
	if len(es) == 0 {
		return nil
	}
	var o messages.Offer
	if err := json.Unmarshal(es[0].Value, &o); err != nil {
		r.t.Fatal(err)
	}
	return o.Tools
}

func TestTheOfferFollowsToolsThatComeAndGo(t *testing.T) {
	bubble(t, func(r *rig) {
		l := &live{changed: make(chan struct{})}
		cfg := r.config()
		cfg.Live = l
		r.start(cfg) // which it does without a tool
		if got := r.offered(); got != nil {
			t.Errorf("offered: %v", got)
		}
		l.set("a", "b")
		if got := r.offered(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("offered: %v", got)
		}
		l.set("b", "c")
		if got := r.offered(); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("offered: %v", got)
		}
		pass(2 * time.Minute) // its lease is kept
		if got := r.offered(); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("offered: %v", got)
		}
		l.set()
		if got := r.offered(); got != nil {
			t.Errorf("offered: %v", got)
		}
	})
}

func TestACallOfAToolThatCameIsRun(t *testing.T) {
	bubble(t, func(r *rig) {
		l := &live{changed: make(chan struct{})}
		cfg := r.config()
		cfg.Live = l
		r.start(cfg)
		l.set("late")
		synctest.Wait()
		pass(time.Minute) // the lanes of the queue were not there at first
		c := r.call("late", func(c *messages.Call) { c.Queue, c.Effect = "q", messages.ReadOnly })
		r.publish(c)
		synctest.Wait()
		if got := r.result(c); string(got.Output.Inline) != "late" {
			t.Errorf("%+v", got)
		}
	})
}
