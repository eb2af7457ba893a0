package coordination

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// Of what is noted in RUNS of the calls of a batch.
const (
	smallChunk = 16          // calls; larger chunks are noted by themselves
	listPause  = time.Second // small ones are noted together as often as this
	listedMost = 64          // calls of one entry of small chunks
	mostLists  = 1024        // batches of which small chunks wait to be noted
)

// list is what RUNS holds of a chunk of a batch, or of several small ones.
type list struct {
	batch string
	chunk int // the first
	entry messages.BatchEntry
}

// lists gathers the calls of small chunks: a client that submits its calls one
// by one would cost a write for each, and for as long as it is kept a key in RUNS.
// Nothing is decided by what RUNS says of a batch; a coordinator that is killed
// leaves out what it took in within the last moment.
type lists struct {
	mu   sync.Mutex
	open map[string]list // by batch
}

// add keeps the list of a small chunk. When there is enough to write, it gives
// that back instead.
func (l *lists) add(n list) (full list, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, known := l.open[n.batch]
	if known {
		n.chunk, n.entry.At = min(have.chunk, n.chunk), have.entry.At
		n.entry.Calls = append(have.entry.Calls, n.entry.Calls...)
	}
	if len(n.entry.Calls) >= listedMost || !known && len(l.open) >= mostLists {
		delete(l.open, n.batch)
		return n, true
	}
	if l.open == nil {
		l.open = make(map[string]list)
	}
	l.open[n.batch] = n
	return list{}, false
}

// take empties it.
func (l *lists) take() map[string]list {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.open
	l.open = nil
	return all
}

// keepLists notes what small chunks brought, now and then, until ctx is done.
func (c *Coordinator) keepLists(ctx context.Context) {
	tick := time.NewTicker(listPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.noteLists()
		case <-ctx.Done():
			return
		}
	}
}

func (c *Coordinator) noteLists() {
	for _, l := range c.lists.take() {
		c.note(c.working, l)
	}
}

// note writes one entry. A failure is no reason to refuse what is stored.
func (c *Coordinator) note(ctx context.Context, l list) {
	b, err := json.Marshal(l.entry)
	if err == nil {
		err = c.broker.Put(ctx, messages.BucketRuns, messages.BatchKey(l.batch, l.chunk), b, c.cfg.RecordTTL)
	}
	if err != nil {
		c.log.Warn("the accepted calls of a chunk were not listed", "batch", l.batch, "chunk", l.chunk, "error", err)
	}
}

// list notes the accepted calls in RUNS. It is for those who ask what a batch
// holds. The first chunk of a batch is noted before the answer, so that who
// asks next finds the batch.
func (s *submission) list(ctx context.Context) {
	if len(s.accepted) == 0 {
		return
	}
	l := list{batch: s.chunk.Batch, chunk: s.chunk.Index, entry: messages.BatchEntry{Calls: s.accepted, At: s.now.UTC()}}
	switch {
	case s.chunk.Repeat:
		l.entry.Calls = merge(s.c.listed(ctx, messages.BatchKey(l.batch, l.chunk)), l.entry.Calls)
	case l.chunk > 0 && len(s.accepted) <= smallChunk:
		var full bool
		if l, full = s.c.lists.add(l); !full {
			return
		}
	}
	s.c.note(ctx, l)
}

func (c *Coordinator) listed(ctx context.Context, key string) []messages.BatchCall {
	var entry messages.BatchEntry
	if e, err := c.broker.Load(ctx, messages.BucketRuns, key); err == nil {
		_ = json.Unmarshal(e.Value, &entry) // unreadable: listed anew
	}
	return entry.Calls
}

func merge(a, b []messages.BatchCall) []messages.BatchCall {
	seen := make(map[string]bool, len(a))
	for _, call := range a {
		seen[call.Call] = true
	}
	for _, call := range b {
		if !seen[call.Call] {
			a = append(a, call)
		}
	}
	return a
}
