package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mulligan/internal/catalogue"
	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// lookEvery is how often it is looked whether the tools changed. The role of a
// submitter may read the registry and not follow it.
const lookEvery = 2 * time.Second

// Registry keeps what a pool can call, and tells the servers that share it.
type Registry struct {
	src catalogue.Source
	log *slog.Logger

	mu      sync.Mutex
	read    bool
	tools   []catalogue.Tool
	servers map[*Server]struct{}
}

// NewRegistry makes a registry that knows no tools before its first [Registry.Read].
func NewRegistry(src catalogue.Source, log *slog.Logger) *Registry {
	return &Registry{src: src, log: cmp.Or(log, slog.New(slog.DiscardHandler)), servers: make(map[*Server]struct{})}
}

// Read reads the tools of the pool once: all that it takes calls of, which
// those of withdrawn tools are not (S6).
func (r *Registry) Read(ctx context.Context) error {
	warn := func(format string, args ...any) { r.log.Debug("tools: " + fmt.Sprintf(format, args...)) }
	found, err := catalogue.Tools(ctx, r.src, warn)
	if err != nil {
		return err
	}
	held, err := catalogue.Policies(ctx, r.src)
	if err != nil {
		warn("%v; tools are shown as they declare themselves", err)
	}
	var tools []catalogue.Tool
	for _, t := range found {
		if t.State == "withdrawn" {
			continue
		}
		t.PolicyEffect = catalogue.Override(held.Read, t.ToolSpec)
		tools = append(tools, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools, r.read = tools, true
	for s := range r.servers {
		s.offer(tools)
	}
	return nil
}

// Follow reads again and again until ctx is done; every is the pause between,
// and 0 means two seconds. A pool that does not answer is asked again: what was
// known of its tools stays.
func (r *Registry) Follow(ctx context.Context, every time.Duration) {
	every = cmp.Or(every, lookEvery)
	told := false
	for {
		err := r.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !told:
			r.log.Warn("the tools of the pool cannot be read; what was known of them stays", "error", err)
		}
		told = err != nil
		if !pace.Sleep(ctx, every) {
			return
		}
	}
}

// add makes a server hear of tools.
func (r *Registry) add(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers[s] = struct{}{}
	if r.read {
		s.offer(r.tools)
	}
}

func (r *Registry) remove(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.servers, s)
}

// effect is what holds for a tool, whether it or a policy says so.
func effect(t catalogue.Tool) messages.Effect { return cmp.Or(t.PolicyEffect, t.Effect) }
