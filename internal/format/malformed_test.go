package format_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mulligan/internal/form"
	"mulligan/internal/format"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

type malformed struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Raw         string          `json:"raw"`
	Expected    json.RawMessage `json:"expected"`
	Recoverable bool            `json:"recoverable"`
}

// recorded reads the recorded argument strings, which are kept beside the
// repository and are no part of it.
func recorded(t testing.TB) []malformed {
	t.Helper()
	dir := os.Getenv("MULLIGAN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "malformed_args.jsonl"))
	if err != nil {
		t.Skip("no recorded data: set MULLIGAN_CORPUS to the folder that holds malformed_args.jsonl")
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 32<<20)
	var out []malformed
	for sc.Scan() {
		var m malformed
		if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	if err := sc.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d lines, %v", len(out), err)
	}
	return out
}

// Whatever a model wrote for arguments reaches the pool byte for byte, and is
// then repaired without a word lost or invented, or ends with a text that says
// what to write instead. Several calls in one string are not taken apart: one
// id can be answered only once.
func TestMalformedArgumentsAreRepairedOrEndSoft(t *testing.T) {
	const most = 50 * time.Millisecond
	reflector := rules.New()
	repaired, soft := 0, 0
	var longest time.Duration
	for _, m := range recorded(t) {
		call := asArguments(t, m.Raw)
		c := recovery.Case{Tool: call.Tool, Effect: messages.Unsafe, Input: call.Input, Code: messages.CodeInvalidArguments, Error: "the input is not a JSON object"}
		var got recovery.Reflection
		spent := shortest(most, func() {
			asArguments(t, m.Raw)
			var err error
			if got, err = reflector.Analyse(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		})
		longest = max(longest, spent)
		if spent > most {
			t.Errorf("%s takes %v", m.ID, spent)
		}
		if !got.IsRecoverable {
			soft++
			if !strings.Contains(got.Correction.GuidanceText(), "as one JSON object; ") {
				t.Errorf("%s %s ends with %q", m.ID, m.Kind, got.Correction.GuidanceText())
			}
			continue
		}
		repaired++
		meant, err := form.Decode(got.Correction.ModifiedInput)
		if err != nil || !m.Recoverable {
			t.Errorf("%s %s would run with %s, from %q", m.ID, m.Kind, got.Correction.ModifiedInput, m.Raw)
		}
		if want, err := form.Decode(m.Expected); err == nil && !form.Equal(want, meant) && !form.Faithful(m.Raw, meant) {
			t.Errorf("%s %s would run with %s instead of %s", m.ID, m.Kind, got.Correction.ModifiedInput, m.Expected)
		}
	}
	t.Logf("%d repaired, %d end soft, the longest took %v", repaired, soft, longest)
	if repaired < 56 {
		t.Errorf("only %d are repaired", repaired)
	}
}

// asArguments reads a text as the arguments of a call, in both formats that
// write them so.
func asArguments(t *testing.T, raw string) messages.Submission {
	t.Helper()
	quoted, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	var call format.Call
	for _, line := range []string{
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":` + string(quoted) + `}}]}`,
		`{"type":"function_call","call_id":"a","name":"t","arguments":` + string(quoted) + `}`,
	} {
		l := format.Read([]byte(line), format.Auto)
		if len(l.Calls) != 1 || l.Calls[0].Err != nil || string(l.Calls[0].Input) != raw || l.Calls[0].IsJSON {
			t.Fatalf("%q reads as %+v", raw, l.Calls)
		}
		call = l.Calls[0]
	}
	return call.Submission
}

// shortest is the least time that f took, tried again while that is too much:
// the processor may have been with others.
func shortest(most time.Duration, f func()) time.Duration {
	least := time.Hour
	for range 20 {
		from := time.Now()
		f()
		if least = min(least, time.Since(from)); least <= most {
			break
		}
	}
	return least
}
