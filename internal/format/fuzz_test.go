package format

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"mulligan/internal/fuzztest"
)

// Whatever a line is, it is read in bounded time into at least what refuses
// it, each of its faults can be told, and it is answered by one line of JSON
// with as many answers as it has calls.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/lines/*.txtar")
	if err != nil || len(paths) == 0 {
		f.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data, byte(0))
		f.Add(a.Files[0].Data, byte(2))
	}
	f.Fuzz(func(t *testing.T, line []byte, format byte) {
		asked := Formats()[int(format)%len(Formats())]
		var l Line
		fuzztest.Bounded(t, len(line), func() { l = Read(line, asked) })
		if n, own := Count(line, asked); n != len(l.Calls) || own != (l.Format == Mulligan) || n > MaxCalls {
			t.Fatalf("%d calls of %s, and Count says %d, %v", len(l.Calls), l.Format, n, own)
		}
		for _, c := range l.Calls {
			fuzztest.Told(t, c.Err)
			if c.Err == nil && (c.Tool == "" || c.Input == nil || c.IsJSON && !json.Valid(c.Input)) {
				t.Fatalf("%q was taken as %+v", line, c)
			}
		}
		if l.Format == Mulligan {
			if len(l.Calls) != 1 {
				t.Fatalf("%d calls of our own", len(l.Calls))
			}
			return
		}
		checkReply(t, l)
	})
}

// checkReply answers a line, in which each answer must be found again.
func checkReply(t *testing.T, l Line) {
	t.Helper()
	if asked := l.Format; asked == Auto || asked == "" {
		t.Fatalf("a line of format %q", asked)
	}
	answers := make([]Answer, len(l.Calls))
	for i := range answers {
		answers[i] = Answer{Output: []byte("«answer»"), IsError: i%2 == 0, Guidance: "advice"}
	}
	reply, err := l.Reply(answers)
	if err != nil || !json.Valid(reply) || bytes.ContainsAny(reply, "\r\n") {
		t.Fatalf("%q: %v", reply, err)
	}
	if n := bytes.Count(reply, []byte("«answer»")); n < len(answers) {
		t.Fatalf("%d answers of %d in %q", n, len(answers), reply)
	}
}
