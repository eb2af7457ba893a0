package messages_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

func TestToolSpecValidate(t *testing.T) {
	ok := messages.ToolSpec{Name: "flights/book", Schema: json.RawMessage(`{}`)}.WithDefaults()
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*messages.ToolSpec)
		want   string
	}{
		{func(s *messages.ToolSpec) { s.Name = "" }, "tool name is empty"},
		{func(s *messages.ToolSpec) { s.Name = strings.Repeat("n", 513) }, "tool name is 513 bytes"},
		{func(s *messages.ToolSpec) { s.Queue = strings.Repeat("q", 65) }, `tool "flights/book": queue is 65 bytes long, the limit is 64`},
		{func(s *messages.ToolSpec) { s.Effect = "" }, `unknown effect ""`},
		{func(s *messages.ToolSpec) { s.Effect = "harmless" }, `unknown effect "harmless"; known are read_only, idempotent, keyed, unsafe`},
		{func(s *messages.ToolSpec) { s.Timeout = messages.Millis(-time.Second) }, "timeout_ms is -1000"},
		{func(s *messages.ToolSpec) { s.Schema = json.RawMessage(`{`) }, "schema is not JSON"},
		{func(s *messages.ToolSpec) {
			s.Schema = json.RawMessage(`"` + strings.Repeat("s", messages.MaxInline) + `"`)
		}, "schema is 131074 bytes"},
	} {
		s := ok
		tc.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

func TestDecodeServiceRefuses(t *testing.T) {
	for _, body := range []string{`{"version":"1","run":"a.b"}`, `{"version":"1","run":"r","call":"*"}`, `{"version":"1"}`, `{"run":"r"}`, `x`} {
		if r, err := messages.DecodeService[messages.CancelRequest]([]byte(body)); err == nil {
			t.Errorf("%s is taken: %+v", body, r)
		}
	}
	if _, err := messages.DecodeService[messages.OfferRequest]([]byte(`{"version":"1","tools":[]}`)); err == nil {
		t.Error("an offer without a worker is taken")
	}
}

func TestDecodeAnswerRequestRefuses(t *testing.T) {
	const good = `{"version":"1","run":"r","call":"` + callID + `","dispatch":1,"kind":"retry","by":"ann"}`
	if _, err := messages.DecodeService[messages.AnswerRequest]([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ old, new, want string }{
		{`"retry"`, `"answer_by"`, "by the clock alone"},
		{`"retry"`, `"maybe"`, "unknown answer"},
		{`"retry"`, `"edit"`, "edit needs one"},
		{`"by"`, `"input":{"text":"{}"},"by"`, "input belongs to kind edit"},
		{`"by":"ann"`, `"by":""`, "by is empty"},
		{`"by"`, `"reason":"` + strings.Repeat("x", messages.MaxText+1) + `","by"`, "reason is 3073 bytes long"},
		{`"by"`, `"token":"` + strings.Repeat("x", messages.MaxName+1) + `","by"`, "token is 513 bytes long"},
		{`"dispatch":1`, `"dispatch":26`, "dispatch 26"},
		{callID, "x", "call id"},
		{`"run":"r"`, `"run":"a.b"`, "run"},
	} {
		_, err := messages.DecodeService[messages.AnswerRequest]([]byte(strings.Replace(good, tc.old, tc.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.new[:min(len(tc.new), 40)], err, tc.want)
		}
	}
}

func TestDecodeFailureRefuses(t *testing.T) {
	body := mustFailure(t)
	for _, tc := range []struct{ old, new, want string }{
		{`"dispatch":0`, `"dispatch":26`, "dispatch 26"},
		{`"attempt":0`, `"attempt":-1`, "attempt -1"},
		{callID + `","ref`, `*","ref`, "call id"},
		{`"executed":true`, `"executed":true,"mark":9`, "mark 9"},
		{`"code":"tool_error"`, `"code":"Tool Error"`, "code"},
		{`"lane":"normal"`, `"lane":"fast"`, "lane"},
	} {
		changed := strings.Replace(body, tc.old, tc.new, 1)
		if changed == body {
			t.Fatalf("%q is not in the body", tc.old)
		}
		if _, err := messages.DecodeFailure([]byte(changed)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.new, err, tc.want)
		}
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	for _, tc := range []struct{ fields, want string }{
		{`"n":26,"state":"waiting"`, "n 26"},
		{`"n":1,"w":-1,"state":"waiting"`, "w -1"},
		{`"n":1,"state":"asleep"`, `unknown state "asleep"`},
		{`"state":"waiting","trigger":{"kind":"wish"}`, `unknown trigger "wish"`},
		{`"state":"ended","outcome":{}`, `unknown status ""`},
	} {
		if _, err := messages.DecodeRecord([]byte(`{"version":"1",` + tc.fields + `}`)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.fields, err, tc.want)
		}
	}
}
