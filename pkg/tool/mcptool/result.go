package mcptool

import (
	"bytes"
	"encoding/json"
	"strings"
)

// callResult is a result of tools/call, as far as it is looked at.
type callResult struct {
	Content []json.RawMessage
	IsError bool
	// texts are those of the blocks that are texts.
	texts []string
	// plain: it is one text and nothing else, which the text alone says.
	plain bool
}

type block struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// readResult reads the result of a call. ok is false when it is none.
func readResult(raw []byte) (r callResult, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return r, false
	}
	if c, there := all["content"]; there && json.Unmarshal(c, &r.Content) != nil {
		return r, false
	}
	if e, there := all["isError"]; there && json.Unmarshal(e, &r.IsError) != nil {
		return r, false
	}
	if t, there := all["resultType"]; there && string(t) != `"complete"` {
		return r, false // it asks for something before it can be one
	}
	r.plain = len(r.Content) == 1
	for key, value := range all {
		switch key {
		case "content", "isError", "resultType":
		case "_meta":
			r.plain = r.plain && onlyProtocol(value)
		default:
			r.plain = false
		}
	}
	for _, c := range r.Content {
		var b block
		if json.Unmarshal(c, &b) != nil || b.Type != "text" || b.Text == nil {
			r.plain = false
			continue
		}
		r.texts = append(r.texts, *b.Text)
		r.plain = r.plain && members(c) == 2
	}
	r.plain = r.plain && !LooksLikeResult([]byte(strings.Join(r.texts, "")))
	return r, true
}

func members(object json.RawMessage) int {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(object, &all)
	return len(all)
}

// onlyProtocol says that a _meta holds what each answer of a server has.
func onlyProtocol(raw json.RawMessage) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return false
	}
	for key := range all {
		if !strings.HasPrefix(key, "io.modelcontextprotocol/") {
			return false
		}
	}
	return true
}

// output is the form in which a result becomes the output of a call: of one
// that is one text the text itself, of any other the whole, byte for byte.
func (r callResult) output(raw []byte) []byte {
	if r.plain {
		return []byte(r.texts[0])
	}
	return raw
}

// text is what a failing result says.
func (r callResult) text() string {
	return strings.Join(r.texts, "\n")
}

// LooksLikeResult says whether an output is the whole result of an MCP tool,
// and not the text of one: a JSON object whose content is a list of objects with
// a type.
func LooksLikeResult(output []byte) bool {
	output = bytes.TrimSpace(output)
	if len(output) == 0 || output[0] != '{' {
		return false
	}
	var r struct {
		Content *[]struct {
			Type string `json:"type"`
		} `json:"content"`
	}
	if json.Unmarshal(output, &r) != nil {
		return false
	}
	if r.Content == nil {
		var s struct {
			Structured json.RawMessage `json:"structuredContent"`
		}
		return json.Unmarshal(output, &s) == nil && s.Structured != nil
	}
	for _, c := range *r.Content {
		if c.Type == "" {
			return false
		}
	}
	return true
}
