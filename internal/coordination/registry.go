package coordination

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// registry is what TOOLS holds, kept by a watch: a submission asks it for every
// call and must not wait for a read.
type registry struct {
	broker  registryBroker
	grace   time.Duration
	schemas *schema.Cache

	mu        sync.RWMutex
	tools     map[string]*registered    // by name
	offers    map[string]messages.Offer // by key
	live      map[string]int            // offers that list the tool
	withdrawn map[string]time.Time      // when we saw it, for the grace
}

// registryBroker reads TOOLS where the watch may be behind.
type registryBroker interface {
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
}

// registered is a tool with its schema, compiled once. It does not change.
type registered struct {
	messages.Tool
	schema *schema.Schema // any object will do, when the tool's own cannot be compiled
}

// presence says whether a tool is served.
type presence int

const (
	unknownTool presence = iota // never registered
	goneTool                    // withdrawn, and the grace is over
	lateTool                    // its offers have lapsed, or were withdrawn just now: its calls wait
	liveTool                    // a worker offers it
)

func newRegistry(b registryBroker, grace time.Duration, schemas *schema.Cache) *registry {
	return &registry{broker: b, grace: grace, schemas: schemas, tools: make(map[string]*registered),
		offers: make(map[string]messages.Offer), live: make(map[string]int), withdrawn: make(map[string]time.Time)}
}

// apply takes an entry of TOOLS, as the watch brings it.
func (r *registry) apply(e messages.Entry) {
	switch {
	case strings.HasPrefix(e.Key, "tool."):
		r.applyTool(e)
	case strings.HasPrefix(e.Key, "offer."):
		r.applyOffer(e)
	}
}

func (r *registry) applyTool(e messages.Entry) {
	name, err := messages.Name(strings.TrimPrefix(e.Key, "tool."))
	if err != nil {
		return
	}
	var t *registered
	if !e.Deleted {
		t = r.compile(e.Value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t == nil {
		delete(r.tools, name)
		delete(r.withdrawn, name)
		return
	}
	r.tools[name] = t
	if _, known := r.withdrawn[name]; t.Withdrawn && !known {
		r.withdrawn[name] = time.Now()
	} else if !t.Withdrawn {
		delete(r.withdrawn, name)
	}
}

func (r *registry) compile(value []byte) *registered {
	var t registered
	if json.Unmarshal(value, &t.Tool) != nil {
		return nil
	}
	t.Spec = t.Spec.WithDefaults()
	s, err := r.schemas.Compile(t.Spec.Schema)
	if err != nil { // checked when it was offered, so by a version that took more
		s, _ = r.schemas.Compile(nil)
	}
	t.schema = s
	return &t
}

func (r *registry) applyOffer(e messages.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.offers[e.Key].Tools {
		if r.live[name]--; r.live[name] <= 0 {
			delete(r.live, name)
		}
	}
	delete(r.offers, e.Key)
	var o messages.Offer
	if e.Deleted || json.Unmarshal(e.Value, &o) != nil {
		return
	}
	r.offers[e.Key] = o
	for _, name := range o.Tools {
		r.live[name]++
	}
}

// find looks a tool up. One that the watch has not brought yet may have been
// registered a moment ago through another coordinator, so TOOLS is asked.
func (r *registry) find(ctx context.Context, name string) (*registered, presence) {
	if t, p := r.known(name); p != unknownTool {
		return t, p
	}
	e, err := r.broker.Load(ctx, messages.BucketTools, messages.ToolKey(name))
	if err != nil {
		return nil, unknownTool
	}
	t := r.compile(e.Value)
	if t == nil || t.Withdrawn {
		return nil, unknownTool
	}
	return t, lateTool // its offer follows
}

func (r *registry) known(name string) (*registered, presence) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t := r.tools[name]
	return t, r.presenceOf(t)
}

// presenceOf wants the lock held.
func (r *registry) presenceOf(t *registered) presence {
	switch {
	case t == nil:
		return unknownTool
	case r.live[t.Spec.Name] > 0:
		return liveTool
	case t.Withdrawn && time.Since(r.withdrawn[t.Spec.Name]) >= r.grace:
		return goneTool
	}
	return lateTool
}

// served are the names of the tools that a call may ask for, sorted.
func (r *registry) served() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var names []string
	for name, t := range r.tools {
		if r.presenceOf(t) >= lateTool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// servedNow is served, with the tools that the watch has yet to bring.
func (r *registry) servedNow(ctx context.Context) []string {
	names := r.served()
	entries, err := r.broker.Entries(ctx, messages.BucketTools, "tool.>")
	if err != nil {
		return names
	}
	for _, e := range entries {
		name, err := messages.Name(strings.TrimPrefix(e.Key, "tool."))
		if err != nil {
			continue
		}
		if _, at := r.known(name); at != unknownTool {
			continue
		}
		if t := r.compile(e.Value); t != nil && !t.Withdrawn {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// all are the tools that were ever registered, withdrawn ones among them.
func (r *registry) all() []messages.ToolSpec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []messages.ToolSpec
	for _, t := range r.tools {
		out = append(out, t.Spec)
	}
	return out
}

// hasQueue says whether any tool, live or not, is in the queue.
func (r *registry) hasQueue(queue string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, t := range r.tools {
		if t.Spec.Queue == queue {
			return true
		}
	}
	return false
}

// deserted are the queues without any live tool in which a tool is gone: their
// calls have nobody to tell them.
func (r *registry) deserted() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	live, gone := make(map[string]bool), make(map[string]bool)
	for _, t := range r.tools {
		switch r.presenceOf(t) {
		case liveTool:
			live[t.Spec.Queue] = true
		case goneTool:
			gone[t.Spec.Queue] = true
		}
	}
	var queues []string
	for q := range gone {
		if !live[q] {
			queues = append(queues, q)
		}
	}
	slices.Sort(queues)
	return queues
}

// tool is what a step may know of a tool.
func (c *Coordinator) tool(ctx context.Context, name string) (dispatch.Tool, bool) {
	t, p := c.registry.find(ctx, name)
	if p == unknownTool {
		return dispatch.Tool{}, false
	}
	out := dispatch.Tool{Spec: t.Spec}
	out.Spec.Effect = c.policies.Effect(t.Spec)
	if !c.policies.For(t.Spec.Queue, name, nil).Covers(name) {
		out.Unusable = "it is excluded by the policy"
	}
	if p == goneTool {
		out.Unusable = "its last worker withdrew it"
	}
	if !t.schema.Trivial() {
		out.Validate = t.schema.Validate
	}
	return out, true
}
