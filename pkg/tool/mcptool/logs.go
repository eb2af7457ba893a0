package mcptool

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"mulligan/internal/excerpt"
	"mulligan/internal/secrets"
)

const (
	maxLogLine = 2 << 10 // bytes of a line of standard error that are kept
	readOfLine = 8 << 10 // that are looked at for secrets, so that none is cut in two first
	logRate    = 10      // lines a second
	logBurst   = 100
	keptLines  = 5 // that an error shows
)

// logTail takes the standard error of a server into the log, without secrets
// and within bounds, and keeps its last lines.
type logTail struct {
	log    *slog.Logger
	finder *secrets.Finder
	limit  *rate.Limiter

	mu      sync.Mutex
	lines   []string
	dropped int
}

func newLogTail(log *slog.Logger, finder *secrets.Finder) *logTail {
	return &logTail{log: log, finder: finder, limit: rate.NewLimiter(logRate, logBurst)}
}

// hide is a text without secrets.
func (t *logTail) hide(s string) string { return t.finder.Hide(s) }

// follow reads until the other end is closed, whatever comes.
func (t *logTail) follow(from io.Reader) {
	in := bufio.NewReaderSize(from, readOfLine)
	skip := false // the rest of a line that was too long
	for {
		part, err := in.ReadSlice('\n')
		if !skip {
			t.take(string(part))
		}
		skip = err == bufio.ErrBufferFull //nolint:errorlint // it comes as it is
		if err != nil && !skip {
			return
		}
	}
}

func (t *logTail) take(line string) {
	line = excerpt.Of(t.hide(strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD")), maxLogLine)
	if line == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == keptLines {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
	if !t.limit.Allow() {
		t.dropped++
		return
	}
	if t.dropped > 0 {
		t.log.Info("lines of an MCP server were left out", "lines", t.dropped)
		t.dropped = 0
	}
	t.log.Info("an MCP server says", "line", line)
}

// last are the last lines, for an error.
func (t *logTail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return excerpt.Of(strings.Join(t.lines, " / "), maxLogLine)
}
