// Package corpustest finds the recorded calls for tests. They live outside the
// repository: in the folder that MULLIGAN_CORPUS names, else in shared/data
// beside the repository.
package corpustest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mulligan/examples/shop/corpus"
)

// Folder is where the recorded calls are. Without them it skips the test, and
// says so.
func Folder(t *testing.T) string {
	t.Helper()
	return filepath.Dir(File(t, corpus.File))
}

// File is a file of that folder; without it the test is skipped, and says so.
func File(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("MULLIGAN_CORPUS")
	if folder == "" {
		folder = filepath.Join(moduleRoot(t), "..", "shared", "data")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT CHECKED against the recorded calls: %s is not there; set MULLIGAN_CORPUS to the folder that holds %s, tool_schemas.jsonl and %s/",
			path, corpus.File, corpus.Data)
	}
	return path
}

// Runs are the runs of the shop of which a call is wanted.
func Runs(t *testing.T, wanted func(corpus.Call) bool) []corpus.Run {
	t.Helper()
	all, err := corpus.Open(Folder(t))
	if err != nil {
		t.Fatal(err)
	}
	return corpus.Select(all, wanted)
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = parent
	}
}
