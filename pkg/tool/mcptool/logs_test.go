package mcptool

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"mulligan/internal/secrets"
)

// A key is often several lines, and a line may be longer than what is kept of it.
func TestNoPartOfASecretIsLogged(t *testing.T) {
	lines, long := "first-line-s3cr3t\n\nsecond-line-s3cr3t\n", strings.Repeat("s3cr3t", 200)
	finder, err := secrets.NewFinder(nil, withheld(Config{Env: map[string]string{"A": lines, "B": long}}, nil)...)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	tail := newLogTail(slog.New(slog.NewTextHandler(&log, nil)), finder)
	tail.follow(strings.NewReader("key: " + lines + strings.Repeat("x", maxLogLine-100) + long + "\nthe end\n"))
	if said := log.String() + tail.last(); strings.Contains(said, "s3cr3t") || !strings.Contains(said, "key: [withheld]") || !strings.Contains(said, "the end") {
		t.Error(said)
	}
	for _, line := range tail.lines {
		if len(line) > maxLogLine+len("…") {
			t.Errorf("a line of %d bytes is kept", len(line))
		}
	}
}
