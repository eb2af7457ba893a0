package cli

import (
	"context"
	"errors"
	"os"

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
