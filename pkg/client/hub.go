package client

import (
	"context"
	"slices"
	"sync"

	"mulligan/pkg/messages"
)

// hub lets many calls of Call share one reader of RESULTS for each run, since
// a reader of its own for each call would cost the broker a consumer.
type hub struct {
	c     *Client
	ctx   context.Context // ends with close
	stop  context.CancelCauseFunc
	group group

	mu      sync.Mutex
	readers map[messages.Run]*reader
}

type reader struct {
	run     messages.Run
	ready   chan struct{} // closed when the position is read: a result of a later submission will be seen
	stop    context.CancelCauseFunc
	waiting map[string][]chan outcome // by call id; guarded by hub.mu
}

type outcome struct {
	result messages.Result
	err    error
}

func newHub(c *Client) *hub {
	h := &hub{c: c, readers: make(map[messages.Run]*reader)}
	h.ctx, h.stop = context.WithCancelCause(context.Background())
	return h
}

func (h *hub) close() {
	h.stop(ErrClosed)
	h.group.wait()
}

// expect begins to look for the result of a call that is about to be
// submitted. The channel brings one outcome; release must be called.
func (h *hub) expect(ctx context.Context, run messages.Run, call string) (<-chan outcome, func(), error) {
	ch := make(chan outcome, 1)
	h.mu.Lock()
	r, err := h.reader(run)
	if err == nil {
		r.waiting[call] = append(r.waiting[call], ch)
	}
	h.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	release := func() { h.release(r, call, ch) }
	select {
	case <-r.ready:
		return ch, release, nil
	case o := <-ch:
		return nil, nil, o.err
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
}

// reader gives the reader of a run, starting it if there is none; h.mu is held.
func (h *hub) reader(run messages.Run) (*reader, error) {
	if r := h.readers[run]; r != nil {
		return r, nil
	}
	r := &reader{run: run, ready: make(chan struct{}), waiting: make(map[string][]chan outcome)}
	ctx, stop := context.WithCancelCause(h.ctx)
	r.stop = stop
	if !h.group.goFunc(func() { h.read(ctx, r) }) {
		return nil, ErrClosed
	}
	h.readers[run] = r
	return r, nil
}

// release stops the reader of a run with the last call that waits, except that
// of the client's own batch, which is wanted again soon.
func (h *hub) release(r *reader, call string, ch chan outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(r.waiting[call], func(c chan outcome) bool { return c == ch })
	if r.waiting[call] = left; len(left) == 0 {
		delete(r.waiting, call)
	}
	if len(r.waiting) == 0 && r.run != h.c.own.run {
		h.remove(r)
		r.stop(nil)
	}
}

func (h *hub) remove(r *reader) {
	if h.readers[r.run] == r {
		delete(h.readers, r.run)
	}
}

func (h *hub) read(ctx context.Context, r *reader) {
	err := h.follow(ctx, r)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = ErrClosed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(r)
	for call := range r.waiting {
		r.tell(call, outcome{err: err})
	}
}

// tell hands an outcome to whoever waits for the call; hub.mu is held.
func (r *reader) tell(call string, o outcome) {
	for _, ch := range r.waiting[call] {
		ch <- o
	}
	delete(r.waiting, call)
}

func (h *hub) follow(ctx context.Context, r *reader) error {
	from, err := h.c.Position(ctx)
	if err != nil {
		return err
	}
	close(r.ready)
	tell := func(call string, o outcome) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		r.tell(call, o)
		return nil
	}
	return h.c.results(ctx, Query{Runs: []messages.Run{r.run}, From: from},
		func(res messages.Result) error { return tell(res.Call, outcome{result: res}) },
		func(e *UnreadableError) error { return tell(e.Call, outcome{err: e}) })
}
