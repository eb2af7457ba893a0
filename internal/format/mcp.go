package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  mcpResult       `json:"result"`
}

type mcpResult struct {
	Content []mcpText `json:"content"`
	IsError bool      `json:"isError"`
}

type mcpText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// mcp reads a request of tools/call. Other requests want an answer that only a
// server of MCP has.
func (l *Line) mcp(o object) error {
	switch {
	case !o.is("jsonrpc", "2.0"):
		return errors.New(`jsonrpc is not "2.0", as a request of MCP has it`)
	case !o.is("method", "tools/call"):
		return fmt.Errorf("is no request of tools/call: method %s; other messages of MCP call no tool", orNothing(o["method"]))
	case !o.has("id") || o["id"][0] != '"' && strings.Trim(string(o["id"]), "-0123456789") != "":
		return fmt.Errorf("id %s is neither a string nor a whole number; without one there is nothing to answer", orNothing(o["id"]))
	}
	id := o["id"]
	c := Call{reply: func(text string, isError bool) any {
		return rpcResponse{"2.0", id, mcpResult{[]mcpText{{"text", text}}, isError}}
	}}
	params, noParams := o.inner("params")
	noName, noInput := params.needed("name", &c.Tool), error(nil)
	c.Input, c.IsJSON = []byte("{}"), true // as the protocol has it for a call without arguments
	if params.has("arguments") {
		noInput = params.value("arguments", &c)
	}
	ref := o.glance("id")
	if ref == "" {
		ref = string(id)
	}
	l.add("", ref, c, noParams, noName, noInput)
	return nil
}

func orNothing(raw []byte) string {
	if len(raw) == 0 {
		return "(missing)"
	}
	return excerpt(raw)
}
