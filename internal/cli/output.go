package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"mulligan/internal/story"
)

// slogQuiet is the least level of what a person types: the log of a library is
// told only when something is wrong. Services log from info on.
const (
	slogDebug = slog.LevelDebug
	slogQuiet = slog.LevelWarn
	slogError = slog.LevelError
)

func marshalLine(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("write the output: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// printJSON writes one line of JSON to standard output.
func (a *app) printJSON(v any) error {
	if err := encodeJSON(a.Out, v); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows under a heading, in columns.
func table(w io.Writer, heading []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{heading}, rows...) {
		if _, err := fmt.Fprintln(t, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// oneLine fits a text into a table.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if story.Hidden(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
