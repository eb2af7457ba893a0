package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Tool is a tool as it is listed; its JSON form is that of `mulligan tools -o json`.
type Tool struct {
	messages.ToolSpec
	State   string   `json:"state"` // live, late, withdrawn
	Workers []string `json:"workers"`
	// PolicyEffect is what a policy says in place of the declared effect.
	PolicyEffect messages.Effect `json:"policy_effect,omitempty"`
	// Breaker is the circuit breaker as it stands; null where nothing was counted.
	Breaker *messages.Breaker `json:"breaker"`
}

// Entries is where the registry is read.
type Entries interface {
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
}

// Source is the pool's broker.
type Source interface {
	Entries
	Values
}

// Read gives the tools of the pool as they stand at now, in order of their
// names, and its policies. What cannot be read, as of another version, is told
// to warn and left out.
func Read(ctx context.Context, src Source, now time.Time, warn func(format string, args ...any)) ([]Tool, recovery.Document, error) {
	tools, err := Tools(ctx, src, warn)
	if err != nil {
		return nil, recovery.Document{}, err
	}
	h, err := Policies(ctx, src)
	if err != nil {
		warn("%v; tools are shown as they declare themselves", err)
	}
	breakers, err := breakers(ctx, src, warn)
	if err != nil {
		warn("%v; tools are shown without", err)
	}
	for i, t := range tools {
		tools[i].PolicyEffect = Override(h.Read, t.ToolSpec)
		if b, ok := breakers[t.Name]; ok {
			b = b.At(now)
			tools[i].Breaker = &b
		}
	}
	return tools, h.Read, nil
}

// Tools gives the tools as they were offered, without policies and breakers.
func Tools(ctx context.Context, src Entries, warn func(format string, args ...any)) ([]Tool, error) {
	offers, err := src.Entries(ctx, messages.BucketTools, "offer.>")
	if err != nil {
		return nil, fmt.Errorf("read the offers: %w", err)
	}
	workers := make(map[string][]string)
	for _, e := range offers {
		var o messages.Offer
		if err := json.Unmarshal(e.Value, &o); err != nil {
			continue // of another version; the tool is then shown without it
		}
		for _, name := range o.Tools {
			workers[name] = append(workers[name], o.Worker)
		}
	}
	found, err := src.Entries(ctx, messages.BucketTools, "tool.>")
	if err != nil {
		return nil, fmt.Errorf("read the tools: %w", err)
	}
	var out []Tool
	for _, e := range found {
		var t messages.Tool
		err := json.Unmarshal(e.Value, &t)
		if err == nil {
			err = t.Spec.Validate()
		}
		if err != nil {
			warn("the entry %s cannot be read and is left out: %v", e.Key, err)
			continue
		}
		entry := Tool{ToolSpec: t.Spec, State: "late", Workers: workers[t.Spec.Name]}
		switch {
		case len(entry.Workers) > 0:
			entry.State = "live"
		case t.Withdrawn:
			entry.State = "withdrawn"
		}
		slices.Sort(entry.Workers)
		out = append(out, entry)
	}
	slices.SortFunc(out, func(x, y Tool) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// breakers are those of the pool, by tool.
func breakers(ctx context.Context, src Entries, warn func(format string, args ...any)) (map[string]messages.Breaker, error) {
	found, err := src.Entries(ctx, messages.BucketControl, messages.BreakerPrefix+">")
	if err != nil {
		return nil, fmt.Errorf("read the breakers: %w", err)
	}
	out := make(map[string]messages.Breaker)
	for _, e := range found {
		b, err := messages.DecodeBreaker(e.Value)
		if err != nil {
			warn("the entry %s cannot be read and is left out: %v", e.Key, err)
			continue
		}
		out[b.Tool] = b
	}
	return out, nil
}
