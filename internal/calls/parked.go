package calls

import (
	"context"
	"errors"
	"time"
)

// ErrParked says that every call which has not ended waits for a human. They go
// on waiting; a later Run takes up their results.
var ErrParked = errors.New("the calls that have not ended wait for a human")

// Of looking for parked calls: at least lookEvery apart, and no more than a part
// of the time, since each look lists all of them.
const (
	lookEvery = time.Second
	lookShare = 20
	sureAfter = 2 // looks that found nothing else to wait for; one may be old
)

// watchParked counts the calls that wait for a human, which take no room in the
// window, and ends the run when nothing else is left.
func (e *engine) watchParked(ctx context.Context) error {
	sure := 0
	for {
		began := time.Now()
		parked, err := e.o.Parked(ctx, e.runs())
		if err == nil && e.count(parked) { // an error passes: the next look may succeed
			sure++
		} else {
			sure = 0
		}
		if sure == sureAfter && !e.o.Stay {
			return ErrParked
		}
		t := time.NewTimer(max(lookEvery, lookShare*time.Since(began)))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if errors.Is(context.Cause(ctx), errAllEnded) {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// count notes which of our calls are parked, and says whether these are all
// that there is to wait for.
func (e *engine) count(parked map[string]bool) (alone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for call := range e.entries {
		if parked[call] {
			n++
		}
	}
	if n != e.parked {
		e.parked, e.summary.Parked = n, n
		if e.o.Progress != nil {
			e.o.Progress(e.summary)
		}
		e.changed.Broadcast()
	}
	return n > 0 && n == e.open && len(e.again) == 0 && e.plan.spent()
}
