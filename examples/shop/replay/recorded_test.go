package replay_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/replay"
	"mulligan/internal/calls"
	"mulligan/pkg/messages"
)

// recording is one run with a call of each kind.
func recording(t *testing.T) []corpus.Call {
	t.Helper()
	runs, err := corpus.Read(strings.NewReader(`{"domain":"tau-retail","run_id":"r","seq":1,"tool":"think","input":{"thought": 1.0},"output":"","is_error":false}
{"domain":"tau-retail","run_id":"r","seq":2,"tool":"search","input":{},"output":"Unknown","error_text":"Unknown action search","is_error":true,"replay":"same"}
{"domain":"tau-retail","run_id":"r","seq":3,"tool":"calculate","input":{},"output":"Error","error_text":"Error: lo…[+2 chars]","is_error":true,"replay":"same"}
{"domain":"tau-retail","run_id":"r","seq":4,"tool":"get_order_details","input":{},"output":"{\"…[+9 chars]","is_error":false}
{"domain":"tau-retail","run_id":"r","seq":5,"tool":"` + strings.Repeat("x", 600) + `","input":{},"output":"","is_error":false}`))
	if err != nil {
		t.Fatal(err)
	}
	return corpus.Calls(runs)
}

func answer(status messages.Status, output string) calls.Result {
	return calls.Result{Status: status, IsError: status != messages.Succeeded, Output: &output}
}

func TestSubmissions(t *testing.T) {
	s := replay.Submissions(recording(t))[0]
	if s.Ref != "r#1" || s.Run != "r" || s.Tool != "retail/think" || string(s.Input) != `{"thought": 1.0}` {
		t.Errorf("submitted is %+v", s)
	}
	if also := replay.UnknownTools(recording(t)); !slices.Equal(also, []string{"retail/search"}) {
		t.Errorf("unknown tools are %q", also)
	}
}

func TestCompare(t *testing.T) {
	asRecorded := []calls.Result{
		answer(messages.Succeeded, ""), answer(messages.Failed, "Unknown action search"), answer(messages.Failed, "Error: long"),
		answer(messages.Succeeded, `{"123456789`), answer(messages.Refused, "tool is 600 bytes long"),
	}
	c := replay.Compare(recording(t), asRecorded)
	if c.Calls != 5 || c.Failures != 2 || c.CutShort != 1 || len(c.Differences) != 0 || c.OthersSame != 2 || len(c.OthersOther) != 1 {
		t.Errorf("compared: %+v", c)
	}
	for name, other := range map[string]calls.Result{
		"another text":     answer(messages.Failed, "Unknown action search "),
		"a success":        answer(messages.Succeeded, "Unknown action search"),
		"a refusal":        {Status: messages.Refused, IsError: true, Code: messages.CodeUnknownTool, Output: asRecorded[1].Output},
		"another end":      answer(messages.StatusUnknown, "Unknown action search"),
		"bytes, no output": {Status: messages.Failed, IsError: true, OutputBase64: []byte{255}},
	} {
		lines := slices.Clone(asRecorded)
		lines[1] = other
		c := replay.Compare(recording(t), lines)
		if c.Failures != 2 || len(c.Differences) != 1 || c.Differences[0].Call.Ref() != "r#2" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestComparisonPrinted(t *testing.T) {
	lines := []calls.Result{
		answer(messages.Succeeded, "else"), {Status: messages.Refused, IsError: true, Code: messages.CodeUnknownTool, Output: new("tool 'retail/search' is not available")},
		{Status: messages.Failed, IsError: true, OutputBase64: []byte{255}}, answer(messages.Succeeded, `{"123456789`), answer(messages.Expired, "late"),
	}
	c := replay.Compare(recording(t), lines)
	var text strings.Builder
	if err := c.Print(&text, false); err != nil {
		t.Fatal(err)
	}
	want := `DIFFERENCE: r#2, retail/search
  recorded: "Unknown action search", error true
  now:      "tool 'retail/search' is not available", error true
  why:      Mulligan refused the call (unknown_tool), so that the shop was not asked
DIFFERENCE: r#3, retail/calculate
  recorded: "Error: lo…[+2 chars]", error true
  now:      1 bytes that are no text
other calls: 1 answered as recorded, by beginning and length where no more was recorded; 2 otherwise
of 2 failures 1 were recorded by their beginning and length only, and compared so
recorded: 5 calls, 2 failures, 2 differences
`
	if text.String() != want {
		t.Errorf("printed is\n%s", text.String())
	}
	text.Reset()
	if err := c.Print(&text, true); err != nil || !strings.HasPrefix(text.String(), "another answer: r#1, retail/think\n") {
		t.Errorf("%v, printed is\n%s", err, text.String())
	}
	if err := c.Print(broken{}, true); !errors.Is(err, errBroken) {
		t.Errorf("a broken pipe gives %v", err)
	}
}

func TestDifferencesAreExplained(t *testing.T) {
	c := recording(t)[1:2]
	for why, change := range map[string]func(*corpus.Call, *calls.Result){
		"":                             func(*corpus.Call, *calls.Result) {},
		"the call ended unknown: lost": func(_ *corpus.Call, r *calls.Result) { r.Status, r.Reason = messages.StatusUnknown, "lost" },
		"only the beginning of its input was recorded":                             func(c *corpus.Call, _ *calls.Result) { c.InputCut = true },
		"the arguments are no JSON object, and Mulligan gives no others to a tool": func(c *corpus.Call, _ *calls.Result) { c.Input = []byte(`"{}"`) },
	} {
		call, line := c[0], answer(messages.Failed, "else")
		change(&call, &line)
		var text strings.Builder
		if err := replay.Compare([]corpus.Call{call}, []calls.Result{line}).Print(&text, false); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(text.String(), "why:"); has != (why != "") || !strings.Contains(text.String(), why) {
			t.Errorf("%q: printed is\n%s", why, text.String())
		}
	}
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
