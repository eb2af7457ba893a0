package coordination

import (
	"context"
	"hash/maphash"
	"sync"

	"mulligan/pkg/messages"
)

// asking reads RUNS for many calls of a run at once. A read serves all who asked
// before it began, so that what each sees is not older than its question, and a
// run whose calls fail together costs a few reads and not one for each of them.
type asking struct {
	load func(context.Context, messages.Run) (messages.RunEntry, uint64, error)

	mu    sync.Mutex
	next  map[messages.Run]*inquiry // that have not begun
	turns [64]chan struct{}         // of runs by their hash: one read at a time
	seed  maphash.Seed
}

type inquiry struct {
	done  chan struct{} // closed when the rest is there
	entry messages.RunEntry
	err   error
}

func newAsking(load func(context.Context, messages.Run) (messages.RunEntry, uint64, error)) *asking {
	a := &asking{load: load, next: make(map[messages.Run]*inquiry), seed: maphash.MakeSeed()}
	for i := range a.turns {
		a.turns[i] = make(chan struct{}, 1)
	}
	return a
}

func (a *asking) ask(ctx context.Context, run messages.Run) (messages.RunEntry, error) {
	a.mu.Lock()
	q := a.next[run]
	if q != nil {
		a.mu.Unlock()
		select {
		case <-q.done:
			return q.entry, q.err
		case <-ctx.Done():
			return messages.RunEntry{}, context.Cause(ctx)
		}
	}
	q = &inquiry{done: make(chan struct{})}
	a.next[run] = q
	a.mu.Unlock()

	turn := a.turns[maphash.String(a.seed, string(run))%uint64(len(a.turns))]
	turn <- struct{}{} // soon: whoever has it waits for one answer
	a.mu.Lock()
	delete(a.next, run) // from here on it is too late to join
	a.mu.Unlock()
	q.entry, _, q.err = a.load(ctx, run)
	<-turn
	close(q.done)
	return q.entry, q.err
}
