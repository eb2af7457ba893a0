package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/internal/format"
	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// A file is cut into its lines whatever is in it: each that is not blank has
// the calls that it has by itself, and a fault is told of that line alone.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"\ufeff{\"tool\":\"a\",\"input\":{}}\r\n\n \t\n{\"tool\":\"b\",\"run\":\"r\",\"input\":{}}  \n{\"tool\":\"c\",\"run\":\"r\",\"input\":{}}",
		"\n\n", "\r", "\xff\n{", `{"tool":"t","\u0072un":"r","input":1}`, `{"` + strings.Repeat("x", 3000) + `":1}`, `{"` + strings.Repeat("x", 3000) + `":1,"` + strings.Repeat("x", 3000) + `":2}`, `{"` + strings.Repeat("x", 3000) + `":}`, `{"tool":"t","timeout_ms":` + strings.Repeat("9", 3000) + `}`,
		`{"tool":"t","labels":{"` + strings.Repeat("k", 3000) + `":1},"input":1}`, `{"tool":"t","policy":{"max_retries":1,"max_retries":2},"input":1}`,
		`{"role":"assistant","content":"done"}` + "\n" + `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{"}},{"id":"1"}]}` + "\n" + `{"tool":"t","input":{}}`,
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "calls.jsonl")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		fuzztest.Bounded(t, len(content), func() { checkFile(t, path, content) })
	})
}

func checkFile(t *testing.T, path string, content []byte) {
	t.Helper()
	file, err := Open(path, nil, format.Auto, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var want [][]byte
	for line := range bytes.SplitSeq(bytes.TrimPrefix(content, byteOrderMark), []byte{'\n'}) {
		if line = bytes.TrimRight(line, " \t\r"); len(line) > 0 {
			want = append(want, line)
		}
	}
	if len(file.Lines) != len(want) || file.Size != int64(len(content)) {
		t.Fatalf("%d of %d lines, %d bytes of %d", len(file.Lines), len(want), file.Size, len(content))
	}
	i := 0
	for n, line := range want {
		meant := format.Read(line, format.Auto)
		if first, end := file.Span(n); first != i || end != i+len(meant.Calls) || file.Lines[n].Own != (meant.Format == format.Mulligan) {
			t.Fatalf("line %q is of %s with %d calls, and has those from %d to %d", line, meant.Format, len(meant.Calls), first, end)
		}
		for _, c := range meant.Calls {
			checkCall(t, file, n, i, c)
			i++
		}
	}
	if i != file.Calls {
		t.Fatalf("%d calls of %d", file.Calls, i)
	}
}

func checkCall(t *testing.T, file *File, n, i int, meant format.Call) {
	t.Helper()
	call, err := callOf(file, i)
	var told *LineError
	if (err == nil) != (meant.Err == nil) || err != nil && (!errors.As(err, &told) || told.Line != int(file.Lines[n].Number)) {
		t.Fatalf("call %d of line %d: %v, and by itself %v", i, n, err, meant.Err)
	}
	fuzztest.Told(t, err)
	if call.Ref != meant.Ref || call.Run != meant.Run || call.Tool != meant.Tool || !bytes.Equal(call.Input, meant.Input) {
		t.Fatalf("call %d of line %d reads as %+v", i, n, call)
	}
	if file.LineOf(i) != n {
		t.Fatalf("call %d is found in line %d, and stands in %d", i, file.LineOf(i), n)
	}
	if b := file.before[i]; b >= 0 && (file.after[b] != int32(i) || call.Run == "") {
		t.Fatalf("call %d follows %d, which is followed by %d", i, b, file.after[b])
	}
}

// What stands where a journal should is used, refused, or cut where its last
// line broke off; it is never lost, and a result that it gives is the one that
// was read.
func FuzzJournal(f *testing.F) {
	const calls = `{"tool":"a","input":{}}` + "\n" + `{"tool":"b","input":{}}` + "\n"
	folder := f.TempDir()
	of, at := filepath.Join(folder, "calls.jsonl"), filepath.Join(folder, "journal")
	if err := os.WriteFile(of, []byte(calls), 0o600); err != nil {
		f.Fatal(err)
	}
	file, err := Open(of, nil, format.Auto, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = file.Close() })
	head, err := json.Marshal(Header{Version: 1, File: "calls.jsonl", Size: file.Size, Digest: file.Digest, Calls: 2, Batch: "b"})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"", `{"mull`, "\n", "a file of somebody\n", string(head), string(head) + "\n", string(head) + "\n" + `{"session":1}` + "\n" + `{"sent":[{"i":0,"call":"x"}]}` + "\n" + `{"accepted":[0]}` + "\n" + `{"done":0,"result":{"ref":"r","status":"succeeded"}}` + "\n" + `{"done":1,"re`,
		string(head) + "\n" + `{"result":{"status":"failed"},"done":0}` + "\n", string(head) + "\n" + `{"done":0,"Result":{"status":"failed"}}` + "\n",
		string(head) + "\n" + `{"done":0,"result":{"ref":"\"result\":"} }` + "\n", string(head) + "\n" + `{"sent":[{"i":7,"call":"x"}]}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var j *Journal
		fuzztest.Bounded(t, len(content), func() {
			if j != nil {
				_ = j.Close()
			}
			j, err = OpenJournal(at, file, false)
		})
		if err != nil {
			fuzztest.Told(t, err)
			if kept, err := os.ReadFile(at); err != nil || !bytes.HasPrefix(content, kept) || bytes.Count(kept, []byte{'\n'}) != bytes.Count(content, []byte{'\n'}) {
				t.Fatalf("of a file that is refused %q is left, %v", kept, err)
			}
			return
		}
		defer func() { _ = j.Close() }()
		for i, s := range j.past.done {
			if s.length == 0 {
				continue
			}
			line, err := j.line(s, nil)
			var r Result
			if err != nil || json.Unmarshal(line, &r) != nil {
				t.Fatalf("the result of call %d is %q, %v", i, line, err)
			}
			if statusIndex(r.Status) != s.status {
				t.Fatalf("a result of status %q was counted as %s", r.Status, statuses()[s.status])
			}
		}
		written, err := j.done(1, Result{Ref: "r", Status: messages.Failed})
		if err != nil {
			t.Fatal(err)
		}
		if line, err := j.line(written, nil); err != nil || !strings.Contains(string(line), `"ref":"r"`) {
			t.Fatalf("%q, %v", line, err)
		}
	})
}

func TestAResultThatStandsInALineOfAnotherFormIsDamage(t *testing.T) {
	for _, line := range []string{`{"result":{"status":"failed"},"done":0}`, `{"done":0,"Result":{"status":"failed"}}`, `{"done":0,"result":{},"more":1}`} {
		p := past{}
		if err := p.add([]byte(line), 0, 1); err == nil || len(p.done) > 0 {
			t.Errorf("%s was taken as %+v", line, p.done)
		}
	}
}
