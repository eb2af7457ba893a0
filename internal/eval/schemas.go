package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mulligan/examples/shop/corpus"
	"mulligan/pkg/messages"
)

// Schemas are the tools of a corpus, as their servers declared them. The zero
// value knows none.
type Schemas struct {
	byServer map[string][]messages.ToolSpec // under the names that they have there
}

// declared is a line of the file of tools. Fields that it does not name are
// left out.
type declared struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Annotations struct {
		ReadOnly   bool `json:"readOnlyHint"`
		Idempotent bool `json:"idempotentHint"`
	} `json:"annotations"`
}

// effect is what the annotations promise; a tool that says nothing is unsafe.
func (d declared) effect() messages.Effect {
	switch {
	case d.Annotations.ReadOnly:
		return messages.ReadOnly
	case d.Annotations.Idempotent:
		return messages.Idempotent
	}
	return messages.Unsafe
}

// OpenSchemas reads the file of tools.
func OpenSchemas(path string) (s *Schemas, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("schemas of tools: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s, err = ReadSchemas(f); err != nil {
		return nil, fmt.Errorf("schemas of tools %s: %w", path, err)
	}
	return s, nil
}

// ReadSchemas reads one tool a line.
func ReadSchemas(r io.Reader) (*Schemas, error) {
	s := &Schemas{byServer: make(map[string][]messages.ToolSpec)}
	in := bufio.NewScanner(r)
	in.Buffer(nil, corpus.MaxLine)
	number := 0
	for in.Scan() {
		number++
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		var d declared
		if err := json.Unmarshal(in.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if d.Name == "" {
			return nil, fmt.Errorf("line %d: name is missing", number)
		}
		spec := messages.ToolSpec{Name: d.Name, Description: d.Description, Schema: d.Parameters, Effect: d.effect()}
		s.byServer[d.Server] = append(s.byServer[d.Server], spec.WithDefaults())
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d MiB, the limit", number+1, corpus.MaxLine>>20)
	}
	return s, in.Err()
}

// around are the tools that could be called where c was, under the names that
// the call would have used: those of the server in the tool's name, else those
// of the call's domain.
func (s *Schemas) around(c corpus.Call) []messages.ToolSpec {
	server, _, ok := cutLast(c.Tool, "/")
	specs := s.byServer[server]
	if !ok || len(specs) == 0 {
		return s.byServer[c.Domain]
	}
	named := make([]messages.ToolSpec, len(specs))
	for i, spec := range specs {
		named[i] = spec
		named[i].Name = server + "/" + spec.Name
	}
	return named
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
