//go:build unix

package calls

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A named pipe and an inherited descriptor, as of a shell's <(…), are read
// through a temporary file, and no later run can find them again.
func TestFileFromAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(echo(3)), 0o600) }()
	f := open(t, pipe, false)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if c, err := callOf(f, 2); err != nil || c.Tool != "echo" || !f.Once {
		t.Fatalf("%+v, %v, once %v", c, err, f.Once)
	}
	if f := open(t, os.DevNull, false); f.Calls != 0 || !f.Once {
		t.Fatalf("%d entries, once %v", f.Calls, f.Once)
	}
	if !descriptor("/dev/fd/63") || !descriptor("/dev/stdin") || descriptor("/dev/shm/calls.jsonl") {
		t.Fatal("a descriptor is not told from a file")
	}
}
