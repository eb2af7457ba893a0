package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// fakeEnv names the server that this test binary is to be in place of running
// tests. Only [fake] sets it, and a server gets none of the variables that its
// starter has, so that no server starts another.
const fakeEnv = "MULLIGAN_FAKE_MCP_SERVER"

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(fakeEnv); ok {
		run, known := fakes()[name]
		if !known {
			os.Exit(2)
		}
		run()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fakes are the servers that the test binary can be.
func fakes() map[string]func() {
	return map[string]func(){
		"good":     func() { _ = good(nil).Run(context.Background(), &mcp.StdioTransport{}) },
		"endless":  func() { scripted(endless) },
		"flood":    func() { scripted(flood) },
		"garbage":  func() { scripted(garbage) },
		"greeting": func() { fmt.Println("Welcome! This is no message."); scripted(nil) },
		"bombs":    func() { scripted(bombs) },
		"thousand": func() { scripted(thousand) },
		"silent":   func() { scripted(silent) },
		"dies":     func() { scripted(dies) },
		"deaf":     func() { scripted(deaf) },
		"changing": func() { scripted(changing) },
		"nothing":  func() { _, _ = io.Copy(io.Discard, os.Stdin) },
		"stays":    stays,
		"broken":   func() { fmt.Fprintln(os.Stderr, "no configuration: token s3cr3t-of-the-server"); os.Exit(3) },
	}
}

type text struct {
	Text string `json:"text"`
}

// good is an honest server, which tells of changes when it is asked to change.
func good(stop <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "good", Version: "1.2.3"}, nil)
	yes := true
	result := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "gives back its text", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return result(in.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "key", Title: "the idempotency key", Annotations: &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes}},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return result(fmt.Sprint(r.Params.Meta["mulligan/idempotency-key"])), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "typed", Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
			return nil, in, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "media"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "see"}, &mcp.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"}, &mcp.AudioContent{Data: []byte{4}, MIMEType: "audio/wav"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "a"}}, &mcp.ResourceLink{URI: "file:///b", Name: "b"},
		}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New(in.Text)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "env"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return result(strings.Join(os.Environ(), "\n")), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "say"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, in.Text)
		return result("said"), nil, nil
	})
	var mu sync.Mutex
	cancelled := 0
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, r *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		if in.Text != "" { // a file that says that it runs
			if err := os.WriteFile(in.Text, nil, 0o600); err != nil {
				return nil, nil, err
			}
		}
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "half way"})
		}
		select {
		case <-ctx.Done():
		case <-stop: // the SDK's server waits for its tools before it closes, and a notice of cancellation may be lost
		}
		mu.Lock()
		defer mu.Unlock()
		cancelled++
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "cancelled"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		mu.Lock()
		defer mu.Unlock()
		return result(fmt.Sprint(cancelled)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "change"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		if name, gone := strings.CutPrefix(in.Text, "-"); gone {
			s.RemoveTools(name)
			return result("gone"), nil, nil
		}
		mcp.AddTool(s, &mcp.Tool{Name: in.Text}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return result("new"), nil, nil
		})
		return result("there"), nil, nil
	})
	return s
}

// message is a message of JSON-RPC, as far as scripted servers look at it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Cursor    string         `json:"cursor"`
		Arguments map[string]any `json:"arguments"`
	} `json:"params"`
}

// scripted is a server of the older revisions. answer gives the result of a
// request, or says that it does not want to; without it there is one tool, ok.
func scripted(answer func(m message) (result string, ok bool)) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var m message
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		if answer != nil {
			if result, ok := answer(m); ok {
				if result != "" {
					reply(m, result)
				}
				continue
			}
		}
		switch m.Method {
		case "initialize":
			reply(m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"scripted","version":"1"}}`)
		case "tools/list":
			reply(m, `{"tools":[`+listed("ok")+`]}`)
		case "tools/call":
			reply(m, `{"content":[{"type":"text","text":"ok"}]}`)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
		}
	}
}

func reply(m message, result string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
}

func listed(name string) string {
	quoted, _ := json.Marshal(name)
	return `{"name":` + string(quoted) + `,"inputSchema":{"type":"object"}}`
}

// endless answers a call with output that never ends, without a line break.
func endless(m message) (string, bool) {
	if m.Method != "tools/call" {
		return "", false
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	piece := strings.Repeat("x", 1<<16)
	fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
	for {
		if _, err := out.WriteString(piece); err != nil {
			os.Exit(1)
		}
	}
}

// flood sends notifications and requests without end, and answers in between.
func flood(m message) (string, bool) {
	if m.Method == "tools/call" {
		for i := range 20_000 {
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}`+"\n", i)
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			if i%100 == 0 {
				fmt.Printf(`{"jsonrpc":"2.0","id":"r%d","method":"sampling/createMessage","params":{}}`+"\n", i)
			}
		}
	}
	return "", false
}

// garbage answers a call with lines that are no messages.
func garbage(m message) (string, bool) {
	if m.Method != "tools/call" {
		return "", false
	}
	for range 5000 {
		fmt.Println(`{"jsonrpc":"1.0","result":[[[`)
	}
	return "", true
}

// bombs has tools whose schemas or names cannot be used, beside one that can.
func bombs(m message) (string, bool) {
	if m.Method != "tools/list" {
		return "", false
	}
	defs := make([]string, 0, 40)
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
	}
	tools := []string{
		listed("ok"), listed(""), listed(" "), listed(strings.Repeat("n", 600)), listed("ok"),
		listed("a/b.c d"), listed("…\u202e\n\u0000"), listed("; rm -rf /"), listed("../../etc"), listed(`"quoted"`),
		`{"name":"loop","inputSchema":{"$ref":"#"}}`,
		`{"name":"elsewhere","inputSchema":{"$ref":"https://example.com/schema.json"}}`,
		`{"name":"nonsense","inputSchema":{"type":"objekt"}}`,
		`{"name":"large","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 200_000) + `"}}`,
		`{"name":"deep","inputSchema":` + strings.Repeat(`{"items":`, 500) + `{}` + strings.Repeat(`}`, 500) + `}`,
		`{"name":"fan","inputSchema":{"type":"object","$ref":"#/$defs/a0","$defs":{` + strings.Join(defs, ",") + `,"a40":{"type":"object"}}}}`,
		`{"name":"wordy","description":"` + strings.Repeat("w", 100_000) + `","inputSchema":{"type":"object"}}`,
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`, true
}

// thousand has more tools than may be offered, on many pages, the last of which
// leads back.
func thousand(m message) (string, bool) {
	if m.Method != "tools/list" {
		return "", false
	}
	page := 0
	_, _ = fmt.Sscan(m.Params.Cursor, &page)
	var tools []string
	for i := range 50 {
		tools = append(tools, listed(fmt.Sprintf("t%04d", page*50+i)))
	}
	return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, strings.Join(tools, ","), page+1), true
}

// silent answers no call.
func silent(m message) (string, bool) { return "", m.Method == "tools/call" }

// dies in the middle of an answer.
func dies(m message) (string, bool) {
	if m.Method != "tools/call" {
		return "", false
	}
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[`, m.ID)
	os.Exit(1)
	return "", true
}

// deaf reads nothing more once it has been asked for its tools.
func deaf(m message) (string, bool) {
	if m.Method == "tools/list" {
		reply(m, `{"tools":[`+listed("ok")+`]}`)
		select {}
	}
	return "", false
}

// changing has another list each time it is asked, and says so before each
// answer of a call.
func changing(m message) (string, bool) {
	switch m.Method {
	case "tools/list":
		return fmt.Sprintf(`{"tools":[%s,%s]}`, listed("ok"), listed(fmt.Sprintf("t%d", time.Now().UnixNano()))), true
	case "tools/call":
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	return "", false
}

// stays ignores the end of its input.
func stays() {
	scripted(nil)
	<-time.After(time.Hour)
}
