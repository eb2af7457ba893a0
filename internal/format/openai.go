package format

import (
	"encoding/json"
	"errors"
	"fmt"
)

// toolMessage answers a tool call of a chat message.
type toolMessage struct {
	Role    string `json:"role"`
	ID      string `json:"tool_call_id"`
	Content string `json:"content"`
}

// functionMessage answers the one call of a message of the time before tools.
type functionMessage struct {
	Role    string `json:"role"`
	Name    string `json:"name"`
	Content string `json:"content"`
}

// chat reads a call by itself, a message, or a whole completion.
func (l *Line) chat(o object) error {
	switch {
	case o.has("choices"):
		l.shape = whole
		return l.completion(o)
	case o.is("type", "function", "custom"):
		l.chatCall("", o)
		return nil
	}
	l.shape = whole
	return l.chatMessage("", o)
}

// completion reads the message of each choice. Choices are alternatives: where
// several call something, running all would do what one of them was to do
// several times.
func (l *Line) completion(o object) error {
	choices, err := o.list("choices")
	if err != nil {
		return err
	}
	calling := 0
	for i, raw := range choices {
		place := fmt.Sprintf("choices[%d]", i)
		choice, err := toObject(raw)
		if err != nil {
			return at(place, err)
		}
		if !choice.has("message") && choice.has("delta") {
			return errors.New("is a piece of a stream; put the pieces together and give the message that they make")
		}
		message, err := choice.inner("message")
		if err != nil {
			return at(place, err)
		}
		from := len(l.Calls)
		if err := l.chatMessage(place+".message", message); err != nil {
			return err
		}
		if choice.is("finish_reason", "length", "content_filter") {
			l.cutOff(from, "finish_reason "+choice.glance("finish_reason"))
		}
		if len(l.Calls) > from {
			calling++
		}
	}
	for i := range l.Calls {
		if calling > 1 {
			l.Calls[i].Err = fmt.Errorf("%d choices of the completion call tools, and only one of them can go on; give the message of that one", calling)
		}
	}
	return nil
}

func (l *Line) chatMessage(place string, o object) error {
	if o.has("role") && !o.is("role", "assistant") {
		return at(place, fmt.Errorf("is a message of role %s, which calls nothing; give that of the assistant", excerpt(o["role"])))
	}
	calls, err := o.list("tool_calls")
	if err != nil {
		return at(place, err)
	}
	for i, raw := range calls {
		in := fmt.Sprintf("tool_calls[%d]", i)
		call, err := toObject(raw)
		if err != nil {
			return at(place, at(in, err))
		}
		l.chatCall(in, call)
	}
	if o.has("function_call") {
		call, err := o.inner("function_call")
		if err != nil {
			return at(place, err)
		}
		l.functionCall(call)
	}
	return nil
}

// chatCall reads a tool call: of a function with arguments, or of a custom
// tool with a text.
func (l *Line) chatCall(place string, o object) {
	kind, input := "function", "arguments"
	if o.is("type", "custom") {
		kind, input = "custom", "input"
	}
	var id string
	noID := o.needed("id", &id)
	in, noCall := o.inner(kind)
	c := Call{reply: func(text string, _ bool) any { return toolMessage{"tool", id, text} }}
	noName, noInput := in.needed("name", &c.Tool), in.arguments(input, &c)
	l.add(place, id, c, noID, noCall, noName, noInput)
}

func (l *Line) functionCall(o object) {
	var name string
	noName := o.needed("name", &name)
	c := Call{reply: func(text string, _ bool) any { return functionMessage{"function", name, text} }}
	c.Tool = name
	noInput := o.arguments("arguments", &c)
	l.add("function_call", "", c, noName, noInput)
}

// output answers an item of a response.
type output struct {
	Type   string          `json:"type"`
	ID     string          `json:"call_id"`
	Caller json.RawMessage `json:"caller,omitempty"`
	Output string          `json:"output"`
}

// responses reads an item by itself, or the items of a whole response.
func (l *Line) responses(o object) error {
	if !o.is("object", "response") && !o.has("role") {
		l.responseItem("", o)
		return nil
	}
	l.shape = whole
	list, err := o.list("output")
	if err != nil {
		return err
	}
	lastCalls := false
	for i, raw := range list {
		place := fmt.Sprintf("output[%d]", i)
		item, err := toObject(raw)
		if err != nil {
			return at(place, err)
		}
		if lastCalls = item.is("type", "function_call", "custom_tool_call"); lastCalls {
			l.responseItem(place, item)
		}
	}
	if lastCalls && o.has("status") && !o.is("status", "completed") {
		l.cutOff(0, "the response is "+o.glance("status"))
	}
	return nil
}

func (l *Line) responseItem(place string, o object) {
	kind, input := "function_call_output", "arguments"
	if o.is("type", "custom_tool_call") {
		kind, input = "custom_tool_call_output", "input"
	}
	var id string
	noID := o.needed("call_id", &id)
	var caller json.RawMessage
	if o.has("caller") {
		caller = o["caller"]
	}
	c := Call{reply: func(text string, _ bool) any { return output{kind, id, caller, text} }}
	noName, noInput := o.needed("name", &c.Tool), o.arguments(input, &c)
	l.add(place, id, c, noID, noName, noInput)
	if o.is("status", "incomplete", "in_progress") {
		l.cutOff(len(l.Calls)-1, "its status is "+o.glance("status"))
	}
}
