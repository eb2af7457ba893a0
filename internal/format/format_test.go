package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mulligan/pkg/messages"
)

func TestTextIsTheToolsWordsAndWhatWasFoundOut(t *testing.T) {
	for _, c := range []struct {
		a    Answer
		want string
	}{
		{Answer{Output: []byte(" <out>\n"), Reason: "r", Guidance: "g"}, " <out>\n"},
		{Answer{Output: []byte("bad\n"), IsError: true, Reason: "r", Guidance: "g"}, "bad\n\n\ng"},
		{Answer{Output: []byte("bad"), IsError: true, Reason: "r"}, "bad\n\nr"},
		{Answer{Output: []byte("bad"), IsError: true, Reason: "bad"}, "bad"},
		{Answer{Output: []byte("bad"), IsError: true}, "bad"},
		{Answer{IsError: true, Guidance: "g"}, "g"},
		{Answer{Output: []byte("a\xff")}, "The output is no text; its 2 bytes in base64: Yf8="},
	} {
		if got := c.a.Text(); got != c.want {
			t.Errorf("%+v reads %q, want %q", c.a, got, c.want)
		}
	}
}

// Whatever bytes of text a tool said come out of each format as they were.
func TestWordsComeBackByteForByte(t *testing.T) {
	words := "\u2028<&>\"\\\x00\x7f\té😀\r\n"
	for format, line := range map[Format]string{
		OpenAIChat:      `{"id":"a","type":"function","function":{"name":"t","arguments":"{}"}}`,
		OpenAIResponses: `{"type":"function_call","call_id":"a","name":"t","arguments":"{}"}`,
		Anthropic:       `{"type":"tool_use","id":"a","name":"t","input":{}}`,
		MCP:             `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`,
	} {
		reply, err := Read([]byte(line), format).Reply([]Answer{{Output: []byte(words)}})
		if err != nil {
			t.Fatal(err)
		}
		var back struct {
			Content any
			Output  string
			Result  struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(reply, &back); err != nil {
			t.Fatal(err)
		}
		got := back.Output
		if s, ok := back.Content.(string); ok {
			got = s
		}
		if len(back.Result.Content) > 0 {
			got = back.Result.Content[0].Text
		}
		if got != words {
			t.Errorf("%s: %q came back as %q", format, words, got)
		}
	}
}

func TestReplyWantsAnAnswerForEachCall(t *testing.T) {
	l := Read([]byte(`[{"type":"tool_use","id":"a","name":"t","input":{}}]`), Auto)
	if _, err := l.Reply(nil); err == nil {
		t.Error("a call was left without an answer")
	}
	if _, err := Read([]byte(`{"tool":"t","input":{}}`), Auto).Reply(make([]Answer, 1)); err == nil {
		t.Error("a line of our own was answered by another's")
	}
}

func TestALineHoldsSoManyCalls(t *testing.T) {
	block := `{"type":"tool_use","id":"a","name":"t","input":{}}`
	if l := Read([]byte("["+block+strings.Repeat(","+block, MaxCalls-1)+"]"), Auto); len(l.Calls) != MaxCalls || l.Format != Anthropic {
		t.Errorf("%d calls of %s", len(l.Calls), l.Format)
	}
	l := Read([]byte("["+block+strings.Repeat(","+block, MaxCalls)+"]"), Auto)
	if len(l.Calls) != 1 || l.Calls[0].Err == nil || !strings.Contains(l.Calls[0].Err.Error(), "holds 1001 calls") {
		t.Errorf("%d calls: %v", len(l.Calls), l.Calls[0].Err)
	}
}

// An id may be longer than a ref: the ref is cut, the answer echoes it whole.
func TestALongIDIsEchoedWhole(t *testing.T) {
	id := strings.Repeat("i", 3*messages.MaxName)
	l := Read(fmt.Appendf(nil, `{"type":"function_call","call_id":%q,"name":"t","arguments":""}`, id), Auto)
	if c := l.Calls[0]; c.Err != nil || len(c.Ref) > messages.MaxName {
		t.Errorf("a ref of %d bytes, %v", len(c.Ref), c.Err)
	}
	reply, err := l.Reply(make([]Answer, 1))
	if err != nil || !strings.Contains(string(reply), id) {
		t.Errorf("%v: %s", err, reply)
	}
}
