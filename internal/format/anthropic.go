package format

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// toolResult answers a block.
type toolResult struct {
	Type    string          `json:"type"`
	ID      string          `json:"tool_use_id"`
	Toolset json.RawMessage `json:"toolset_name,omitempty"`
	Content string          `json:"content"`
	IsError bool            `json:"is_error"`
}

// userMessage holds the answers to all blocks of one message, which the API
// wants together.
type userMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// anthropic reads a block by itself, or the blocks of a message. What the
// provider's servers run, server_tool_use, is not for us.
func (l *Line) anthropic(o object) error {
	if o.is("type", "tool_use") {
		l.toolUse("", o)
		return nil
	}
	l.shape = whole
	if !o.is("role", "assistant") {
		return fmt.Errorf("is a message of role %s, which calls nothing; give that of the assistant", excerpt(o["role"]))
	}
	if bytes.HasPrefix(o["content"], []byte{'"'}) {
		return nil
	}
	blocks, err := o.list("content")
	if err != nil {
		return err
	}
	lastCalls := false
	for i, raw := range blocks {
		place := fmt.Sprintf("content[%d]", i)
		block, err := toObject(raw)
		if err != nil {
			return at(place, err)
		}
		if lastCalls = block.is("type", "tool_use"); lastCalls {
			l.toolUse(place, block)
		}
	}
	// The input of a block is mended by the server, so that it does not show where it was cut.
	if lastCalls && o.is("stop_reason", "max_tokens", "model_context_window_exceeded", "refusal") {
		l.cutOff(0, "stop_reason "+o.glance("stop_reason"))
	}
	return nil
}

func (l *Line) toolUse(place string, o object) {
	var id string
	var toolset json.RawMessage
	if o.has("toolset_name") {
		toolset = o["toolset_name"]
	}
	noID := o.needed("id", &id)
	c := Call{reply: func(text string, isError bool) any { return toolResult{"tool_result", id, toolset, text, isError} }}
	noName, noInput := o.needed("name", &c.Tool), o.value("input", &c)
	l.add(place, id, c, noID, noName, noInput)
}
