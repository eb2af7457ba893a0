// Package binding offers the tools of a running shop to a pool. Each tool is
// one request to the shop, and its result is what the shop answered, byte for
// byte. Readers are declared read_only and writers unsafe, since the shop does
// a thing twice when it is asked twice, whatever key it is given.
package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mulligan/examples/shop/tools"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Shop executes tools. An error is one of those of package shopclient, whose
// [*shopclient.Client] is a Shop.
type Shop interface {
	Call(ctx context.Context, run, call, key, tool string, input []byte) (output string, isError bool, err error)
}

// Config says what is offered.
type Config struct {
	// Shop is asked by every tool. Required.
	Shop Shop
	// NoSchemas offers the tools without their schemas. Then any JSON object
	// reaches the shop, and what is wrong with it comes back in the shop's own
	// words; with schemas such a call fails at its submission, in Mulligan's.
	NoSchemas bool
	// Also are names that the shop does not have, and that are offered all the
	// same, in the queue of their domain. The shop answers such a call as it
	// answers any name that it does not know, where Mulligan alone would refuse
	// it at submission. It is meant for replaying what a model did that called
	// such a tool. Nothing is known about it, so it is unsafe.
	Also []string
}

// Tools are those that a worker serves.
func Tools(c Config) ([]*tool.Tool, error) {
	if c.Shop == nil {
		return nil, errors.New("shop tools: Shop is nil: give a client of a running shop")
	}
	var out []*tool.Tool
	known := make(map[string]bool)
	for _, s := range tools.Tools() {
		known[s.Name] = true
		schema := s.Schema
		if c.NoSchemas {
			schema = nil
		}
		out = append(out, c.tool(s.Name, s.Domain, messages.Effect(s.Effect), schema, tool.Description(s.Description)))
	}
	for _, name := range c.Also {
		domain, _, _ := strings.Cut(name, "/")
		switch {
		case known[name]:
			continue
		case !slices.Contains([]string{tools.Retail, tools.Airline}, domain):
			return nil, fmt.Errorf("shop tools: %q has no domain of the shop: write %s/… or %s/…", name, tools.Retail, tools.Airline)
		}
		known[name] = true
		out = append(out, c.tool(name, domain, messages.Unsafe, nil))
	}
	for _, t := range out {
		if err := t.Err(); err != nil {
			return nil, fmt.Errorf("shop tools: %w", err)
		}
	}
	return out, nil
}

func (c Config) tool(name, domain string, effect messages.Effect, schema json.RawMessage, more ...tool.Option) *tool.Tool {
	options := append([]tool.Option{tool.Queue(domain), tool.Effect(effect)}, more...)
	return tool.Raw(name, schema, func(ctx context.Context, call tool.Call) (tool.Output, error) {
		run, id := names(call)
		output, isError, err := c.Shop.Call(ctx, run, id, call.Key, name, call.Input)
		switch {
		case err != nil:
			return tool.Output{}, failure(ctx, err)
		case isError:
			return tool.Output{}, tool.Failed([]byte(output))
		}
		return tool.Output{Body: []byte(output)}, nil
	}, options...)
}

// names are the run and the call as the shop knows them. The submitter's ref is
// the call where there is one, so that faults strike in the same places when
// the same file is submitted again; whoever counts effects by it needs refs that
// are unique within a run. A call without a run has a state of its own.
func names(c tool.Call) (run, call string) {
	call = c.Ref
	if call == "" {
		call = c.ID
	}
	if run = c.Run.Name(); run == "" {
		run = c.ID
	}
	return run, call
}
