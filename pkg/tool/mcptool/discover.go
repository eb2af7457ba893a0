package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/excerpt"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

const (
	// maxTools and maxSpecs bound what one server may offer: that many tools, and
	// so many bytes, which fit one message.
	maxTools = 1000
	maxSpecs = 768 << 10
	// maxDescription and maxVersion are what is kept of these, in bytes.
	maxDescription = 8 << 10
	maxVersion     = 64
)

// toolsOf makes tools of a server's list, and a digest that tells it from other
// lists. What cannot be used is left out: the rest of a server is not held up by
// a part of it.
func (s *Server) toolsOf(list []*mcp.Tool, about *mcp.InitializeResult) (tools []*tool.Tool, digest string, left leftOut) {
	seen := make(map[string]bool)
	size := 0
	sum := sha256.New()
	for _, t := range list {
		if !s.cfg.serves(t.Name) {
			continue
		}
		made, spec, err := s.toolOf(t, about)
		switch {
		case err != nil:
		case seen[made.Name()]:
			err = fmt.Errorf("the server names it twice")
		case len(tools) == maxTools:
			err = fmt.Errorf("a server may have %d tools: choose with include and exclude", maxTools)
		case size+len(spec) > maxSpecs:
			err = fmt.Errorf("the tools of a server may have %d bytes: choose with include and exclude", maxSpecs)
		}
		if err != nil {
			left.add(t.Name, err)
			continue
		}
		seen[made.Name()] = true
		size += len(spec)
		_, _ = sum.Write(spec) // never fails
		tools = append(tools, made)
	}
	return tools, hex.EncodeToString(sum.Sum(nil)), left
}

// leftOut are the tools that cannot be used.
type leftOut struct {
	n     int
	first string
	why   error
}

func (l *leftOut) add(name string, why error) {
	if l.n++; l.n == 1 {
		l.first, l.why = excerpt.Of(strings.ToValidUTF8(name, "\uFFFD"), 100), why
	}
}

func (s *Server) toolOf(t *mcp.Tool, about *mcp.InitializeResult) (*tool.Tool, []byte, error) {
	input, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, nil, fmt.Errorf("its schema cannot be written as JSON: %w", err)
	}
	if len(input) > messages.MaxInline {
		return nil, nil, fmt.Errorf("its schema is %d bytes long, the limit is %d", len(input), messages.MaxInline)
	}
	if t.InputSchema == nil {
		input = nil
	}
	if strings.TrimSpace(t.Name) == "" {
		return nil, nil, fmt.Errorf("its name is blank")
	}
	if _, err := schema.Compile(input); err != nil {
		return nil, nil, err
	}
	description := t.Description
	if description == "" {
		description = t.Title
	}
	version := ""
	if about != nil && about.ServerInfo != nil {
		version = about.ServerInfo.Version
	}
	theirs, name := t.Name, *s.cfg.Prefix+t.Name
	run := func(ctx context.Context, c tool.Call) (tool.Output, error) { return s.call(ctx, name, theirs, c) }
	made := tool.Raw(name, input, run, tool.Queue(s.cfg.Queue), tool.Timeout(s.cfg.Timeout), tool.Effect(s.effectOf(t)),
		tool.Description(excerpt.Of(strings.ToValidUTF8(description, "\uFFFD"), maxDescription)),
		tool.Version(excerpt.Head(strings.ToValidUTF8(version, "\uFFFD"), maxVersion)))
	if made.Err() != nil {
		return nil, nil, made.Err()
	}
	spec, err := json.Marshal(made.Spec())
	return made, spec, err
}

// effectOf is the effect of a tool: what the configuration says; else, of a
// server that is trusted, what the tool says of itself; else unsafe (S7.1, ADR 0016).
func (s *Server) effectOf(t *mcp.Tool) messages.Effect {
	if effect, ok := s.cfg.effect(t.Name); ok {
		return effect
	}
	a := t.Annotations
	switch {
	case !s.cfg.Trust || a == nil:
		return messages.Unsafe
	case a.ReadOnlyHint:
		return messages.ReadOnly
	case a.IdempotentHint:
		return messages.Idempotent
	}
	return messages.Unsafe
}
