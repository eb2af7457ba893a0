package worker

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// presence is how a tool that is not here is served elsewhere.
type presence int

const (
	goneTool presence = iota // never registered, or its last offer was withdrawn
	lateTool                 // its offers have only lapsed: its calls wait
	liveTool                 // another worker offers it
)

const registryFresh = time.Second

// registry looks up tools that this worker does not have. It is read when one
// is met and not watched, since offers are renewed by every worker all the
// time and a queue whose workers agree never needs it.
type registry struct {
	broker Registry

	mu     sync.Mutex // also held while reading, so that many calls cause one look
	read   time.Time
	tools  map[string]presence
	served []string // names of live tools, sorted
}

func newRegistry(b Registry) *registry { return &registry{broker: b} }

func (r *registry) find(ctx context.Context, name string) (presence, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.read) >= registryFresh {
		if err := r.look(ctx); err != nil {
			return goneTool, err
		}
	}
	return r.tools[name], nil
}

func (r *registry) look(ctx context.Context) error {
	tools, err := r.broker.Entries(ctx, messages.BucketTools, "tool.>")
	if err != nil {
		return err
	}
	offers, err := r.broker.Entries(ctx, messages.BucketTools, "offer.>")
	if err != nil {
		return err
	}
	all := make(map[string]presence, len(tools))
	for _, e := range tools {
		var t messages.Tool
		if json.Unmarshal(e.Value, &t) == nil && !t.Withdrawn {
			all[t.Spec.Name] = lateTool
		}
	}
	var served []string
	for _, e := range offers {
		var o messages.Offer
		if json.Unmarshal(e.Value, &o) != nil {
			continue
		}
		for _, name := range o.Tools {
			if all[name] != liveTool {
				all[name] = liveTool
				served = append(served, name)
			}
		}
	}
	slices.Sort(served)
	r.tools, r.served, r.read = all, served, time.Now()
	return nil
}

// notFound is the text of a call whose tool is served by nobody (S6).
func (r *registry) notFound(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return suggest.ToolNotFound(name, r.served)
}
