package llm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mulligan/internal/pace"
)

// window lets at most so many requests through in any minute. It may be used
// concurrently; its zero value lets all through.
type window struct {
	mu    sync.Mutex
	times []time.Time // when the last ones went, a ring
	next  int
}

func newWindow(perMinute int) *window {
	if perMinute < 0 {
		return &window{}
	}
	return &window{times: make([]time.Time, perMinute)}
}

// wait returns when the next request may go, or at once with an error when that
// would be after the deadline of ctx.
func (w *window) wait(ctx context.Context) error {
	if len(w.times) == 0 {
		return nil
	}
	d, err := w.reserve(ctx)
	if err != nil || d <= 0 {
		return err
	}
	if !pace.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

func (w *window) reserve(ctx context.Context) (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	at := now
	if oldest := w.times[w.next]; !oldest.IsZero() && oldest.Add(time.Minute).After(now) {
		at = oldest.Add(time.Minute)
	}
	if deadline, ok := ctx.Deadline(); ok && at.After(deadline) {
		return 0, fmt.Errorf("the limit of %d requests a minute is reached", len(w.times))
	}
	w.times[w.next] = at
	w.next = (w.next + 1) % len(w.times)
	return at.Sub(now), nil
}
