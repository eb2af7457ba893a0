package cli

import (
	"context"
	"errors"
	"time"

	"mulligan/internal/pace"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// noticeAfter is how long a call is waited for without a word.
const noticeAfter = 5 * time.Second

// notice says once, after a while, which call is waited for and what for: a
// pool without a worker or reflector would otherwise keep a person waiting for
// ever, and in the dark. The returned function ends it; nothing is said
// afterwards.
func (a *app) notice(ctx context.Context, after time.Duration, src story.Source, call string) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !pace.Sleep(ctx, after) {
			return
		}
		where := whereabouts(ctx, src, call)
		if ctx.Err() == nil && where != "" {
			a.say("call %s is waited for; %s. Ctrl-C leaves it running; `mulligan explain %s` tells more", call, where, call)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// whereabouts is where the call is, empty when it has ended.
func whereabouts(ctx context.Context, src story.Source, call string) string {
	m, err := story.Gather(ctx, src, call)
	switch {
	case errors.Is(err, messages.ErrNotFound):
		return "it is not accepted yet"
	case err != nil:
		return "where it is cannot be read: " + err.Error()
	}
	s := story.Build(m, time.Now())
	if s.State == story.Ended {
		return ""
	}
	if s.State == story.Queued {
		s.Now += pausedText(ctx, src, s.Queue)
	}
	return string(s.State) + ": " + s.Now
}
