package messages_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

// oddInputs are what a reader that parses and writes again would change.
var oddInputs = []string{
	``,
	`{}`,
	` {"a": 1}`,
	`{"a": 1} `,
	"{\"a\":\t1 ,  \"b\" :2}",
	"{\n  \"a\": 1\n}",
	"{\"a\":1}\r\n",
	`{"id": 9007199254740993, "price": 1.10, "huge": 1e400}`,
	`{"a": 1, "a": 2, "A": 3}`,
	`{"html": "<b>&amp;</b>"}`,
	"{\"sep\": \"\u2028\u2029\"}",
	`{"esc": "\u003c\/\ud83d\ude00", "lone": "\ud800"}`,
	`null`,
	`[1, 2]`,
	`"text"`,
	`0.10`,
	`{'not': json,}`,
	`{"cut": "of`,
	"\x00\x01",
	"\ufeff{}",
}

func TestInputSurvivesByteForByte(t *testing.T) {
	for _, in := range oddInputs {
		checkInput(t, in)
	}
	rapid.Check(t, func(t *rapid.T) { checkInput(t, anyText().Draw(t, "input")) })
}

func checkInput(t fataler, in string) {
	t.Helper()
	s := messages.Submission{Call: callID, Tool: "echo", Input: []byte(in)}
	b, err := messages.EncodeChunk(messages.Chunk{Batch: batchID, Calls: []messages.Submission{s, s}})
	if err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	c, err := messages.DecodeChunk(b)
	if err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	for _, got := range c.Calls {
		if string(got.Input) != in {
			t.Fatalf("chunk: sent %q, received %q", in, got.Input)
		}
	}
	b, err = json.Marshal(s)
	if err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	var got messages.Submission
	if err := json.Unmarshal(b, &got); err != nil || string(got.Input) != in {
		t.Fatalf("json.Marshal: sent %q, received %q, %v", in, got.Input, err)
	}
	call := exampleCall()
	call.Input = messages.Text(in)
	if m := pool.EncodeCall(call); string(m.Body) != in {
		t.Fatalf("call: sent %q, travels as %q", in, m.Body)
	}
}

func TestJSONInputStandsAsItIs(t *testing.T) {
	in := `{"id": 9007199254740993, "html": "<b>"}`
	b, err := messages.Submission{Tool: "echo", Input: []byte(in)}.AppendJSON([]byte("before"))
	if err != nil || string(b) != `before{"tool":"echo","input":`+in+`}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestSubmissionRefusesWhatJSONWouldChange(t *testing.T) {
	bad := "a\xffb"
	for name, s := range map[string]messages.Submission{
		"input": {Input: []byte(`{"a":"` + bad + `"}`)}, "ref": {Ref: bad}, "run": {Run: bad}, "tool": {Tool: bad}, "task": {Task: bad}, "label": {Labels: messages.Labels{"k": bad}},
	} {
		if b, err := s.AppendJSON(nil); err == nil || !strings.Contains(err.Error(), name+" is not valid UTF-8 at byte") {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}

func TestSubmissionUnmarshal(t *testing.T) {
	for _, tc := range []struct{ line, input, want string }{
		{`{"tool":"echo","input": {"a": 1} }`, `{"a": 1}`, ""},
		{`{"tool":"echo","input":null}`, `null`, ""},
		{`{"tool":"echo"}`, ``, ""},
		{`{"tool":"echo","input_text":""}`, ``, ""},
		{`{"tool":"echo","input":1,"input_text":"2"}`, ``, "both input and input_text"},
		{`{"tool":"echo","lane":"fast"}`, ``, `unknown lane "fast"`},
		{`{"tool":"echo","timeout_ms":-1}`, ``, "out of range"},
		{`{"tool":"echo","input_payload":{"digest":"x","size":1,"chunks":1}}`, ``, "payload digest"},
		{`[]`, ``, "cannot unmarshal"},
	} {
		var s messages.Submission
		err := json.Unmarshal([]byte(tc.line), &s)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.line, err, tc.want)
		}
		if err == nil && string(s.Input) != tc.input {
			t.Errorf("%s: input %q, want %q", tc.line, s.Input, tc.input)
		}
	}
}

func TestSubmissionCheck(t *testing.T) {
	ok := func() messages.Submission { return messages.Submission{Call: callID, Tool: "a/b c.d", Ref: "r"} }
	if s := ok(); s.Check() != nil {
		t.Fatal(s.Check())
	}
	for _, tc := range []struct {
		change func(*messages.Submission)
		want   string
	}{
		{func(s *messages.Submission) { s.Call = "" }, "call id"},
		{func(s *messages.Submission) { s.Tool = "" }, "tool is empty"},
		{func(s *messages.Submission) { s.Run = strings.Repeat("r", 513) }, "run is 513 bytes"},
		{func(s *messages.Submission) { s.Ref = strings.Repeat("r", 513) }, "ref is 513 bytes"},
		{func(s *messages.Submission) { s.Lane = messages.LaneRetry }, "lane retry"},
		{func(s *messages.Submission) { s.Timeout = -messages.Millis(time.Second) }, "timeout_ms is -1000"},
		{func(s *messages.Submission) { s.Labels = messages.Labels{"k": strings.Repeat("v", 2048)} }, "labels take"},
		{func(s *messages.Submission) { s.After = -1 }, "after_ms is"},
		{func(s *messages.Submission) { s.After, s.NotBefore = 1, time.Now() }, "both not_before and after_ms"},
		{func(s *messages.Submission) { s.NotBefore = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "beyond the year 9999"},
		{func(s *messages.Submission) { s.Payload, s.Input = ref(1), []byte("x") }, "give one"},
		{func(s *messages.Submission) { s.Payload = &messages.PayloadRef{} }, "input_payload"},
		{func(s *messages.Submission) { s.Task = "\xff" }, "task is not valid UTF-8"},
	} {
		s := ok()
		tc.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

func TestSubmissionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := messages.Submission{
			Call: anyCallID().Draw(t, "call"), Ref: anyText().Draw(t, "ref"), Run: anyText().Draw(t, "run"), Tool: anyText().Draw(t, "tool"),
			Lane: rapid.SampledFrom(messages.Lanes()).Draw(t, "lane"), Timeout: anyMillis().Draw(t, "timeout"), Deadline: anyTime().Draw(t, "deadline"),
			Task: anyText().Draw(t, "task"), Labels: anyLabels().Draw(t, "labels"), Trace: anyText().Draw(t, "trace"),
		}
		if rapid.Bool().Draw(t, "payload") {
			s.Payload = ref(700_000)
		} else {
			s.Input = []byte(anyText().Draw(t, "input"))
		}
		b, err := messages.EncodeChunk(messages.Chunk{Batch: batchID, Index: 3, Repeat: true, By: "b", Calls: []messages.Submission{s}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := messages.DecodeChunk(b)
		if err != nil {
			t.Fatal(err)
		}
		want := messages.Chunk{Version: "1", Batch: batchID, Index: 3, Count: 1, Repeat: true, By: "b", Calls: []messages.Submission{s}}
		if diff := cmp.Diff(want, c, cmpopts.EquateEmpty(), notHowItWasRead); diff != "" {
			t.Fatalf("(-sent +received)\n%s", diff)
		}
	})
}

func TestDecodeChunkRefuses(t *testing.T) {
	line := "\n" + `{"call":"` + callID + `","tool":"echo","input":{}}`
	head := func(s string) string { return `{"version":"1","batch":"` + batchID + `",` + s + `}` }
	for _, tc := range []struct{ chunk, want string }{
		{"", "chunk"},
		{"{}", `version ""`},
		{`{"version":"2"}`, `version "2"; this build reads version 1`},
		{`{"version":"1","batch":"*","chunk":0,"count":0}`, "batch"},
		{`{"version":"1","batch":"","chunk":0,"count":0}`, "batch"},
		{head(`"chunk":-1,"count":0`), "chunk -1"},
		{head(`"chunk":0,"count":257`), "count 257 is not from 0 to 256"},
		{head(`"chunk":0,"count":-1`), "count -1"},
		{head(`"chunk":0,"count":2`) + line, "holds 1 calls and says 2"},
		{head(`"chunk":0,"count":1`) + line + line, "holds 2 calls and says 1"},
		{head(`"chunk":0,"count":2`) + line + "\n" + line, "call 1"},
		{head(`"chunk":0,"count":2`) + line + "\n{", "call 1"},
	} {
		if _, err := messages.DecodeChunk([]byte(tc.chunk)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.chunk, err, tc.want)
		}
	}
	if c, err := messages.DecodeChunk([]byte(head(`"chunk":0,"count":1`) + line + "\n")); err != nil || len(c.Calls) != 1 {
		t.Errorf("a line end after the last line: %d calls, %v", len(c.Calls), err)
	}
}

// TestUnknownFieldsAreIgnored: a later build may add fields to this version.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	for _, f := range forms() {
		m, err := f.encode()
		if err != nil {
			t.Fatal(err)
		}
		if f.name == "chunk" || !bytes.HasSuffix(m.Body, []byte("}")) {
			continue
		}
		m.Body = append(bytes.TrimSuffix(m.Body, []byte("}")), `,"colour":{"a":["green"]}}`...)
		if strings.HasPrefix(f.name, "call") || strings.HasPrefix(f.name, "result") {
			continue // a tool's own bytes
		}
		back, err := f.decode(m)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if diff := cmp.Diff(f.value, back, cmpopts.EquateEmpty(), compactJSON, notHowItWasRead); diff != "" {
			t.Errorf("%s (-value +decoded)\n%s", f.name, diff)
		}
	}
}

// TestOtherVersionsAreRefusedByName: a body of a version to come is not called broken.
func TestOtherVersionsAreRefusedByName(t *testing.T) {
	for _, f := range forms() {
		m, err := f.encode()
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get(messages.HeaderVersion) == "" && !bytes.Contains(m.Body, []byte(`"version":"1"`)) {
			continue // values of buckets that are only ever extended
		}
		if f.name == "tool" || f.name == "run" || f.name == "control" {
			continue
		}
		if m.Header != nil {
			m.Header.Set(messages.HeaderVersion, "2")
		}
		m.Body = bytes.Replace(m.Body, []byte(`"version":"1"`), []byte(`"version":"2","status":7,"kind":[]`), 1)
		if _, err := f.decode(m); err == nil || !strings.Contains(err.Error(), `"2"; this build reads version 1`) {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}
