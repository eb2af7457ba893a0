package corpus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
)

const lines = `{"domain":"tau-retail","run_id":"b","seq":2,"tool":"think","input":{ "thought": 1.0 },"output":"","is_error":false}
{"domain":"tau-airline","run_id":"a","seq":1,"tool":"made_up","input":"text","output":"cut…[+3 chars]","error_text":"Unknown action made_up","is_error":true,"replay":"same"}

{"domain":"tau-retail","run_id":"b","seq":1,"tool":"calculate","input":{},"output":"Error: no","is_error":true,"replay":"different","recovery_class":"transient","next_call_after_error":{"tool":"think","input":{},"user_spoke_between":true},"fixed_by":null}
{"domain":"mcp-work","run_id":"c","seq":1,"tool":"x","output":"Error: no","is_error":true,"replay":"same"}`

func read(t *testing.T) []corpus.Run {
	t.Helper()
	runs, err := corpus.Read(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestRead(t *testing.T) {
	runs := read(t)
	if len(runs) != 3 || len(runs[0]) != 2 || len(corpus.Calls(runs)) != 4 {
		t.Fatalf("runs: %+v", runs)
	}
	first, second, third := runs[0][0], runs[0][1], runs[1][0]
	if first.Seq != 1 || first.Ref() != "b#1" || second.Ref() != "b#2" || string(second.Input) != `{ "thought": 1.0 }` {
		t.Errorf("run b is %+v", runs[0])
	}
	if first.Class != corpus.Transient || first.Next == nil || !first.Next.UserSpoke || first.FixedBy != nil {
		t.Errorf("labels are %+v", first.Labels)
	}
	if first.Want() != "Error: no" || third.Want() != "Unknown action made_up" || third.FullTool() != "airline/made_up" {
		t.Errorf("wanted are %q and %q of %s", first.Want(), third.Want(), third.FullTool())
	}
}

func TestSelect(t *testing.T) {
	runs := corpus.Select(read(t), corpus.Call.Replays)
	if len(runs) != 1 || runs[0][0].Run != "a" {
		t.Errorf("selected %+v", runs)
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{":                                    "line 1",
		"\n" + `{"input":{}}`:                  "line 2: run_id is missing",
		`{"run_id":"a","domain":"tau-retail"}`: "line 1: input is missing",
		`{"run_id":1,"input":{}}`:              "line 1: run_id cannot be a number",
		`{"run_id":"a","is_error":true}`:       "line 1: tool is missing",
		`{"run_id":"a","fixed_by":{"tool":1}}`: "line 1: fixed_by.tool cannot be a number",
		strings.Repeat(" ", corpus.MaxLine):    "line 1 is longer than 16 MiB",
	} {
		if _, err := corpus.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v", text, err)
		}
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	if _, err := corpus.Open(folder); err == nil || !strings.Contains(err.Error(), "give the folder that holds") {
		t.Errorf("an empty folder gives %v", err)
	}
	file := filepath.Join(folder, corpus.File)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := corpus.Open(folder); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken file gives %v", err)
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if runs, err := corpus.Open(folder); err != nil || len(runs) != 3 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

func TestSameText(t *testing.T) {
	for _, c := range []struct {
		got, recorded string
		same          bool
	}{
		{"", "", true},
		{"Error: no", "Error: no", true},
		{"Error: no ", "Error: no", false},
		{"abcdéf", "abc…[+3 chars]", true},
		{"abcdéfg", "abc…[+3 chars]", false},
		{"abxdef", "abc…[+3 chars]", false},
		{"abc…[+3 chars]", "abc…[+3 chars]", false},
		{"a\nbc", "a\n…[+2 chars]", true},
		{"x", "…[+99999999999999999999 chars]", false},
	} {
		if same := corpus.SameText(c.got, c.recorded); same != c.same {
			t.Errorf("%q for %q: %t", c.got, c.recorded, same)
		}
	}
	if beginning, cut := corpus.IsCut("abc…[+3 chars]"); beginning != "abc" || !cut {
		t.Errorf("beginning %q, cut %t", beginning, cut)
	}
	if beginning, cut := corpus.IsCut("abc"); beginning != "abc" || cut {
		t.Errorf("beginning %q, cut %t", beginning, cut)
	}
}

// What is read has runs with calls, each with a ref of its own.
func FuzzRead(f *testing.F) {
	f.Add(lines)
	f.Add(`{"run_id":"a","input":null,"seq":-1}` + "\n" + `{"run_id":"a","input":1,"seq":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := corpus.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, run := range runs {
			refs := make(map[string]bool)
			for i, c := range run {
				refs[c.Ref()] = true
				if c.Run != run[0].Run || i > 0 && c.Seq < run[i-1].Seq {
					t.Fatalf("call %d of run %q is %+v", i, run[0].Run, c)
				}
			}
			if len(refs) != len(run) || len(run) == 0 {
				t.Fatalf("%d refs for %d calls", len(refs), len(run))
			}
		}
	})
}
