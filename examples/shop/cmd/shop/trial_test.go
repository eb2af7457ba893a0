package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/corpus/corpustest"
	"mulligan/examples/shop/data"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
)

// recordedHere records calls on the shop's own tables, outside of any pool, in
// the form of a corpus. change may damage a line.
func recordedHere(t *testing.T, calls [][2]string, change func(i int, c *corpus.Call)) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, corpus.Data), data.Small()); err != nil {
		t.Fatal(err)
	}
	db, err := store.Load(data.Small())
	if err != nil {
		t.Fatal(err)
	}
	shop := tools.New(store.NewRuns(db, 1), nil)
	var lines bytes.Buffer
	for i, call := range calls {
		c := corpus.Call{Domain: "tau-retail", Run: "recorded/here", Seq: i + 1, Tool: call[0], Input: []byte(call[1])}
		c.Output, c.IsError = shop.Call("r", c.FullTool(), c.Input)
		if c.IsError {
			c.ErrorText, c.Replay = c.Output, "same"
		}
		if change != nil {
			change(i, &c)
		}
		if err := json.NewEncoder(&lines).Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, corpus.File), lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// script holds a call of each kind: one that changes, one that fails since it
// did, one of a tool that an agent made up, one with wrong arguments.
func script() [][2]string {
	return [][2]string{
		{"cancel_pending_order", `{"order_id":"#W1000001","reason":"no longer needed"}`},
		{"cancel_pending_order", `{"order_id":"#W1000001","reason":"no longer needed"}`},
		{"search <orders>", `{"q":"é"}`},
		{"get_order_details", `{"id":"#W1000001"}`},
		{"get_order_details", `{"order_id":"#W1000001"}`},
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestRecordedHere(t *testing.T) {
	t.Parallel()
	folder := recordedHere(t, script(), nil)
	code, stdout, stderr := runWith(t.Context(), "recorded", "--corpus", folder)
	if code != exitOK || lastLine(stdout) != "recorded: 5 calls, 3 failures, 0 differences" || !strings.Contains(stdout, "1 of their tools the shop does not have") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout, "other calls: 2 answered as recorded") {
		t.Errorf("printed is %s", stdout)
	}
}

// With schemas, wrong arguments are answered by Mulligan, in its own words.
func TestRecordedWithSchemas(t *testing.T) {
	t.Parallel()
	keep := filepath.Join(t.TempDir(), "kept")
	code, stdout, stderr := runWith(t.Context(), "recorded", "--corpus", recordedHere(t, script(), nil), "--schemas", "--keep", keep)
	if code != exitFailed || lastLine(stdout) != "recorded: 5 calls, 3 failures, 1 differences" || !strings.Contains(stdout, "DIFFERENCE: recorded/here#4") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(keep, "results.jsonl")); err != nil || !strings.Contains(stderr, keep) {
		t.Errorf("%v; told is %s", err, stderr)
	}
	if code, _, stderr := runWith(t.Context(), "recorded", "--corpus", t.TempDir(), "--keep", keep); code != exitFailed {
		t.Errorf("a folder without recorded calls: exit %d, %s", code, stderr)
	}
}

// What cannot be as recorded is told, and is no crash: another text, arguments
// that never reach a tool, a name that no tool can have.
func TestRecordedDifferences(t *testing.T) {
	t.Parallel()
	folder := recordedHere(t, script(), func(i int, c *corpus.Call) {
		switch i {
		case 1:
			c.ErrorText += "!"
		case 2:
			c.Tool = strings.Repeat("x", 600)
		case 3:
			c.Input = []byte(`["no object"]`)
		}
	})
	code, stdout, stderr := runWith(t.Context(), "recorded", "--corpus", folder, "--keep", t.TempDir())
	if code != exitFailed || lastLine(stdout) != "recorded: 5 calls, 3 failures, 3 differences" {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	for _, why := range []string{`cancelled!"`, "Mulligan refused the call (bad_call)", "the arguments are no JSON object"} {
		if !strings.Contains(stdout, why) {
			t.Errorf("%q is not told in %s", why, stdout)
		}
	}
}

func TestRecordedCorpus(t *testing.T) {
	folder := corpustest.Folder(t)
	t.Parallel()
	code, stdout, stderr := runWith(t.Context(), "recorded", "--corpus", folder)
	t.Log(stdout)
	if code != exitOK || !regexp.MustCompile(`^recorded: [1-9]\d* calls, [1-9]\d* failures, 0 differences$`).MatchString(lastLine(stdout)) {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestFaultsOnSample(t *testing.T) {
	t.Parallel()
	checkFaults(t, "--sample", "16", "--timeout", "1s")
}

func TestFaultsOnCorpus(t *testing.T) {
	folder := corpustest.Folder(t)
	t.Parallel()
	checkFaults(t, "--corpus", folder, "--timeout", "500ms", "--retries", "3")
}

// checkFaults wants a run in which faults struck, calls recovered, answers were
// lost, two workers worked, and no promise was broken.
func checkFaults(t *testing.T, args ...string) {
	t.Helper()
	code, stdout, stderr := runWith(t.Context(), append([]string{"faults"}, args...)...)
	t.Log(stdout)
	counts := regexp.MustCompile(`^faults: (\d+) calls, (\d+) recovered, (\d+) unknown, 0 violations$`).FindStringSubmatch(lastLine(stdout))
	if code != exitOK || counts == nil {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for i, what := range []string{"calls", "recovered", "unknown"} {
		if n, err := strconv.Atoi(counts[i+1]); err != nil || n == 0 {
			t.Errorf("%s: %s", what, counts[i+1])
		}
	}
	if !strings.Contains(stdout, "2 workers ran something") {
		t.Error("one worker did everything")
	}
}

func TestTrialUsage(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := recordedHere(t, script(), nil)
	tame := recordedHere(t, script()[:1], nil)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"recorded"}, exitUsage, "--corpus is missing"},
		{[]string{"recorded", "--corpus", full}, exitFailed, "give the folder that holds " + corpus.File},
		{[]string{"recorded", "--corpus", tame}, exitFailed, "nothing to compare"},
		{[]string{"recorded", "--corpus", good, "--keep", full}, exitFailed, "is not empty"},
		{[]string{"faults", "--before", "2"}, exitUsage, "not between 0 and 1"},
		{[]string{"faults", "--workers", "0"}, exitUsage, "--workers"},
		{[]string{"faults", "--coordinators", "-1"}, exitUsage, "--coordinators"},
		{[]string{"faults", "--sample", "0"}, exitUsage, "--sample"},
		{[]string{"faults", "--retries", "-1"}, exitUsage, "--retries"},
		{[]string{"faults", "--timeout", "1ms"}, exitUsage, "--timeout"},
		{[]string{"worker"}, exitUsage, "say where the shop is"},
		{[]string{"worker", "--help"}, exitOK, "shop worker [flags]"},
		{[]string{"worker", "--nope"}, exitUsage, "see shop worker --help"},
		{[]string{"worker", "--shop", "here"}, exitUsage, `"here" is no URL`},
		{[]string{"worker", "--shop", "http://127.0.0.1:1", "--shop-addr-file", "x"}, exitUsage, "give one of"},
		{[]string{"worker", "--shop-addr-file", filepath.Join(full, "none")}, exitUsage, "address of the shop"},
		{[]string{"worker", "--shop", "http://127.0.0.1:1", "--also", "hotel/x"}, exitUsage, "has no domain of the shop"},
	} {
		code, stdout, stderr := command(t, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("shop %q: exit %d, %s%s", c.args, code, stdout, stderr)
		}
	}
}
