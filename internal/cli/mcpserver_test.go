package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

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
