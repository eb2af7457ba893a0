package format

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the lines of testdata give")

// Each fixture holds a line as a provider's library types it, which calls it
// is, and how they are answered: when all succeed, and when all fail.
func TestLines(t *testing.T) {
	paths, err := filepath.Glob("testdata/lines/*.txtar")
	if err != nil || len(paths) < 50 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := txtar.Format(a)
			line := bytes.TrimSuffix(a.Files[0].Data, []byte{'\n'})
			a.Files = append(a.Files[:1:1], written(t, line, Format(a.Files[0].Name))...)
			got := txtar.Format(a)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func written(t *testing.T, line []byte, f Format) []txtar.File {
	t.Helper()
	l := Read(line, f)
	if n, own := Count(line, f); n != len(l.Calls) || own != (l.Format == Mulligan) {
		t.Errorf("Count says %d, %v", n, own)
	}
	var calls strings.Builder
	for _, c := range l.Calls {
		kind := "text"
		if c.IsJSON {
			kind = "json"
		}
		fmt.Fprintf(&calls, "%q calls %q with %s %q\n", c.Ref, c.Tool, kind, c.Input)
		if c.Err != nil {
			fmt.Fprintf(&calls, "  refused: %v\n", c.Err)
		}
	}
	files := []txtar.File{{Name: "calls of " + string(l.Format), Data: []byte(calls.String())}}
	if l.Format == Mulligan {
		return files
	}
	var well, badly []Answer
	for i := range l.Calls {
		well = append(well, Answer{Output: fmt.Appendf(nil, "<%d> \"fine\"\n", i), Reason: "r", Guidance: "g"})
		badly = append(badly, Answer{Output: fmt.Appendf(nil, "bad %d", i), IsError: true, Reason: "because", Guidance: fmt.Sprintf("Do %d.", i)})
	}
	for _, as := range []struct {
		name    string
		answers []Answer
	}{{"succeeded", well}, {"failed", badly}} {
		b, err := l.Reply(as.answers)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: as.name, Data: append(b, '\n')})
	}
	return files
}
