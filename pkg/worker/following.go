package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// following keeps the offer of a worker what its live tools are. One goroutine
// owns it. Nothing that a server says of its tools ends the worker: an offer
// that is refused is made again, with pauses, and when the tools are others.
type following struct {
	w       *Worker
	changed <-chan struct{}
	offered bool // something is offered, as far as we know
	lease   time.Duration
	pauses  *pace.Pauses // while it does not succeed, else nil
	begun   time.Time
}

// first makes the first offer. It waits for a coordinator as long as ctx lasts;
// where one refuses, or there is nothing to offer, the rest is left to run.
func (f *following) first(ctx context.Context) {
	for f.begun = time.Now(); ; {
		f.take()
		err := f.offer(ctx)
		var refused *refusedOffer
		if err == nil || errors.As(err, &refused) || errors.Is(err, messages.ErrTooLarge) || !f.rest(ctx, err) {
			return
		}
	}
}

// run follows the tools until ctx is done.
func (f *following) run(ctx context.Context) {
	for f.rest(ctx, nil) {
		f.take()
		if err := f.offer(ctx); err != nil && ctx.Err() == nil {
			f.w.log.Warn("the tools are not offered as they are now", "queue", f.w.cfg.Live.Queue(), "error", err)
		}
	}
}

// take serves the tools that there are now.
func (f *following) take() {
	now, changed := f.w.cfg.Live.Tools()
	f.changed = changed
	all := slices.Clone(f.w.cfg.Tools)
	for _, t := range now {
		twice := slices.ContainsFunc(f.w.cfg.Tools, func(own *tool.Tool) bool { return own.Name() == t.Name() })
		if t.Err() != nil || twice {
			f.w.log.Warn("a tool that came is left out", "tool", t.Name(), "twice", twice, "error", t.Err())
			continue
		}
		all = append(all, t)
	}
	f.w.serving.Store(newServed(all))
}

// offer tells the coordinators which tools there are; where there are none any
// more, that what was offered is withdrawn.
func (f *following) offer(ctx context.Context) error {
	none := len(f.w.serving.Load().specs) == 0
	if none && !f.offered {
		f.lease, f.pauses = defaultOfferLease, nil
		return nil
	}
	lease, err := f.w.requestOffer(ctx, none)
	if err != nil {
		if f.pauses == nil {
			f.pauses = pauses()
		}
		return err
	}
	f.offered, f.lease, f.pauses = !none, lease, nil
	return nil
}

// rest waits until the offer is to be made again. It returns false when ctx is
// done. err is why it is made again at once, for the log.
func (f *following) rest(ctx context.Context, err error) bool {
	pause := f.lease / 3
	if f.pauses != nil {
		pause = f.pauses.Next()
	}
	if err != nil {
		level := slog.LevelDebug // a coordinator that starts beside this worker is no news
		if time.Since(f.begun) > offerQuiet {
			level = slog.LevelWarn
		}
		f.w.log.Log(ctx, level, "the tools are not offered yet", "error", err)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
