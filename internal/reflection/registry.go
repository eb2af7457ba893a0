package reflection

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"mulligan/pkg/messages"
)

// registry follows TOOLS: which tools there are, and which some worker offers.
// A damaged entry counts as none.
type registry struct {
	mu     sync.Mutex
	tools  map[string]messages.Tool // by name
	offers map[string][]string      // names of tools, by key of the offer
	last   *snapshot                // nil when something changed since
}

// snapshot does not change.
type snapshot struct {
	byName map[string]messages.ToolSpec
	live   []messages.ToolSpec // those that some worker offers, by name
}

func (r *registry) apply(e messages.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tools == nil {
		r.tools, r.offers = map[string]messages.Tool{}, map[string][]string{}
	}
	kind, token, _ := strings.Cut(e.Key, ".")
	name, err := messages.Name(token)
	if err != nil {
		return
	}
	switch kind {
	case "tool":
		delete(r.tools, name)
		var t messages.Tool
		if !e.Deleted && json.Unmarshal(e.Value, &t) == nil {
			r.tools[name] = t
		}
		r.last = nil
	case "offer":
		var o messages.Offer
		if !e.Deleted && json.Unmarshal(e.Value, &o) != nil {
			return
		}
		if !slices.Equal(o.Tools, r.offers[name]) { // a renewal changes nothing
			r.last = nil
		}
		r.offers[name] = o.Tools
		if e.Deleted {
			delete(r.offers, name)
		}
	}
}

func (r *registry) live() *snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last
	}
	s := &snapshot{byName: make(map[string]messages.ToolSpec, len(r.tools))}
	offered := map[string]bool{}
	for _, names := range r.offers {
		for _, n := range names {
			offered[n] = true
		}
	}
	for name, t := range r.tools {
		s.byName[name] = t.Spec
		if offered[name] && !t.Withdrawn {
			s.live = append(s.live, t.Spec)
		}
	}
	slices.SortFunc(s.live, func(a, b messages.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	r.last = s
	return s
}

func (s *snapshot) schema(tool string) json.RawMessage { return s.byName[tool].Schema }
