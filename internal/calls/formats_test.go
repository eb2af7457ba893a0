package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"mulligan/internal/format"
	"mulligan/pkg/messages"
)

func toolCall(id, tool, arguments string) string {
	return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}`, id, tool, arguments)
}

func message(calls ...string) string {
	return `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func toolMessage(id, content string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, content)
}

// play runs a file of any format and gives what is printed.
func play(t *testing.T, ctx context.Context, pool Pool, path string, o Options) (string, Summary, error) {
	t.Helper()
	f := open(t, path, o.Sequence)
	j, err := OpenJournal(JournalPath(path), f, false)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var out bytes.Buffer
	s, err := Run(ctx, pool, f, j, &out, o)
	return out.String(), s, err
}

// mixed is a file in which an id occurs in several lines and twice in one.
func mixed() string {
	return strings.Join([]string{
		message(toolCall("call_1", "echo", "one"), toolCall("call_2", "fail", "two"), toolCall("call_1", "echo", "three")),
		`{"ref":"own","tool":"echo","input":{}}`,
		`{"role":"assistant","content":"nothing to do"}`,
		message(toolCall("call_1", "echo", "four"), `{"id":"call_2","type":"function"}`),
		`{"type":"tool_use","id":"call_1","name":"fail","input":{"a": 1.0}}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo"}}`,
		`{"strange":true}`,
	}, "\n") + "\n"
}

func mixedAnswers() []string {
	return []string{
		`[` + toolMessage("call_1", "one") + `,` + toolMessage("call_2", "two\n\nTry two.") + `,` + toolMessage("call_1", "three") + `]`,
		`{"ref":"own",`,
		`[]`,
		`[` + toolMessage("call_1", "four") + `,` + toolMessage("call_2", `line 4: tool_calls[1]: function is missing`) + `]`,
		`{"type":"tool_result","tool_use_id":"call_1","content":"{\"a\": 1.0}\n\nTry {\"a\": 1.0}.","is_error":true}`,
		`{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"{}"}],"isError":false}}`,
		`{"ref":"","call":"","run":"","status":"refused","is_error":true,"output":"line 7: is no call of a format that is known, but an object with the fields strange`,
	}
}

func endMixed(s messages.Submission) *messages.Result {
	if s.Tool == "fail" {
		return &messages.Result{Status: messages.Failed, IsError: true, Attempts: 1, Output: messages.Body{Inline: s.Input}, Reason: "no", Guidance: "Try " + string(s.Input) + "."}
	}
	return &messages.Result{Status: messages.Succeeded, Attempts: 1, Output: messages.Body{Inline: s.Input}}
}

func checkMixed(t *testing.T, printed string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	want := mixedAnswers()
	if len(lines) != len(want) {
		t.Fatalf("%d lines of %d:\n%s", len(lines), len(want), printed)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d\n is %s\nnot %s", i+1, lines[i], want[i])
		}
	}
}

// Each line is answered in its own format and its place, with one answer for
// each of its calls in their order, and the same id in two places is two calls.
func TestEachLineIsAnsweredInItsFormat(t *testing.T) {
	pool, path := newPool(), write(t, mixed())
	pool.end = endMixed
	printed, summary, err := play(t, t.Context(), pool, path, Options{Window: 2})
	if err != nil {
		t.Fatal(err)
	}
	checkMixed(t, printed)
	if want := (Summary{Submitted: 7, Succeeded: 5, Failed: 2, Refused: 2}); summary != want {
		t.Errorf("summary %+v", summary)
	}
	if len(pool.accepted) != 7 {
		t.Errorf("%d calls were accepted", len(pool.accepted))
	}
	again, _, err := play(t, t.Context(), newPool(), path, Options{})
	if err != nil || again != printed {
		t.Errorf("once more: %v\n%s", err, again)
	}
}

// A run that ended within a line goes on there: no call of it runs twice, and
// the line is printed when the last of its calls has ended.
func TestALineOfSeveralCallsIsResumed(t *testing.T) {
	pool, path := newPool(), write(t, mixed())
	held := make(map[string]messages.Submission)
	pool.end = func(s messages.Submission) *messages.Result {
		if string(s.Input) == "three" || string(s.Input) == "four" {
			held[s.Call] = s
			return nil
		}
		return endMixed(s)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	cause := errors.New("enough")
	printed, _, err := play(t, ctx, pool, path, Options{Progress: func(s Summary) {
		if s.Ended() == 7 {
			stop(cause)
		}
	}})
	if !errors.Is(err, cause) || printed != "" {
		t.Fatalf("%v, printed %q", err, printed)
	}
	pool.mu.Lock()
	for _, s := range held {
		pool.finish("", s, *endMixed(s))
		pool.results[len(pool.results)-1].Run = pool.results[0].Run
	}
	pool.end = endMixed
	pool.mu.Unlock()
	printed, _, err = play(t, t.Context(), pool, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkMixed(t, printed)
	for call, n := range pool.runs {
		if n != 1 {
			t.Errorf("call %s ran %d times", call, n)
		}
	}
	if len(pool.runs) != 7 {
		t.Errorf("%d calls ran", len(pool.runs))
	}
}

// As they end, a line comes when the last of its calls has ended, and one that
// calls nothing before all others; a journal that is complete gives the same.
func TestLinesAsTheyEnd(t *testing.T) {
	pool, path := newPool(), write(t, strings.Join([]string{
		message(toolCall("a", "echo", "first"), toolCall("b", "hold", "last")),
		message(toolCall("c", "echo", "middle")),
		`{"role":"assistant","content":"nothing"}`,
	}, "\n"))
	var held messages.Submission
	n := 0
	pool.end = func(s messages.Submission) *messages.Result {
		if n++; s.Tool == "hold" {
			held = s
			return nil
		}
		if n == 3 {
			go func() {
				pool.mu.Lock()
				defer pool.mu.Unlock()
				pool.finish("", held, messages.Result{Status: messages.Succeeded, Output: messages.Body{Inline: held.Input}})
				pool.results[len(pool.results)-1].Run = pool.results[0].Run
			}()
		}
		return &messages.Result{Status: messages.Succeeded, Output: messages.Body{Inline: s.Input}}
	}
	want := "[]\n[" + toolMessage("c", "middle") + "]\n[" + toolMessage("a", "first") + "," + toolMessage("b", "last") + "]\n"
	for _, when := range []string{"at first", "once more"} {
		printed, _, err := play(t, t.Context(), pool, path, Options{Order: OrderDone})
		if err != nil || printed != want {
			t.Fatalf("%s: %v\n%s", when, err, printed)
		}
	}
}

// In sequence, the calls of other formats belong to no run, and wait for nobody.
func TestFilesWithoutAnyCall(t *testing.T) {
	printed, summary, err := play(t, t.Context(), newPool(), write(t, `{"role":"assistant","content":"nothing"}`+"\n"), Options{Sequence: true})
	if err != nil || printed != "[]\n" || summary != (Summary{}) {
		t.Fatalf("%v, %+v, %q", err, summary, printed)
	}
}

// Under another format a file may hold other calls than its journal tells of.
func TestAJournalBelongsToItsFormat(t *testing.T) {
	path := write(t, message(toolCall("a", "echo", "x"))+"\n")
	if _, _, err := play(t, t.Context(), newPool(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	for asked, fine := range map[format.Format]bool{format.Auto: true, format.OpenAIChat: false} {
		f, err := Open(path, nil, asked, false)
		if err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(JournalPath(path), f, false)
		if fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "--format auto") {
			t.Errorf("%s: %v", asked, err)
		}
		if err == nil {
			_ = j.Close()
		}
		_ = f.Close()
	}
}

// A file that is changed while it runs must not answer other calls than it asked.
func TestALineThatChangesIsTold(t *testing.T) {
	path := write(t, message(toolCall("a", "echo", "x"))+"\n")
	f := open(t, path, false)
	if err := os.WriteFile(path, []byte(strings.Replace(message(toolCall("a", "echo", "x")), "tool_calls", "tool_cells", 1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := callOf(f, 0); err == nil || !strings.Contains(err.Error(), "has changed while it was read") {
		t.Errorf("%v", err)
	}
}
