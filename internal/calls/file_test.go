package calls

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string, sequence bool) *File {
	t.Helper()
	f, err := Open(path, nil, format.Auto, sequence)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// callOf reads a call by itself.
func callOf(f *File, i int) (messages.Submission, error) { return (&reader{file: f}).call(i) }

func TestFileFindsItsLines(t *testing.T) {
	f := open(t, write(t, "\ufeff"+`{"tool":"a","input":{}}`+"\r\n\n  \t\n"+`{"tool":"b","input":{}}  `+"\n"+`{"tool":"c","input":{}}`), false)
	if f.Calls != 3 {
		t.Fatalf("%d entries: %+v", f.Calls, f.Lines)
	}
	for i, want := range []struct {
		tool string
		line int32
	}{{"a", 1}, {"b", 4}, {"c", 5}} {
		call, err := callOf(f, i)
		if err != nil || call.Tool != want.tool || f.Lines[i].Number != want.line {
			t.Errorf("entry %d: tool %q at line %d, err %v", i, call.Tool, f.Lines[i].Number, err)
		}
	}
}

func TestFileOfNoLinesAndFromStandardInput(t *testing.T) {
	if f := open(t, write(t, ""), false); f.Calls != 0 {
		t.Fatal("an empty file has entries")
	}
	f, err := Open("-", strings.NewReader(`{"tool":"a","input":{}}`), format.Auto, false)
	if err != nil {
		t.Fatal(err)
	}
	name := f.f.Name()
	if call, err := callOf(f, 0); err != nil || call.Tool != "a" {
		t.Fatalf("%+v, %v", call, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Fatal("the temporary file is still there")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), nil, format.Auto, false); err == nil {
		t.Fatal("a file that is not there was opened")
	}
}

func TestFileOfAFolder(t *testing.T) {
	if _, err := Open(t.TempDir(), nil, format.Auto, false); !errors.Is(err, ErrFolder) {
		t.Fatalf("err %v", err)
	}
}

// A line above the limit costs no memory for its length, is named, and leaves
// its siblings alone. One of exactly the limit is read.
func TestFileBoundsALine(t *testing.T) {
	head, tail := `{"tool":"a","input_text":"`, `"}`
	exact := head + strings.Repeat("x", MaxLine-len(head)-len(tail)) + tail
	f := open(t, write(t, exact+"\n"+head+strings.Repeat("y", MaxLine)+tail+"\n"+`{"tool":"b","input":{}}`), false)
	if f.Calls != 3 {
		t.Fatalf("%d entries", f.Calls)
	}
	if c, err := callOf(f, 0); err != nil || c.Tool != "a" {
		t.Fatalf("a line of the limit: %v", err)
	}
	if _, err := callOf(f, 1); err == nil || !strings.Contains(err.Error(), "line 2: is longer than 33554432 bytes") {
		t.Fatalf("err %v", err)
	}
	if c, err := callOf(f, 2); err != nil || c.Tool != "b" {
		t.Fatalf("its sibling: %+v, %v", c, err)
	}
}

func TestFileTellsRunsApart(t *testing.T) {
	var b bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&b, `{"tool":"a","input":{"run":"no"},"run":"%d"}`+"\n", i%40)
	}
	if f := open(t, write(t, b.String()), false); !f.ManyRuns || f.Runs != nil {
		t.Fatalf("40 runs: many %v, %v", f.ManyRuns, f.Runs)
	}
	f := open(t, write(t, `{"tool":"a","input":{},"r\u0075n":"x"}`+"\n"+`{"tool":"a","input":{}}`+"\n"+`{"tool":"a","input":{},"run":"x"}`), false)
	if fmt.Sprintf("%q", f.Runs) != `["x" ""]` {
		t.Fatalf("runs %q", f.Runs)
	}
}

func TestScanAgreesWithSplitting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("ab \r\n\n"))).Draw(t, "text")
		var got []string
		if err := scan(bytes.NewReader(text), func(e Line, line []byte) error {
			if !bytes.HasPrefix(text[e.Offset:], line) {
				t.Fatalf("line %d stands elsewhere than at %d", e.Number, e.Offset)
			}
			got = append(got, fmt.Sprintf("%d:%s", e.Number, line))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, l := range strings.Split(string(text), "\n") {
			if l = strings.TrimRight(l, " \t\r"); l != "" {
				want = append(want, fmt.Sprintf("%d:%s", i+1, l))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

// In sequence no call is taken before the one before it in its run has ended,
// and none is ever left behind.
func TestPlanKeepsTheSequenceOfEachRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 30).Draw(t, "runs")
		f := &File{}
		last := make(map[string]int32)
		for _, r := range runs {
			f.Calls++
			f.before, f.after = append(f.before, -1), append(f.after, -1)
			name := ""
			if r > 0 {
				name = fmt.Sprint(r)
			}
			f.noteRun(name, true, last)
		}
		p := newPlan(f, true)
		var open []int32
		done := 0
		for done < len(runs) {
			if i, ok := p.next(); ok && rapid.Bool().Draw(t, "take more") {
				open = append(open, i)
				continue
			} else if ok {
				open = append(open, i)
			}
			if len(open) == 0 {
				t.Fatalf("nothing is open and nothing may be taken after %d of %v", done, runs)
			}
			for a, i := range open {
				for _, j := range open[a+1:] {
					if runs[i] > 0 && runs[i] == runs[j] {
						t.Fatalf("%d and %d of run %d are open together", i, j, runs[i])
					}
				}
			}
			k := rapid.IntRange(0, len(open)-1).Draw(t, "ends")
			p.end(open[k])
			open = append(open[:k], open[k+1:]...)
			done++
		}
		if i, ok := p.next(); ok {
			t.Fatalf("%d was taken twice", i)
		}
	})
}
