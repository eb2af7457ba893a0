package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/catalogue"
	"mulligan/pkg/messages"
)

// offer makes these the tools of the server. Its clients are told of a change
// when there is one. One at a time calls it.
func (s *Server) offer(tools []catalogue.Tool) {
	now := make(map[string]offered, len(tools))
	var gone []string
	for _, t := range tools {
		if !s.cfg.Allowed(t.Name, t.Queue) {
			continue
		}
		shown := describe(t)
		b, err := json.Marshal(shown)
		if err != nil {
			s.cfg.Log.Warn("a tool is left out, since it cannot be written", "tool", t.Name, "error", err)
			continue
		}
		o := offered{text: string(b)}
		if s.tool(t.Name).text != o.text {
			if err := s.show(shown); err != nil {
				s.cfg.Log.Warn("a tool is shown without its schema", "tool", t.Name, "error", err)
				shown.InputSchema = anyObject
				if err := s.show(shown); err != nil {
					s.cfg.Log.Warn("a tool is left out", "tool", t.Name, "error", err)
					continue
				}
			}
		}
		now[t.Name] = o
	}
	s.mu.Lock()
	for name := range s.tools {
		if _, still := now[name]; !still {
			gone = append(gone, name)
		}
	}
	s.tools = now
	s.mu.Unlock()
	if len(gone) > 0 {
		s.mcp.RemoveTools(gone...)
	}
}

// offered is a tool as clients see it.
type offered struct{ text string }

func (s *Server) tool(name string) offered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools[name]
}

func (s *Server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.tools[name]
	return there
}

func (s *Server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.tools {
		out = append(out, name)
	}
	return out
}

// show adds a tool to the list. The SDK panics at a schema that it does not
// take, and schemas come from whoever wrote the tool.
func (s *Server) show(t *mcp.Tool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	s.mcp.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("calls are handled before") // see intercept
	})
	return nil
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// describe is a tool of the pool as one of MCP. Its hints say no more than its
// effect: keyed is idempotent only for who gives the same key.
func describe(t catalogue.Tool) *mcp.Tool {
	e := effect(t)
	return &mcp.Tool{
		Name: t.Name, Description: t.Description, InputSchema: inputSchema(t.Schema),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: e == messages.ReadOnly, IdempotentHint: e == messages.ReadOnly || e == messages.Idempotent},
	}
}

// inputSchema is a schema as MCP wants it, which is of an object.
func inputSchema(schema json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || fields == nil {
		return anyObject // none, or one that is true
	}
	if _, there := fields["type"]; there {
		return schema
	}
	fields["type"] = json.RawMessage(`"object"`)
	b, err := json.Marshal(fields)
	if err != nil {
		return anyObject
	}
	return b
}
