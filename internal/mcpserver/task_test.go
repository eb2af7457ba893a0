package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// The transcripts are written from the specification of 2026-07-28 and from that
// of its extension for tasks, not with the SDK.

// meta is what each request of 2026-07-28 says of itself.
func meta(capabilities string) string {
	return fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":%s}`, capabilities)
}

const (
	takesTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	takesBoth  = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	takesForms = `{"elicitation":{}}`
)

// message is an answer, as far as these tests look at it.
type message struct {
	Result struct {
		ResultType    string
		Capabilities  struct{ Extensions map[string]any }
		TaskID        string
		Status        string
		StatusMessage string
		CreatedAt     time.Time
		LastUpdatedAt time.Time
		TTLMs         *int64
		PollInterval  int64 `json:"pollIntervalMs"`
		Content       []struct{ Text string }
		IsError       bool
		RequestState  string
		InputRequests map[string]struct {
			Method string
			Params struct {
				Mode, Message   string
				RequestedSchema struct {
					Type       string
					Properties map[string]struct{ Enum []string }
					Required   []string
				}
			}
		}
		Result *struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	Error *struct {
		Code    int
		Message string
		Data    struct {
			RequiredCapabilities struct{ Extensions map[string]any }
		}
	}
}

func (w *wire) request(method, params, capabilities string) message {
	w.t.Helper()
	w.last++
	if params != "" {
		params += ","
	}
	got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, w.last, method, params, meta(capabilities)))
	var m message
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		w.t.Fatalf("%s: %v", got, err)
	}
	return m
}

// poll asks about a task until it stands somewhere.
func (w *wire) poll(task, status, capabilities string) message {
	w.t.Helper()
	late, look := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		m := w.request("tasks/get", fmt.Sprintf(`"taskId":%q`, task), capabilities)
		if m.Error != nil || m.Result.ResultType != "complete" || m.Result.TaskID != task {
			w.t.Fatalf("%+v", m)
		}
		if m.Result.Status == status {
			return m
		}
		select {
		case <-look.C:
		case <-late:
			w.t.Fatalf("not %s: %+v", status, m)
		}
	}
}

func TestTheStatelessRevisionIsServed(t *testing.T) {
	w := serve(t, nil).wire(t)
	d := w.ask(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta(`{}`) + `}}`)
	for _, want := range []string{`"2026-07-28"`, `"2025-11-25"`, `"io.modelcontextprotocol/tasks":{}`, `"resultType":"complete"`, `"tools":{"listChanged":true}`} {
		if !strings.Contains(d, want) {
			t.Errorf("%s is not in %s", want, d)
		}
	}
	l := w.ask(`{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{` + meta(`{}`) + `}}`)
	for _, want := range []string{`"resultType":"complete"`, `"name":"upper"`, `"ttlMs"`, `"cacheScope"`} {
		if !strings.Contains(l, want) {
			t.Errorf("%s is not in %s", want, l)
		}
	}
	if m := w.request("tools/call", `"name":"upper","arguments":{"text":"a"}`, `{}`); m.Result.ResultType != "complete" || m.Result.Content[0].Text != "A" {
		t.Errorf("%+v", m)
	}
	if m := w.request("tools/call", `"name":"nothing"`, `{}`); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("%+v", m)
	}
	// Handshakes are of the older ones.
	if m := w.request("initialize", "", `{}`); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("%+v", m)
	}
}

func TestALongCallIsATask(t *testing.T) {
	me := unique(t)
	w := serve(t, func(c *Config) { c.Task = 50 * time.Millisecond }).wire(t)
	made := w.request("tools/call", fmt.Sprintf(`"name":"held","arguments":{"key":%q}`, me), takesTasks)
	id, r := made.Result.TaskID, made.Result
	if r.ResultType != "task" || r.Status != "working" || messages.CheckCallID(id) != nil || r.CreatedAt.IsZero() || r.LastUpdatedAt.Before(r.CreatedAt) || r.TTLMs == nil || r.PollInterval < 1 {
		t.Fatalf("%+v", made)
	}
	await(t, shared.ran.started(me), "start")
	if m := w.poll(id, "working", takesTasks); m.Result.Result != nil || m.Result.StatusMessage == "" {
		t.Errorf("%+v", m)
	}
	if m := w.request("tasks/cancel", fmt.Sprintf(`"taskId":%q`, id), takesTasks); m.Error != nil || m.Result.ResultType != "complete" || m.Result.TaskID != "" {
		t.Errorf("%+v", m)
	}
	await(t, shared.ran.ended(me), "the tool's end")
	if m := w.poll(id, "cancelled", takesTasks); m.Result.Result != nil {
		t.Errorf("%+v", m)
	}
}

// What ends soon is answered at once, also to who takes tasks; what became a
// task and ends has in it what the request would have been answered with.
func TestATaskEndsWithItsResult(t *testing.T) {
	s := serve(t, nil)
	w := s.wire(t)
	for tool, isError := range map[string]bool{"upper": false, "forbidden": true} {
		m := w.request("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"text":"a"}`, tool), takesTasks)
		if m.Result.ResultType != "complete" || m.Result.IsError != isError {
			t.Fatalf("%+v", m)
		}
	}
	r, err := s.client.Call(t.Context(), messages.Submission{Tool: "forbidden", Input: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	m := w.poll(r.Call, "completed", takesTasks)
	if m.Result.Result == nil || !m.Result.Result.IsError || m.Result.Result.Content[0].Text != "403 Forbidden: this account may not" || len(m.Result.Result.Content) != 2 {
		t.Errorf("%+v", m.Result.Result)
	}
}

func TestTasksAreForWhoTakesThem(t *testing.T) {
	me := unique(t)
	s := serve(t, func(c *Config) { c.Task = 50 * time.Millisecond })
	w := s.wire(t)
	made := w.request("tools/call", fmt.Sprintf(`"name":"held","arguments":{"key":%q}`, me), takesTasks)
	about := fmt.Sprintf(`"taskId":%q`, made.Result.TaskID)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		m := w.request(method, about, `{}`)
		if m.Error == nil || m.Error.Code != -32021 || m.Error.Data.RequiredCapabilities.Extensions[TasksExtension] == nil {
			t.Errorf("%s: %+v", method, m)
		}
		for _, id := range []string{"", "x", messages.NewCallID()} {
			if m := w.request(method, fmt.Sprintf(`"taskId":%q`, id), takesTasks); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s %q: %+v", method, id, m)
			}
		}
	}
	// Who may not see the tool does not see its tasks, and who may not cancel does not.
	other := serve(t, func(c *Config) { c.Allowed = func(tool, _ string) bool { return tool != "held" } }).wire(t)
	if m := other.request("tasks/get", about, takesTasks); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("%+v", m)
	}
	other = serve(t, func(c *Config) { c.May = May{} }).wire(t)
	for _, method := range []string{"tasks/cancel", "tasks/update"} {
		if m := other.request(method, about, takesTasks); m.Error == nil || !strings.Contains(m.Error.Message, "may not") {
			t.Errorf("%s: %+v", method, m)
		}
	}
	if m := w.poll(made.Result.TaskID, "working", takesTasks); m.Error != nil {
		t.Errorf("%+v", m)
	}
	// To an older revision there is no such method, and no call becomes a task.
	old := s.wire(t)
	old.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + takesTasks + `,"clientInfo":{"name":"t","version":"1"}}}`)
	old.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := old.ask(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{` + about + `}}`); !strings.Contains(got, "-32021") {
		t.Errorf("%s", got)
	}
	w.request("tasks/cancel", about, takesTasks)
	await(t, shared.ran.ended(me), "the tool's end")
}

// A call that waits for a human is a task that requires input; an update is the
// answer, and keys of other questions are left alone.
func TestAParkedCallIsATaskThatRequiresInput(t *testing.T) {
	w := serve(t, nil).wire(t)
	made := w.request("tools/call", `"name":"asks","arguments":{"order":"ORD-101"}`, takesBoth)
	id := made.Result.TaskID
	if made.Result.ResultType != "task" {
		t.Fatalf("%+v", made)
	}
	m := w.poll(id, "input_required", takesBoth)
	if len(m.Result.InputRequests) != 1 {
		t.Fatalf("%+v", m)
	}
	for key, q := range m.Result.InputRequests {
		schema := q.Params.RequestedSchema
		if key != "question-0" || q.Method != "elicitation/create" || q.Params.Mode != "form" || !strings.Contains(q.Params.Message, `"ORD-101" becomes "ORD-1001"`) ||
			schema.Type != "object" || strings.Join(schema.Properties["answer"].Enum, " ") != "approve edit retry skip fail" || strings.Join(schema.Required, "") != "answer" {
			t.Errorf("%s: %+v", key, q)
		}
	}
	// Who cannot be asked is told that it goes on.
	if m := w.poll(id, "working", takesTasks); !strings.Contains(m.Result.StatusMessage, "waits for a human") || m.Result.InputRequests != nil {
		t.Errorf("%+v", m)
	}
	update := func(responses string) message {
		return w.request("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%s}`, id, responses), takesBoth)
	}
	if m := update(`"question-7":{"action":"accept","content":{"answer":"fail"}}`); m.Error != nil || m.Result.ResultType != "complete" {
		t.Errorf("%+v", m)
	}
	for _, wrong := range []string{`{"action":"accept","content":{"answer":"maybe"}}`, `{"action":"accept","content":{"answer":"edit","input":"{"}}`, `{"action":"later"}`} {
		if m := update(`"question-0":` + wrong); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %+v", wrong, m)
		}
	}
	w.poll(id, "input_required", takesBoth)
	for range 2 { // the second one is too late, which is no error
		if m := update(`"question-0":{"action":"accept","content":{"answer":"approve","reason":"a typing error"}}`); m.Error != nil {
			t.Errorf("%+v", m)
		}
	}
	if m := w.poll(id, "completed", takesBoth); m.Result.Result == nil || m.Result.Result.Content[0].Text != "refunded ORD-1001" {
		t.Errorf("%+v", m)
	}
}
