package worker

import (
	"context"
	"log/slog"

	"mulligan/pkg/messages"
)

// callLog adds which call it is about when something is said of it, and not
// before: of most calls nothing is.
type callLog struct {
	slog.Handler
	call *messages.Call
}

func (l callLog) named() slog.Handler {
	c := l.call
	return l.Handler.WithAttrs([]slog.Attr{
		slog.String("call", c.ID), slog.String("run", string(c.Run)), slog.Int("dispatch", c.Dispatch), slog.String("tool", c.Tool),
	})
}

func (l callLog) Handle(ctx context.Context, r slog.Record) error { return l.named().Handle(ctx, r) }

func (l callLog) WithAttrs(attrs []slog.Attr) slog.Handler { return l.named().WithAttrs(attrs) }

func (l callLog) WithGroup(name string) slog.Handler { return l.named().WithGroup(name) }
