package mcpserver

import (
	"context"
	"log/slog"
)

// aside makes all that the SDK logs of the level debug: sessions that come and
// go, and what clients do wrong, which they are told.
func aside(log *slog.Logger) *slog.Logger { return slog.New(debugOnly{log.Handler()}) }

type debugOnly struct{ slog.Handler }

func (h debugOnly) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h debugOnly) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h debugOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugOnly{h.Handler.WithAttrs(attrs)}
}

func (h debugOnly) WithGroup(name string) slog.Handler { return debugOnly{h.Handler.WithGroup(name)} }
