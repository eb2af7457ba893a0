package cli

import (
	"fmt"

	"mulligan/pkg/tool"
	"mulligan/pkg/tool/builtin"
	"mulligan/pkg/tool/exectool"
)

// loadTools gives the built-in tools and those that the files declare.
func loadTools(files []string) ([]*tool.Tool, error) { return fileTools(files, true) }

func fileTools(files []string, withBuiltin bool) ([]*tool.Tool, error) {
	var out []*tool.Tool
	from := make(map[string]string)
	if withBuiltin {
		out = builtin.Tools()
		for _, t := range out {
			from[t.Name()] = "a built-in tool"
		}
	}
	for _, path := range files {
		tools, err := exectool.Load(path)
		if err != nil {
			return nil, fmt.Errorf("--tools: %w", err)
		}
		for _, t := range tools {
			if other, twice := from[t.Name()]; twice {
				return nil, fmt.Errorf("--tools: %s: tool %q is there already, as %s; names are unique in a pool", path, t.Name(), other)
			}
			from[t.Name()] = "one of " + path
		}
		out = append(out, tools...)
	}
	return out, nil
}
