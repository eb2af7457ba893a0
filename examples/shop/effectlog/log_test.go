package effectlog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/examples/shop/effectlog"
	"mulligan/examples/shop/tools"
)

func clock() time.Time { return time.Date(2024, 5, 15, 15, 0, 0, 0, time.UTC) }

func openLog(t *testing.T, path string) *effectlog.Log {
	t.Helper()
	l, err := effectlog.Open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test that cares closes it itself
	return l
}

func commit(t *testing.T, l *effectlog.Log, run, call string) {
	t.Helper()
	err := l.Committed(tools.Commit{Run: run, Call: call, Key: "k", Tool: "retail/think", Input: []byte(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
}

func readLog(t *testing.T, path string) effectlog.Record {
	t.Helper()
	record, err := effectlog.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestLinesHoldTheCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l := openLog(t, path)
	commit(t, l, "run", "call")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(`{"a":1}`))
	want := `{"run":"run","call":"call","key":"k","tool":"retail/think","seq":1,"input_sha256":"` +
		hex.EncodeToString(digest[:]) + `","time":"2024-05-15T15:00:00Z"}` + "\n"
	if string(text) != want {
		t.Errorf("the line is %s, want %s", text, want)
	}
}

func TestCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l := openLog(t, path)
	for _, id := range []string{"a/1", "a/2", "b/1", "a/2", "b/1", "b/1"} {
		run, call, _ := strings.Cut(id, "/")
		commit(t, l, run, call)
	}
	record := readLog(t, path)
	perCall := map[effectlog.CallID]int{{Run: "a", Call: "1"}: 1, {Run: "a", Call: "2"}: 2, {Run: "b", Call: "1"}: 3}
	if got := record.PerCall(); !reflect.DeepEqual(got, perCall) {
		t.Errorf("per call: %v", got)
	}
	repeated := []effectlog.CallID{{Run: "a", Call: "2"}, {Run: "b", Call: "1"}}
	if got := record.Repeated(); !reflect.DeepEqual(got, repeated) {
		t.Errorf("repeated: %v", got)
	}
}

func TestReopenedLogGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l := openLog(t, path)
	commit(t, l, "r", "1")
	commit(t, l, "r", "2")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Committed(tools.Commit{Run: "r"}); err == nil {
		t.Error("a closed log takes an effect")
	}
	commit(t, openLog(t, path), "r", "3")
	record := readLog(t, path)
	if n := len(record.Effects); n != 3 || record.Effects[2].Seq != 3 || record.Effects[2].Call != "3" {
		t.Errorf("the log holds %+v", record.Effects)
	}
}

// A line that was cut off must neither count nor spoil the next one.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l := openLog(t, path)
	commit(t, l, "r", "1")
	commit(t, l, "r", "2")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-10], 0o644); err != nil {
		t.Fatal(err)
	}
	if record := readLog(t, path); len(record.Effects) != 1 || record.Torn != 1 {
		t.Errorf("torn, the log holds %+v", record)
	}
	commit(t, openLog(t, path), "r", "3")
	record := readLog(t, path)
	if len(record.Effects) != 2 || record.Effects[1].Call != "3" || record.Torn != 1 {
		t.Errorf("afterwards, the log holds %+v", record)
	}
}

func TestConcurrentCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	l := openLog(t, path)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				if err := l.Committed(tools.Commit{Run: fmt.Sprint(i), Call: fmt.Sprint(j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	record := readLog(t, path)
	if len(record.Effects) != 400 || record.Torn != 0 || len(record.PerCall()) != 400 {
		t.Fatalf("%d effects, %d torn", len(record.Effects), record.Torn)
	}
	for i, e := range record.Effects {
		if e.Seq != int64(i+1) {
			t.Fatalf("effect %d has the number %d", i+1, e.Seq)
		}
	}
}

func TestUnusablePath(t *testing.T) {
	if _, err := effectlog.Open(t.TempDir(), clock); err == nil {
		t.Error("a folder was opened as a log")
	}
	if _, err := effectlog.ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing log was read")
	}
}
