package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"mulligan/pkg/hook"
)

// bounds keeps a hook in Go from holding up its worker: it has a time, and one
// that ignores its end is left behind, a few times.
type bounds struct {
	time  time.Duration
	stuck atomic.Int32 // calls of it that were left behind and have not returned
}

// mostStuck is how many calls of a hook may be left behind before it is not
// called any more.
const mostStuck = 8

// bound gives a hook its bounds.
func bound(h hook.Hook, limit time.Duration, log *slog.Logger) hook.Hook {
	before, after := h.Before, h.After
	b := &bounds{time: limit}
	if before != nil {
		h.Before = func(ctx context.Context, c hook.Call) (veto string, err error) {
			answer := make(chan func() (string, error), 1)
			if err := b.do(ctx, func(ctx context.Context) {
				v, err := before(ctx, c)
				answer <- func() (string, error) { return v, err }
			}); err != nil {
				return "", err
			}
			return (<-answer)()
		}
	}
	if after != nil {
		h.After = func(ctx context.Context, a hook.Attempt) {
			if err := b.do(ctx, func(ctx context.Context) { after(ctx, a) }); err != nil {
				log.Warn("an observer failed", append(a.Attrs(), "hook", h.Name, "error", err)...)
			}
		}
	}
	return h
}

// do calls f. An error says that it panicked, took too long or did not return
// before; without one f has returned.
func (b *bounds) do(ctx context.Context, f func(context.Context)) error {
	if n := b.stuck.Load(); n >= mostStuck {
		return fmt.Errorf("%d calls of it have not returned, so it is not called any more", n)
	}
	ctx, cancel := context.WithTimeout(ctx, b.time)
	defer cancel()
	done := make(chan error, 1)
	var over atomic.Bool // returned, or left behind, whichever was first
	go func() {
		err := errors.New("it ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			done <- err
			if !over.CompareAndSwap(false, true) {
				b.stuck.Add(-1)
			}
		}()
		f(ctx)
		err = nil
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	b.stuck.Add(1)
	if !over.CompareAndSwap(false, true) { // it returned this moment
		b.stuck.Add(-1)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("it took longer than %s", b.time)
}
