package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool/mcptool"
)

// ResultMeta is where the `_meta` of a result says what became of its call.
const ResultMeta = "mulligan/result"

// result is a result of tools/call. Its content is what the tool gave, of
// whatever kind, so it is handed on without being understood.
type result struct {
	mcp.ResultBase
	ResultType string            `json:"resultType,omitempty"` // from 2026-07-28 on
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent,omitempty"`
	IsError    bool              `json:"isError,omitempty"`
}

// about is what a result says of its call.
type about struct {
	Call        string          `json:"call"`
	Status      messages.Status `json:"status"`
	Code        messages.Code   `json:"code,omitempty"`
	Attempts    int             `json:"attempts"`
	RecoveredBy string          `json:"recovered_by,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// The revision from which on a request says its own, and a result its type.
const stateless = "2026-07-28"

// finished is a result as the client of a request reads it.
func (s *Server) finished(r *mcp.CallToolRequest, res *result) *result {
	if r.ProtocolVersion() >= stateless {
		res.ResultType = "complete"
	}
	return res
}

// endOf is how a call ended: what the tool said, byte for byte where it is a
// text, and of a failure behind it what was found out.
func endOf(r messages.Result, output []byte) *result {
	res := &result{IsError: r.IsError || r.Status != messages.Succeeded}
	res.take(r.Call, output)
	if res.IsError {
		advice := r.Guidance
		if advice == "" {
			advice = r.Reason
		}
		if advice == "" && len(res.Content) == 0 {
			advice = "the call ended " + string(r.Status)
		}
		if advice != "" && advice != string(output) {
			res.Content = append(res.Content, textBlock(advice))
		}
	}
	res.about(about{Call: r.Call, Status: r.Status, Code: r.Code, Attempts: r.Attempts, RecoveredBy: r.RecoveredBy, Reason: r.Reason})
	return res
}

// refusal is what a model reads of a call that was never accepted.
func refusal(r messages.Refusal) *result {
	res := &result{IsError: true, Content: []json.RawMessage{textBlock(r.Text)}}
	res.about(about{Call: r.Call, Status: messages.Refused, Code: r.Code})
	return res
}

func (res *result) about(a about) {
	if res.Meta == nil {
		res.Meta = make(mcp.Meta)
	}
	res.Meta[ResultMeta] = a
}

// take puts an output into the content: the whole result of a tool of MCP as it
// is, a text as a text, and other bytes as a resource.
func (res *result) take(call string, output []byte) {
	res.Content = []json.RawMessage{}
	switch {
	case mcptool.LooksLikeResult(output) && res.whole(output):
	case !utf8.Valid(output):
		res.Content = append(res.Content, block(map[string]any{"type": "resource", "resource": map[string]any{
			"uri": "mulligan:call/" + call, "mimeType": "application/octet-stream", "blob": base64.StdEncoding.EncodeToString(output),
		}}))
	case len(output) > 0 || !res.IsError:
		res.Content = append(res.Content, textBlock(string(output)))
	}
}

// whole takes over the result of a tool of MCP.
func (res *result) whole(output []byte) bool {
	var r struct {
		Meta       map[string]json.RawMessage `json:"_meta"`
		Content    []json.RawMessage          `json:"content"`
		Structured json.RawMessage            `json:"structuredContent"`
	}
	if json.Unmarshal(output, &r) != nil {
		return false
	}
	res.Structured = r.Structured
	if r.Content != nil {
		res.Content = r.Content
	}
	for key, value := range r.Meta {
		if strings.HasPrefix(key, "io.modelcontextprotocol/") {
			continue // of the exchange between worker and server
		}
		if res.Meta == nil {
			res.Meta = make(mcp.Meta)
		}
		res.Meta[key] = value
	}
	return true
}

func textBlock(text string) json.RawMessage {
	return block(map[string]string{"type": "text", "text": text})
}

func block(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{"type":"text","text":""}`) // only strings come here
	}
	return b
}
