package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/excerpt"
	"mulligan/internal/pace"
	"mulligan/internal/story"
)

// How soon the story of a call is looked at, and how often at the least.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = time.Second
)

// maxSaid bounds what one notification says, in bytes.
const maxSaid = 500

// follow tells the client what happens to a call, where it asked for that, until
// the returned function is called; more is whether there may be something left
// to tell.
func (s *Server) follow(ctx context.Context, r *mcp.CallToolRequest, call string) (end func(more bool)) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func(bool) {}
	}
	t := &teller{said: make(map[string]bool), tell: func(n int, text string) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: text})
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug("progress was not told", "call", call, "error", err)
		}
	}}
	looking, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := pace.New(firstLook, lastLook); p.Wait(looking); {
			s.look(looking, t, call)
		}
	}()
	return func(more bool) {
		stop()
		<-done
		if more {
			s.look(ctx, t, call)
		}
	}
}

func (s *Server) look(ctx context.Context, t *teller, call string) {
	m, err := story.Gather(ctx, s.cfg.Broker, call)
	if err != nil {
		return // it is looked again, and the result does not depend on it
	}
	t.hear(story.Build(m, time.Now()))
}

// teller tells each event of a story once, in their order.
type teller struct {
	said map[string]bool
	n    int
	tell func(n int, text string)
}

func (t *teller) say(key, format string, args ...any) {
	if t.said[key] {
		return
	}
	t.said[key] = true
	t.n++
	t.tell(t.n, excerpt.Of(fmt.Sprintf(format, args...), maxSaid))
}

// hear tells what is new in a story.
func (t *teller) hear(s story.Story) {
	for _, d := range s.Dispatches {
		key := func(event string) string { return fmt.Sprintf("%s %d", event, d.N) }
		if d.Worker != "" || len(d.Marks) > 0 {
			t.say(key("started"), "attempt %d started", d.Attempt+1)
		}
		if d.Outcome == "failed" {
			t.say(key("failed"), "attempt %d failed: %s: %s", d.Attempt+1, d.Code, d.Error)
		}
		if d.Analysis != nil {
			t.say(key("decided"), "decided by %s: %s", d.Analysis.By, d.Analysis.Action)
		}
		if d.Answer != nil {
			t.say(key("answered"), "answered by %s: %s", d.Answer.By, d.Answer.Kind)
		}
	}
	last := len(s.Dispatches)
	switch s.State {
	case story.Queued, story.Running, story.Waiting, story.Parked:
		t.say(fmt.Sprintf("%s %d", s.State, last), "%s: %s", s.State, s.Now)
	case story.Reflecting, story.Ended: // their events tell
	}
}
