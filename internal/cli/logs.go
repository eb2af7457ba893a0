package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/pflag"
)

// logging says how the log is written: to standard error, for people on a
// terminal and as JSON elsewhere.
type logging struct {
	level  string
	format string
	lvl    slog.Level
}

func (l *logging) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "least level that is logged: debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "auto", "form of the log: json, text, or auto for text on a terminal")
}

func (l *logging) check() error {
	if err := l.lvl.UnmarshalText([]byte(l.level)); err != nil {
		return fmt.Errorf("--log-level %q is none of debug, info, warn, error", l.level)
	}
	switch l.format {
	case "auto", "json", "text":
		return nil
	}
	return fmt.Errorf("--log-format %q is none of auto, json, text", l.format)
}

// logger writes at the level of the flags, but not below least.
func (a *app) logger(least slog.Level) *slog.Logger {
	level := max(a.logging.lvl, least)
	if a.sources["log-level"] > fromDefault {
		level = a.logging.lvl
	}
	return slog.New(logHandler(a.Err, a.logging.format, a.Terminal, level))
}

func logHandler(w io.Writer, format string, terminal bool, level slog.Level) slog.Handler {
	if format == "json" || format == "auto" && !terminal {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readableDuration})
	}
	return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal})
}

// readableDuration keeps a bare count of nanoseconds out of the log.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// plural counts for people.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", thousands(n), many)
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}
