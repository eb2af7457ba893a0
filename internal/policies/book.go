// Package policies follows the policies of a pool, which stand in CONTROL, and
// answers which one holds for a call. Coordinators and reflectors share it, so
// that both mean the same.
package policies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"mulligan/pkg/hook"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// Book holds the newest document that could be read. Its methods may be called
// concurrently.
type Book struct {
	log   *slog.Logger
	noted hook.Noted
	base  compiled // holds while the pool has none

	mu       sync.RWMutex
	compiled // what holds now
	revision uint64
	known    map[string]recovery.Policy // by queue, tool and what the call brings
}

// mostKnown bounds what is remembered; it is forgotten all at once.
const mostKnown = 4096

// NewBook makes a book in which base stands while the pool has no document.
// noted is told what notes find; nil where nobody asks the hooks.
func NewBook(base recovery.Document, noted hook.Noted, log *slog.Logger) (*Book, error) {
	c, err := compile(base, noted)
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	return &Book{log: log, noted: noted, base: c, compiled: c, known: make(map[string]recovery.Policy)}, nil
}

// Apply takes an entry of CONTROL, as a watch brings it. A document that cannot
// be read is said and changes nothing: the last good one holds.
func (b *Book) Apply(e messages.Entry) {
	if e.Key != messages.PolicyKey {
		return
	}
	c, err := b.read(e)
	if err != nil {
		b.log.Error("the policies of the pool cannot be read; what held before still holds", "revision", e.Revision, "error", err)
		return
	}
	b.mu.Lock()
	b.compiled, b.revision = c, e.Revision
	clear(b.known)
	b.mu.Unlock()
	b.log.Info("the policies of the pool hold from now on", "revision", e.Revision)
}

func (b *Book) read(e messages.Entry) (compiled, error) {
	if e.Deleted {
		return b.base, nil
	}
	entry, err := messages.DecodePolicies(e.Value)
	if err != nil {
		return compiled{}, err
	}
	if entry.Document == nil {
		return b.base, nil
	}
	d, err := recovery.ReadDocument(entry.Document)
	if err != nil {
		return compiled{}, err
	}
	return compile(d, b.noted)
}

// Revision is that of the document in CONTROL, 0 for none.
func (b *Book) Revision() uint64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.revision
}

// Hooks are those of the document, nil for none. They are asked for at every
// dispatch and cost next to nothing.
func (b *Book) Hooks() *hook.Chain {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.hooks
}

// Effect is that of a tool: what the policies say, else what it declared. It
// costs next to nothing where they say nothing, since it is asked for every
// call that is submitted.
func (b *Book) Effect(t messages.ToolSpec) messages.Effect {
	if !b.SaysEffects() {
		return t.Effect
	}
	return cmp.Or(b.For(t.Queue, t.Name, nil).Effect, t.Effect)
}

// SaysEffects says whether the policies override the effect of any tool.
func (b *Book) SaysEffects() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.effects
}

// Rules are those that the document adds, nil for none, and its revision.
func (b *Book) Rules() (*rules.Custom, uint64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.rules, b.revision
}

// For is the policy for a call of a tool; raw is what the call brings, nil for
// nothing. What a call brings and cannot be used was refused when it was
// submitted; where it meets a document that it does not fit, it is left out.
func (b *Book) For(queue, tool string, raw json.RawMessage) recovery.Policy {
	key := queue + "\x00" + tool + "\x00" + string(raw)
	b.mu.RLock()
	p, ok := b.known[key]
	d, revision := b.document, b.revision
	b.mu.RUnlock()
	if ok {
		return p
	}
	p = b.effective(d, queue, tool, raw)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revision != revision { // of a document that is gone by now
		return p
	}
	if len(b.known) >= mostKnown {
		clear(b.known)
	}
	b.known[key] = p
	return p
}

func (b *Book) effective(d recovery.Document, queue, tool string, raw json.RawMessage) recovery.Policy {
	call, err := recovery.CallValues(raw)
	if err == nil {
		var p recovery.Policy
		if p, _, err = d.Effective(queue, tool, call); err == nil {
			return p
		}
	}
	b.log.Warn("a policy cannot be used as it is", "tool", tool, "queue", queue, "error", err)
	if p, _, err := d.Effective(queue, tool, nil); err == nil {
		return p
	}
	if p, _, err := d.Effective("", "", nil); err == nil {
		return p
	}
	return recovery.ServicePolicy()
}
