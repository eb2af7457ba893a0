package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/calls"
	"mulligan/internal/calls/pooled"
	"mulligan/internal/format"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

type refunded struct {
	Order string `json:"order"`
}

// Eight calls of one message, of which one is forbidden, one hangs and one needs
// a human, have eight results, in their order: none hides or cancels another.
func TestSiblingsEachHaveTheirResultInOrder(t *testing.T) {
	p, err := Start(t.Context(), Config{Slots: 8, Tools: append(tools(),
		tool.New("forbidden", func(context.Context, text) (string, error) { return "", errors.New("403 Forbidden") }, tool.Effect(messages.ReadOnly)),
		tool.New("hang", func(ctx context.Context, _ text) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, tool.Effect(messages.Unsafe)),
		tool.New("refund", func(_ context.Context, in refunded) (string, error) {
			return "", fmt.Errorf("order %s not found; did you mean 'ORD-1001'?", in.Order)
		}, tool.Effect(messages.Unsafe)),
	)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	c, _ := connect(t, p)
	lines := []string{
		`{"ref":"1","tool":"upper","input":{"text":"a"}}`,
		`{"ref":"2","tool":"forbidden","input":{"text":"b"}}`,
		`{"ref":"3","tool":"upper","input":{"text":"c"}}`,
		`{"ref":"4","tool":"hang","input":{"text":"d"},"timeout_ms":500}`,
		`{"ref":"5","tool":"upper","input":{"text":"e"}}`,
		`{"ref":"6","tool":"refund","input":{"order":"ORD-101"}}`,
		`{"ref":"7","tool":"upper","input":{"text":"g"}}`,
		`{"ref":"8","tool":"upper","input":{"text":"h"}}`,
	}
	want := []string{"1 succeeded A", "2 failed 403 Forbidden", "3 succeeded C", "4 unknown ", "5 succeeded E", "6 failed order ORD-101 not found", "7 succeeded G", "8 succeeded H"}

	for i, line := range runLines(t, c, lines) {
		var r calls.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %s", r.Ref, r.Status, *r.Output); !strings.HasPrefix(got, want[i]) {
			t.Errorf("result %d: %s (%s), want %s", i+1, got, r.Reason, want[i])
		}
		if i == 5 && r.Code != messages.CodeAskUser {
			t.Errorf("the call that needs a human ended with %s: %s", r.Code, r.Reason)
		}
	}
}

// runLines runs calls of one run, as `mulligan run` does, and gives their lines.
func runLines(t *testing.T, c *client.Client, lines []string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := calls.Open(path, nil, format.Auto, false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	journal, err := calls.TempJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	var out bytes.Buffer
	if _, err := calls.Run(t.Context(), pooled.New(c), file, journal, &out, calls.Options{Run: "siblings"}); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d results of %d calls: %s", len(got), len(lines), out.String())
	}
	return got
}
