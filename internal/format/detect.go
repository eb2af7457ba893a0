package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mulligan/internal/suggest"
)

// errOwn says that a line is for Parse: it is of our own format, or of none
// and best told what is wrong by it.
var errOwn = errors.New("a line of our own")

// marks: a line of another format than ours has one of these names.
var marks = [][]byte{
	[]byte(`"type"`), []byte(`"role"`), []byte(`"tool_calls"`), []byte(`"function_call"`), []byte(`"choices"`), []byte(`"output"`),
	[]byte(`"jsonrpc"`), []byte(`"method"`), []byte(`"custom_id"`), []byte(`"arguments"`), []byte(`"content"`), []byte(`"id"`), []byte(`\u`),
}

// plain says that a line can be seen not to be of another format than ours
// without reading it, which spares most of what finding out would cost.
func plain(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return bytes.HasPrefix(line, []byte{'{'}) && bytes.Contains(line, []byte(`"tool"`)) && !slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(line, m) })
}

func read(line []byte, f Format) (Line, error) {
	line = bytes.TrimSpace(line)
	if i := badByte(line); i >= 0 {
		return Line{}, unless(f, fmt.Errorf("byte %d of the line (0x%02x) is not valid UTF-8", i, line[i]))
	}
	if bytes.HasPrefix(line, []byte{'['}) {
		return readItems(line, f)
	}
	o, err := toObject(line)
	if err != nil {
		if found := detect(o, f); f == Auto && found != "" && found != Mulligan {
			f = found
		}
		return Line{}, unless(f, err)
	}
	l := Line{}
	if o, err = l.unbatch(o); err != nil {
		return l, err
	}
	if l.Format, err = choose(o, f); err != nil {
		return l, err
	}
	return l, l.take(o)
}

// unless gives way to what Parse says of a line that was not to be of a
// certain format.
func unless(f Format, err error) error {
	if f == Auto {
		return errOwn
	}
	return at("as "+string(f), err)
}

// choose finds the format of an object, which must be the one asked for.
func choose(o object, f Format) (Format, error) {
	found := detect(o, f)
	switch {
	case f == Auto && (found == Mulligan || found == "" && !o.has("type") && (len(o) == 0 || o.seemsOwn())):
		return "", errOwn
	case found == "":
		return "", fmt.Errorf("is no call of a format that is known, but an object with %s; known are "+
			`{"tool": "echo", "input": {}}, messages, items and responses with tool calls, and requests of MCP (docs/formats.md)`, o.fields())
	case f != Auto && found != f:
		return "", fmt.Errorf("looks like a line of format %s and not of %s, with %s; give --format %s, or none", found, f, o.fields(), found)
	}
	return found, nil
}

// seemsOwn says that an object has a field of ours, or one that was to be its
// tool: what is wrong with it is then told of that field.
func (o object) seemsOwn() bool {
	return slices.ContainsFunc(fields(), o.has) || slices.ContainsFunc(slices.Collect(maps.Keys(o)), func(name string) bool {
		return suggest.Meant(name, []string{"tool"}) != ""
	})
}

// detect tells formats apart by what only one of them has; empty for none. A
// message that calls nothing may be of several, so also of the one asked for.
func detect(o object, f Format) Format {
	switch {
	case o.has("tool") && !(o.has("type") && o["tool"][0] == '{'): // as in tool_addition of Anthropic
		return Mulligan
	case o.has("jsonrpc"), o.is("method", "tools/call"):
		return MCP
	case o.is("type", "function_call", "custom_tool_call"), o.is("object", "response"):
		return OpenAIResponses
	case o.is("type", "tool_use"):
		return Anthropic
	case o.is("type", "function") && o.has("function"), o.is("type", "custom") && o.has("custom"),
		o.has("choices"), o.has("tool_calls"):
		return OpenAIChat
	case o.has("role") && f != Auto && f != MCP:
		return f
	case o.has("role") && o.has("content") && o["content"][0] == '[':
		return Anthropic
	case o.has("role"):
		return OpenAIChat
	}
	return ""
}

// take reads the calls of an object.
func (l *Line) take(o object) error {
	switch l.Format {
	case OpenAIChat:
		return l.chat(o)
	case OpenAIResponses:
		return l.responses(o)
	case Anthropic:
		return l.anthropic(o)
	default:
		return l.mcp(o)
	}
}

// readItems reads a list of calls of one format. What else stands in a list
// that a model wrote, such as text, is passed over.
func readItems(line []byte, f Format) (Line, error) {
	var list []json.RawMessage
	if json.Unmarshal(line, &list) != nil {
		return Line{}, unless(f, errors.New("is not JSON"))
	}
	l := Line{shape: items}
	for i, raw := range list {
		o, err := toObject(raw)
		if err != nil {
			return l, unless(f, fmt.Errorf("item %d: %w", i, err))
		}
		found := detect(o, f)
		switch {
		case o.has("role") || found == Mulligan:
			return l, unless(f, fmt.Errorf("item %d is no call by itself; write each message as a line", i))
		case found == "":
			continue
		case f != Auto && found != f || l.Format != "" && found != l.Format:
			return l, fmt.Errorf("item %d looks like one of format %s; a list holds calls of one format, and of that of --format", i, found)
		}
		l.Format = found
		if err := l.item(i, o); err != nil {
			return l, err
		}
	}
	if l.Format == "" {
		return l, unless(f, errors.New("is a list without a call"))
	}
	return l, nil
}

func (l *Line) item(i int, o object) error {
	from, place := len(l.Calls), fmt.Sprintf("item %d", i)
	err := l.take(o)
	l.shape = items
	for k := range l.Calls[from:] {
		if c := &l.Calls[from+k]; c.Err != nil {
			c.Err = at(place, c.Err)
		}
	}
	return at(place, err)
}

// unbatch takes what a model said out of a line of the results of a batch.
func (l *Line) unbatch(o object) (object, error) {
	if !o.has("custom_id") || o.has("tool") || o.has("jsonrpc") {
		return o, nil
	}
	var id string
	if err := text("custom_id", o["custom_id"], &id); err != nil {
		return nil, err
	}
	l.custom = o["custom_id"]
	switch {
	case o.has("response"):
		response, err := o.inner("response")
		if err != nil {
			return nil, err
		}
		body, err := response.inner("body")
		if err == nil && body.has("error") && !body.has("id") {
			return nil, unanswered(body["error"])
		}
		return body, at("response", err)
	case o.has("result"):
		result, err := o.inner("result")
		switch {
		case err != nil:
			return nil, err
		case !result.has("message"):
			return nil, unanswered(o["result"])
		}
		message, err := result.inner("message")
		return message, at("result", err)
	case o.has("error"):
		return nil, unanswered(o["error"])
	case o.has("body"), o.has("params"):
		return nil, errors.New("is a request of a batch, which calls nothing; give the file of its results")
	}
	return o, nil
}

func unanswered(why []byte) error {
	return fmt.Errorf("no model answered this request of the batch, so there is no call: %s; send it again", excerpt(why))
}
