package jetstream

import (
	"context"
	"fmt"

	"mulligan/pkg/messages"
)

// Watch calls fn with each entry that matches filter, then ready once, then fn
// with each change, until ctx is done; then it returns the cause of ctx.
// Deleted entries are those deleted, purged or expired. After a reconnect it
// calls fn with what has changed meanwhile, deletions included. Fn and ready
// are called by one goroutine at a time; ready may be nil.
func (p *Pool) Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error {
	w := watch{known: make(map[string]uint64), ready: ready, fn: fn}
	err := p.readOrdered(ctx, reading{
		stream: p.bucketStream(b), filters: []string{p.bucketSubject(b, filter)},
		start:   func() position { return position{lastPerSubject: true} },
		bound:   w.begin,
		message: func(s messages.Stored, pending uint64) { w.take(p.entry(b, s), pending) },
	})
	return fmt.Errorf("watch %s: %w", p.names.BucketName(b), err)
}

// watch compares what each new consumer replays with what fn was told before.
// One goroutine owns it.
type watch struct {
	known  map[string]uint64   // revisions that fn was told of
	replay map[string]struct{} // keys seen in the replay under way; nil when none is
	ready  func()
	fn     func(messages.Entry)
}

// begin starts a replay; without anything to replay it ends at once.
func (w *watch) begin(pending uint64) {
	w.replay = make(map[string]struct{})
	if pending == 0 {
		w.endReplay()
	}
}

func (w *watch) take(e messages.Entry, pending uint64) {
	if w.replay != nil {
		w.replay[e.Key] = struct{}{}
	}
	last, told := w.known[e.Key]
	switch {
	case e.Deleted && told:
		delete(w.known, e.Key)
		w.fn(e)
	case !e.Deleted && (!told || last != e.Revision):
		w.known[e.Key] = e.Revision
		w.fn(e)
	}
	if w.replay != nil && pending == 0 {
		w.endReplay()
	}
}

// endReplay tells of the keys that have gone without leaving a mark.
func (w *watch) endReplay() {
	for key := range w.known {
		if _, seen := w.replay[key]; !seen {
			delete(w.known, key)
			w.fn(messages.Entry{Key: key, Deleted: true})
		}
	}
	w.replay = nil
	if w.ready != nil {
		w.ready()
		w.ready = nil
	}
}
