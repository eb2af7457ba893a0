package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

// shown adds a token to requests.
type shown string

func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if s != "" {
		r.Header.Set("Authorization", "Bearer "+string(s))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (s *served) mcp(token string, o *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(s.t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: shown(token)}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cs.Close() })
	return cs
}

func said(r *mcp.CallToolResult) string {
	var out []string
	for _, c := range r.Content {
		if x, ok := c.(*mcp.TextContent); ok {
			out = append(out, x.Text)
		}
	}
	return strings.Join(out, "|")
}

// A client of the SDK uses the pool over HTTP: it is told of progress, and its
// failures are verbatim and guided.
func TestMCPOverHTTP(t *testing.T) {
	s := serve(t, nil)
	progress := make(chan string, 100)
	cs := s.mcp("", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message }})
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "upper", Arguments: in{Key: t.Name(), Text: "a"}})
	if err != nil || r.IsError || said(r) != "A" {
		t.Errorf("%+v, %v", r, err)
	}
	p := &mcp.CallToolParams{Name: "forbidden", Arguments: in{Key: t.Name()}}
	p.SetProgressToken("p")
	r, err = cs.CallTool(t.Context(), p)
	if err != nil || !r.IsError || !strings.HasPrefix(said(r), "403 Forbidden: this account may not|") {
		t.Errorf("%+v, %v", r, err)
	}
	select {
	case got := <-progress:
		if !strings.Contains(got, "attempt 1") {
			t.Errorf("%q", got)
		}
	case <-time.After(patience):
		t.Error("no progress")
	}
}

func TestATokenOfMCPHasItsTools(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Tokens = tokens(t, `tokens: [{name: some, token: 0123456789012345678901234, tools: [upper], queues: [other]}, {name: all, token: 5432109876543210987654321}]`)
	})
	cs := s.mcp("0123456789012345678901234", nil)
	var got []string
	for x, err := range cs.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x.Name)
	}
	if !slices.Equal(got, []string{"elsewhere", "upper"}) {
		t.Errorf("%v", got)
	}
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "once"}); err == nil || !strings.Contains(err.Error(), "not available") {
		t.Errorf("%v", err)
	}
	if n := shared.ran.count(t.Name()); n != 0 {
		t.Errorf("ran %d times", n)
	}
	if list, err := s.mcp("5432109876543210987654321", nil).ListTools(t.Context(), nil); err != nil || len(list.Tools) < 5 {
		t.Errorf("%+v, %v", list, err)
	}
	if a := s.ask("POST", "/mcp", ping); a.status != 401 {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// both is what a client of MCP says that it reads.
var both = []string{"Accept", typeJSON + ", " + typeEvents}

func TestMCPOverHTTPIsGuarded(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Body = 1 << 16 })
	for _, c := range []struct {
		name, method, body string
		headers            []string
		status             int
		want               string
	}{
		{"ping", "POST", ping, both, 200, `"result":{}`},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, both, 202, ""},
		{"a stream", "GET", "", both, 405, codeText(codeBadMethod)},
		{"the end of a session", "DELETE", "", both, 405, codeText(codeBadMethod)},
		{"no events", "POST", ping, []string{"Accept", typeJSON}, 406, codeText(codeBadType)},
		{"a form", "POST", ping, append([]string{"Content-Type", "text/plain"}, both...), 415, codeText(codeBadType)},
		{"no message", "POST", `{`, both, 400, codeText(codeBroken)},
		{"another revision", "POST", ping, append([]string{"Mcp-Protocol-Version", "1999-01-01"}, both...), 400, codeText(codeBroken)},
		{"too large", "POST", `"` + strings.Repeat("x", 1<<16) + `"`, both, 413, codeText("too_large")},
		{"another site", "POST", ping, append([]string{"Origin", "https://example.org"}, both...), 403, codeText(codeCrossOrigin)},
		{"another name of this machine", "POST", ping, append([]string{"Host", "rebound.example.org"}, both...), 403, codeText(codeForeignHost)},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.ask(c.method, "/mcp", c.body, c.headers...)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func codeText(code any) string { return fmt.Sprintf(`"code":"%s"`, code) }

// The key of a token stands for one call, whichever request brings it.
func TestMCPOverHTTPHasKeysAndWaits(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Wait = 300 * time.Millisecond })
	key := t.Name() + fmt.Sprint(time.Now().UnixNano())
	cs := s.mcp("", nil)
	ask := func() (*mcp.CallToolResult, error) {
		return cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{"mulligan/idempotency-key": key}, Name: "held", Arguments: in{Key: key}})
	}
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), "goes on") {
		t.Fatalf("%v", err)
	}
	close(shared.ran.gate(key))
	var r *mcp.CallToolResult
	until(t, "the call has ended", func() bool {
		var err error
		r, err = ask()
		return err == nil
	})
	if said(r) != "let go" || shared.ran.count(key) != 1 {
		t.Errorf("%+v, ran %d times", r, shared.ran.count(key))
	}
}

// A gateway that stops ends its streams and its waits.
func TestMCPOverHTTPStops(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Grace = 50 * time.Millisecond })
	changed := make(chan struct{}, 10)
	cs := s.mcp("", &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	key := t.Name() + fmt.Sprint(time.Now().UnixNano())
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "held", Arguments: in{Key: key}})
		done <- err
	}()
	until(t, "the call runs", func() bool { return shared.ran.count(key) == 1 })
	begun := time.Now()
	if err := s.g.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("%v", err)
	}
	if s := s.logged(); strings.Contains(s, "cut off") {
		t.Errorf("after %s: %s", time.Since(begun), s)
	}
	close(shared.ran.gate(key))
}

// modern asks in the revision 2026-07-28, as a client that takes tasks and forms.
func (s *served) modern(method, name, params string) answer {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	return s.ask("POST", "/mcp", body, append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, both...)...)
}

// What a token may do beside calling holds for tasks too, and each gateway knows
// the tasks of the others.
func TestTasksOverHTTPAreHeldToTheToken(t *testing.T) {
	file := `tokens: [{name: lead, token: 0123456789012345678901234, may: [answer, cancel]}, {name: plain, token: 5432109876543210987654321}, ` +
		`{name: other, token: 1111111111111111111111111, tools: [upper], may: [answer, cancel]}]`
	s := serve(t, func(c *Config) { c.Tokens = tokens(t, file) })
	s.token = "0123456789012345678901234"
	a := s.modern("tools/call", "asks", `"name":"asks","arguments":{"key":"t","order":"ORD-101"}`)
	_, id, _ := strings.Cut(a.body, `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !strings.Contains(a.body, `"resultType":"task"`) || id == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s = serve(t, func(c *Config) { c.Tokens = tokens(t, file) })
	task, decline := fmt.Sprintf(`"taskId":%q`, id), fmt.Sprintf(`"taskId":%q,"inputResponses":{"question-0":{"action":"decline"}}`, id)
	for _, c := range []struct{ token, method, params, want string }{
		{"5432109876543210987654321", "tasks/get", task, `"status":"working"`}, // it waits for a human, which this is not
		{"5432109876543210987654321", "tasks/update", decline, "may not"},
		{"5432109876543210987654321", "tasks/cancel", task, "may not"},
		{"1111111111111111111111111", "tasks/get", task, "there is no task"},
		{"1111111111111111111111111", "tasks/update", decline, "there is no task"},
		{"1111111111111111111111111", "tasks/cancel", task, "there is no task"},
		{"0123456789012345678901234", "tasks/get", task, `"status":"input_required"`},
		{"0123456789012345678901234", "tasks/update", decline, `"resultType":"complete"`},
	} {
		s.token = c.token
		if a := s.modern(c.method, id, c.params); !strings.Contains(a.body, c.want) {
			t.Errorf("%s by %.4s: %d %s", c.method, c.token, a.status, a.body)
		}
	}
	until(t, "the task has ended", func() bool { return strings.Contains(s.modern("tasks/get", id, task).body, `"status":"completed"`) })
}

// Closing a request is how the newest revision cancels over HTTP.
func TestAClosedRequestOfMCPIsCancelled(t *testing.T) {
	s := serve(t, nil)
	key := t.Name() + fmt.Sprint(time.Now().UnixNano())
	cs := s.mcp("", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &mcp.CallToolParams{Meta: mcp.Meta{"mulligan/idempotency-key": key}, Name: "held", Arguments: in{Key: key}})
		done <- err
	}()
	until(t, "the call runs", func() bool { return shared.ran.count(key) == 1 })
	cancel()
	<-done
	until(t, "it is cancelled", func() bool {
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{"mulligan/idempotency-key": key}, Name: "held", Arguments: in{Key: key}})
		return err == nil && strings.Contains(fmt.Sprint(r.Meta["mulligan/result"]), "cancelled")
	})
}

// A client that listens hears over HTTP that a tool came.
func TestMCPOverHTTPTellsOfChanges(t *testing.T) {
	s := serve(t, nil)
	changed := make(chan struct{}, 10)
	cs := s.mcp("", &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	if _, err := cs.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Broker: shared.worker, Name: "passing", Tools: []*tool.Tool{
		tool.New("passing", func(context.Context, in) (string, error) { return "here", nil }, tool.Queue("passing")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(patience):
		t.Error("nobody told")
	}
	if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
