package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type mcpText struct {
	Text string `json:"text"`
}

// mcpServer is a server of MCP that scripts start.
func mcpServer() {
	s := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1"}, nil)
	said := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "greets", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in mcpText) (*mcp.CallToolResult, any, error) {
			return said("Hello, " + in.Text), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "refuse"}, func(_ context.Context, _ *mcp.CallToolRequest, in mcpText) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("no " + in.Text)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, mcpText) (*mcp.CallToolResult, any, error) {
		os.Exit(9)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die-once", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			if f, err := os.OpenFile("died", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = f.Close()
				os.Exit(9)
			}
			return said("alive, " + os.Getenv("MCP_SECRET")), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "learn"}, func(_ context.Context, _ *mcp.CallToolRequest, in mcpText) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: in.Text}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return said("learnt"), nil, nil
		})
		return said("yes"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "forget"}, func(_ context.Context, _ *mcp.CallToolRequest, in mcpText) (*mcp.CallToolResult, any, error) {
		s.RemoveTools(in.Text)
		return said("yes"), nil, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

// mcpClient TOOL INPUT… -- COMMAND… calls tools of a server of MCP that it
// starts, one after the other, and prints what they gave.
func mcpClient() {
	dash := slices.Index(os.Args, "--")
	calls, command := os.Args[1:dash], os.Args[dash+1:]
	server := exec.Command(command[0], command[1:]...)
	server.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "script", Version: "1"}, nil).Connect(context.Background(), &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; i < len(calls); i += 2 {
		r, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: calls[i], Arguments: json.RawMessage(calls[i+1])})
		if err != nil {
			fmt.Println("protocol:", err)
			continue
		}
		fmt.Printf("error %v:", r.IsError)
		for _, c := range r.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				fmt.Printf(" %q", text.Text)
			}
		}
		fmt.Println()
	}
	if err := session.Close(); err != nil {
		fmt.Println("end:", err)
	}
	fmt.Println("ended with", server.ProcessState.ExitCode())
}

// mcpFixture has the tools that the conformance suite of MCP calls, but for
// those by which a server asks its client for something.
func mcpFixture() {
	s := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1"}, nil)
	text := func(t string) mcp.Content { return &mcp.TextContent{Text: t} }
	image := &mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")}
	resource := func(uri, kind, text string) mcp.Content {
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: kind, Text: text}}
	}
	busy := true
	for name, content := range map[string][]mcp.Content{
		"test_simple_text":            {text("This is a simple text response for testing.")},
		"test_image_content":          {image},
		"test_audio_content":          {&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("RIFF")}},
		"test_embedded_resource":      {resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")},
		"test_multiple_content_types": {text("Multiple content types test:"), image, resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)},
		"test_error_handling":         nil,
		"test_tool_with_progress":     {text("done")},
		"json_schema_2020_12_tool":    {text("done")},
	} {
		schema := `{"type":"object"}`
		if name == "json_schema_2020_12_tool" {
			schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
				`"$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},` +
				`"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`
		}
		s.AddTool(&mcp.Tool{Name: name, Description: "a fixture", InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				switch {
				case content == nil:
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("This tool intentionally returns an error for testing")}}, nil
				case name == "test_tool_with_progress" && busy: // what the pool tells of is how it is tried again
					busy = false
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("429 Too Many Requests: try again in 1 second")}}, nil
				}
				return &mcp.CallToolResult{Content: content}, nil
			})
	}
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

// mcpHostile is a server whose many tools have odd names and schemas that can
// be followed for ever, and are others all the time.
func mcpHostile() {
	s := mcp.NewServer(&mcp.Implementation{Name: "hostile", Version: "1"}, nil)
	add := func(name, schema string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schema)}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}
	bomb := `{"type":"object","$defs":{"a0":{"type":"string"}`
	for i := range 30 {
		bomb += fmt.Sprintf(`,"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	for i := range 995 {
		add(fmt.Sprintf("tool-%d", i), `{"type":"object"}`)
	}
	for _, name := range []string{"dots.and/slashes", "back\\slash", "*>", "\u202eright to left", strings.Repeat("long", 200)} {
		add(name, bomb+`},"properties":{"x":{"$ref":"#/$defs/a30"}}}`)
	}
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		for i := 0; ; i++ {
			<-tick.C
			add(fmt.Sprintf("changing-%d", i%7), `{"type":"object"}`)
			s.RemoveTools(fmt.Sprintf("changing-%d", (i+3)%7))
		}
	}()
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}
