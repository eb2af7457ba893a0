package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/catalogue"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

func names(t *testing.T, cs *mcp.ClientSession) []string {
	t.Helper()
	var out []string
	for x, err := range cs.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x.Name)
	}
	return out
}

func TestTheRegistryIsTheListOfTools(t *testing.T) {
	cs := serve(t, func(c *Config) { c.Page = 2 }).connect(t, nil)
	want := []string{"asks", "bytes", "elsewhere", "flaky", "forbidden", "held", "upper", "whole"}
	if got := names(t, cs); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	page, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(page.Tools) != 2 || page.NextCursor == "" {
		t.Errorf("%+v, %v", page, err)
	}
	var hints []string
	for x, err := range cs.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if schema, ok := x.InputSchema.(map[string]any); !ok || schema["type"] != "object" {
			t.Errorf("%s: %v", x.Name, x.InputSchema)
		}
		hints = append(hints, fmt.Sprintf("%t %t", x.Annotations.ReadOnlyHint, x.Annotations.IdempotentHint))
	}
	if hints[0] != "false false" || hints[3] != "true true" || hints[6] != "false true" { // unsafe, read_only, idempotent
		t.Errorf("%v", hints)
	}
}

func TestWhatIsNotAllowedIsNotThere(t *testing.T) {
	cs := serve(t, func(c *Config) {
		c.Allowed = func(tool, queue string) bool { return tool == "upper" || queue == "other" }
	}).connect(t, nil)
	if got := names(t, cs); !slices.Equal(got, []string{"elsewhere", "upper"}) {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]string{"flaky": "tool 'flaky' is not available", "uper": "Did you mean 'upper'?"} {
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		var said *jsonrpc.Error
		if !errors.As(err, &said) || said.Code != jsonrpc.CodeInvalidParams || !strings.Contains(said.Message, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACallIsOneOfThePool(t *testing.T) {
	cs := serve(t, nil).connect(t, nil)
	r := call(t, cs, &mcp.CallToolParams{Name: "upper", Arguments: in{Text: "a"}})
	if r.IsError || texts(r) != "A" {
		t.Errorf("%+v", r)
	}
	about, _ := r.Meta[ResultMeta].(map[string]any)
	id, _ := about["call"].(string)
	if messages.CheckCallID(id) != nil || about["status"] != "succeeded" || about["attempts"] != 1.0 {
		t.Errorf("%v", r.Meta)
	}
	r = call(t, cs, &mcp.CallToolParams{Name: "flaky", Arguments: in{Text: "b"}})
	if about, _ := r.Meta[ResultMeta].(map[string]any); r.IsError || texts(r) != "b" || about["attempts"] != 2.0 {
		t.Errorf("%+v", r)
	}
}

// The tool's own words come first and alone, what was found out is a block behind them.
func TestAFailureIsVerbatimAndThenGuided(t *testing.T) {
	cs := serve(t, nil).connect(t, nil)
	r := call(t, cs, &mcp.CallToolParams{Name: "forbidden"})
	if !r.IsError || len(r.Content) != 2 {
		t.Fatalf("%+v", r)
	}
	if first := r.Content[0].(*mcp.TextContent).Text; first != "403 Forbidden: this account may not" { //nolint:forcetypeassert // a panic tells as much
		t.Errorf("%q", first)
	}
	if second := r.Content[1].(*mcp.TextContent).Text; !strings.Contains(second, "tell a human what is missing") { //nolint:forcetypeassert // as above
		t.Errorf("%q", second)
	}
	// What does not fit the schema is mended or refused with a text that a model can read.
	if r := call(t, cs, &mcp.CallToolParams{Name: "upper", Arguments: []int{1}}); !r.IsError || texts(r) == "" {
		t.Errorf("%+v", r)
	}
}

func TestAllKindsOfContentSurvive(t *testing.T) {
	s := serve(t, nil)
	wire := s.wire(t)
	wire.initialize("2025-11-25")
	got := wire.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"whole","arguments":{}}}`)
	for _, want := range []string{
		`{"type":"image","data":"aGk=","mimeType":"image/png","annotations":{"priority":0.5}}`, `{"type":"later","x":9007199254740993}`,
		`"structuredContent":{"n":9007199254740993}`, `"example.com/a":1`, `"type":"resource_link"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "inner") {
		t.Errorf("of another exchange: %s", got)
	}
	got = wire.ask(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"bytes"}}`)
	if !strings.Contains(got, `"blob":"/wA="`) {
		t.Errorf("%s", got)
	}
}

func TestAKeyRunsNothingTwice(t *testing.T) {
	me := unique(t)
	s := serve(t, nil)
	key := func(k, text string) *mcp.CallToolParams {
		return &mcp.CallToolParams{Meta: mcp.Meta{KeyMeta: k}, Name: "upper", Arguments: in{Key: me, Text: text}}
	}
	one, two := call(t, s.connect(t, nil), key("k", "a")), call(t, s.connect(t, nil), key("k", "a"))
	if texts(one) != "A" || texts(two) != "A" || fmt.Sprint(one.Meta[ResultMeta]) != fmt.Sprint(two.Meta[ResultMeta]) {
		t.Errorf("%+v, %+v", one, two)
	}
	if n := len(shared.ran.started(me)); n != 1 {
		t.Errorf("ran %d times", n)
	}
	cs := s.connect(t, nil)
	for _, p := range []*mcp.CallToolParams{key("k", "b"), key("", "a"), key("ä", "a")} {
		if _, err := cs.CallTool(t.Context(), p); err == nil || !strings.Contains(err.Error(), KeyMeta) {
			t.Errorf("%v: %v", p.Meta, err)
		}
	}
}

func TestACancelledRequestCancelsItsCall(t *testing.T) {
	me := unique(t)
	cs := serve(t, nil).connect(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "held", Arguments: in{Key: me}})
		done <- err
	}()
	await(t, shared.ran.started(me), "start")
	cancel()
	if err := await(t, done, "the client"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	await(t, shared.ran.ended(me), "the tool's end")
}

// Who goes away has not said that the call shall end, and may come back for it
// by its key.
func TestACallOutlivesItsClient(t *testing.T) {
	me := unique(t)
	s := serve(t, nil)
	wire := s.wire(t)
	wire.initialize("2025-11-25")
	wire.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"held","arguments":{"key":%q},"_meta":{%q:"back"}}}`, me, KeyMeta))
	await(t, shared.ran.started(me), "start")
	wire.close()
	id, err := s.identify(t.Context(), "back", "held", fmt.Appendf(nil, `{"key":%q}`, me))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-shared.ran.ended(me):
		t.Errorf("it was ended: %v", err)
	default:
	}
	if _, err := s.client.Cancel(t.Context(), messages.CancelRequest{Run: messages.UnnamedRun(id), Call: id}); err != nil {
		t.Fatal(err)
	}
	await(t, shared.ran.ended(me), "the tool's end")
}

// A server that stops ends its waits, and no call.
func TestAStoppedServerEndsItsWaits(t *testing.T) {
	me := unique(t)
	s := serve(t, nil)
	cs := s.connect(t, nil)
	done := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "held", Arguments: in{Key: me}, Meta: mcp.Meta{KeyMeta: "stop"}})
		done <- err
	}()
	await(t, shared.ran.started(me), "start")
	s.Close()
	err := await(t, done, "the client")
	if err == nil || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("%v", err)
	}
	id, ierr := s.identify(t.Context(), "stop", "held", fmt.Appendf(nil, `{"key":%q}`, me))
	if ierr != nil || !strings.Contains(err.Error(), id) {
		t.Errorf("%v: %v, %v", id, err, ierr)
	}
	if _, err := s.client.Cancel(t.Context(), messages.CancelRequest{Run: messages.UnnamedRun(id), Call: id}); err != nil {
		t.Fatal(err)
	}
	await(t, shared.ran.ended(me), "the tool's end")
}

func TestProgressIsWhatHappens(t *testing.T) {
	said := make(chan *mcp.ProgressNotificationParams, 100)
	cs := serve(t, nil).connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		said <- r.Params
	}})
	call(t, cs, &mcp.CallToolParams{Name: "flaky", Arguments: in{Text: "x"}}) // nobody asked
	p := &mcp.CallToolParams{Name: "flaky", Arguments: in{Text: "x"}}
	p.SetProgressToken("me")
	call(t, cs, p)
	last := 0.0
	for _, want := range []string{"attempt 1 started", "attempt 1 failed: tool_error: 503 Service Unavailable", "decided by rules: retry", "attempt 2 started"} {
		for found := false; !found; {
			got := await(t, said, want)
			if got.ProgressToken != "me" || got.Progress <= last {
				t.Errorf("%+v after %v", got, last)
			}
			found, last = strings.HasPrefix(got.Message, want), got.Progress
		}
	}
}

func TestTheListChangesWithTheRegistry(t *testing.T) {
	s := serve(t, nil)
	changed := make(chan struct{}, 100)
	cs := s.connect(t, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	if _, err := cs.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Broker: shared.broker, Name: "passing", Tools: []*tool.Tool{
		tool.New("passing", func(context.Context, in) (string, error) { return "here", nil }, tool.Queue("passing")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, w.Started(), "the worker")
	if err := s.registry.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, changed, "a change")
	if got := names(t, cs); !slices.Contains(got, "passing") {
		t.Errorf("%v", got)
	}
	if r := call(t, cs, &mcp.CallToolParams{Name: "passing"}); texts(r) != "here" {
		t.Errorf("%+v", r)
	}
	if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := s.registry.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, changed, "another change")
	if got := names(t, cs); slices.Contains(got, "passing") {
		t.Errorf("%v", got)
	}
	// What is read again and the same is no change.
	if err := s.registry.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if len(changed) > 0 {
		t.Error("a change that was none")
	}
}

// slowly holds back what is saved until it is let go.
type slowly struct {
	Broker
	begun chan struct{}
	let   chan struct{}
}

func (b *slowly) Save(ctx context.Context, bucket messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	b.begun <- struct{}{}
	<-b.let
	return b.Broker.Save(ctx, bucket, key, value, expect, ttl)
}

// noting tells of each cancellation.
type noting struct {
	Client
	cancelled chan messages.CancelRequest
}

func (c *noting) Cancel(ctx context.Context, r messages.CancelRequest) (messages.CancelReply, error) {
	c.cancelled <- r
	return c.Client.Cancel(ctx, r)
}

// A cancellation that comes while the call is being submitted is no less one.
func TestACancellationOvertakesNoSubmission(t *testing.T) {
	me := unique(t)
	slow, note := &slowly{begun: make(chan struct{}, 1), let: make(chan struct{})}, &noting{cancelled: make(chan messages.CancelRequest, 1)}
	w := serve(t, func(c *Config) {
		slow.Broker, note.Client = c.Broker, c.Client
		c.Broker, c.Client = slow, note
	}).wire(t)
	w.initialize("2025-11-25")
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"held","arguments":{"key":%q},"_meta":{%q:%q}}}`, me, KeyMeta, me))
	await(t, slow.begun, "the submission")
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`) // its answer says that what was sent before was read
	close(slow.let)
	if r := await(t, note.cancelled, "the cancellation"); messages.CheckCallID(r.Call) != nil || r.Run != messages.UnnamedRun(r.Call) {
		t.Errorf("%+v", r)
	}
}

// A client of the older revisions is told of changes without having asked.
func TestOlderRevisionsHearThatTheListChanged(t *testing.T) {
	s := serve(t, nil)
	w := s.wire(t)
	w.initialize("2025-11-25")
	w.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	s.offer(nil)
	if got := await(t, w.lines, "a change"); !strings.Contains(got, `"method":"notifications/tools/list_changed"`) {
		t.Errorf("%s", got)
	}
	if got := w.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, `"tools":[]`) {
		t.Errorf("%s", got)
	}
}

// A schema that is none of an object, or that the SDK takes for none, leaves the
// tool callable.
func TestAnyToolIsShown(t *testing.T) {
	s := serve(t, nil)
	var tools []catalogue.Tool
	for name, schema := range map[string]string{
		"none": "", "true": "true", "open": `{"required":["a"]}`, "text": `{"type":"string"}`, "header": `{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"b c"}}}`,
	} {
		tools = append(tools, catalogue.Tool{ToolSpec: messages.ToolSpec{Name: name, Queue: "q", Schema: []byte(schema), Effect: messages.Unsafe}})
	}
	s.offer(tools)
	cs := s.connect(t, nil)
	if got := names(t, cs); !slices.Equal(got, []string{"header", "none", "open", "text", "true"}) {
		t.Errorf("%v", got)
	}
	if got := string(inputSchema([]byte(`{"required":["a"]}`))); got != `{"required":["a"],"type":"object"}` {
		t.Errorf("%s", got)
	}
}
