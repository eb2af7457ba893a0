package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a human does with the form is the answer: of the SDK's client, which
// speaks the newest revision and asks again by itself.
func TestAQuestionIsPutToTheClient(t *testing.T) {
	for _, c := range []struct {
		name  string
		given mcp.ElicitResult
		want  []string // in the texts of the result
		fails bool
	}{
		{"approve", mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "approve"}}, []string{"refunded ORD-1001"}, false},
		{"edit", mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "edit", "input": `{"order":"ORD-1002"}`}}, []string{"refunded ORD-1002"}, false},
		{"decline", mcp.ElicitResult{Action: "decline"}, []string{"order ORD-101 not found", "declined"}, true},
		{"cancel", mcp.ElicitResult{Action: "cancel"}, []string{"order ORD-101 not found", "closed without an answer"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := make(chan string, 10)
			cs := serve(t, nil).connect(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked <- r.Params.Message
				return &c.given, nil
			}})
			r := call(t, cs, &mcp.CallToolParams{Name: "asks", Arguments: in{Order: "ORD-101"}})
			for _, want := range c.want {
				if !strings.Contains(texts(r), want) || r.IsError != c.fails {
					t.Errorf("%q is not in %+v", want, texts(r))
				}
			}
			if got := await(t, asked, "a question"); len(asked) > 0 || !strings.Contains(got, "order ORD-101 not found") {
				t.Errorf("asked %d times more: %s", len(asked), got)
			}
		})
	}
}

// A client that offers no forms is not asked, nor one that may not answer: its
// call ends as any.
func TestWhoCannotBeAskedIsNot(t *testing.T) {
	s := serve(t, nil)
	r := call(t, s.connect(t, nil), &mcp.CallToolParams{Name: "asks", Arguments: in{Order: "ORD-101"}})
	if about, _ := r.Meta[ResultMeta].(map[string]any); !r.IsError || about["code"] != "ask_user" {
		t.Errorf("%+v", r)
	}
	s = serve(t, func(c *Config) { c.May = May{} })
	cs := s.connect(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		t.Error("it was asked")
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	r = call(t, cs, &mcp.CallToolParams{Name: "asks", Arguments: in{Order: "ORD-101"}})
	if about, _ := r.Meta[ResultMeta].(map[string]any); !r.IsError || about["code"] != "ask_user" {
		t.Errorf("%+v", r)
	}
}

// The newest revision answers the request with the question, and is asked again.
func TestTheQuestionIsTheAnswerOfTheStatelessRevision(t *testing.T) {
	s := serve(t, nil)
	w := s.wire(t)
	m := w.request("tools/call", `"name":"asks","arguments":{"order":"ORD-101"}`, takesForms)
	state := m.Result.RequestState
	if m.Result.ResultType != "input_required" || state == "" || m.Result.InputRequests["question-0"].Method != "elicitation/create" {
		t.Fatalf("%+v", m)
	}
	again := func(name, responses string) message {
		return w.request("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"order":"ORD-101"},"requestState":%q,"inputResponses":{%s}`, name, state, responses), takesForms)
	}
	if m := again("upper", `"question-0":{"action":"decline"}`); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("of another tool: %+v", m)
	}
	if m := again("asks", ``); m.Result.ResultType != "input_required" || m.Result.RequestState != state {
		t.Errorf("without an answer: %+v", m)
	}
	m = again("asks", `"question-0":{"action":"accept","content":{"answer":"approve"}}`)
	if m.Result.ResultType != "complete" || m.Result.Content[0].Text != "refunded ORD-1001" {
		t.Errorf("%+v", m)
	}
	// Another client of fewer rights gets nowhere with the state.
	state2 := serve(t, func(c *Config) { c.May = May{} }).wire(t)
	if m := state2.request("tools/call", fmt.Sprintf(`"name":"asks","arguments":{},"requestState":%q`, state), takesForms); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("%+v", m)
	}
}

// The older revisions have requests of servers for it, while the call is waited for.
func TestTheQuestionIsARequestOfTheOlderRevisions(t *testing.T) {
	w := serve(t, nil).wire(t)
	w.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asks","arguments":{"order":"ORD-101"}}}`)
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct{ Message string }
	}
	line := await(t, w.lines, "a question")
	if err := json.Unmarshal([]byte(line), &q); err != nil || q.Method != "elicitation/create" || !strings.Contains(q.Params.Message, "ORD-1001") {
		t.Fatalf("%s, %v", line, err)
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":"approve"}}}`, q.ID))
	if got := await(t, w.lines, "the result"); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "refunded ORD-1001") {
		t.Errorf("%s", got)
	}
}
