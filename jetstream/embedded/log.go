package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// natsLog hands the server's log to ours. Notices become debug: a library is
// quiet where all is well. So does the warning of an index that is made anew
// after a crash, since nothing is lost by it. What is not enabled is not
// formatted.
type natsLog struct{ log *slog.Logger }

func (l *natsLog) Noticef(f string, v ...any) { l.write(slog.LevelDebug, f, v) }
func (l *natsLog) Warnf(f string, v ...any)   { l.write(warning(f), f, v) }
func (l *natsLog) Errorf(f string, v ...any)  { l.write(slog.LevelError, f, v) }
func (l *natsLog) Fatalf(f string, v ...any)  { l.write(slog.LevelError, f, v) }
func (l *natsLog) Debugf(string, ...any)      {}
func (l *natsLog) Tracef(string, ...any)      {}

func warning(format string) slog.Level {
	if strings.Contains(format, "attempting to recover") {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (l *natsLog) write(level slog.Level, format string, v []any) {
	if ctx := context.Background(); l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "nats server: "+fmt.Sprintf(format, v...))
	}
}
