package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/pkg/messages"
)

// runs knows the runs that were declared, and those that have ended. RUNS holds
// an entry only of these: of any other run nothing is written.
type runs struct {
	broker    Broker
	names     messages.Pool
	ttl       time.Duration // of an entry
	cancelTTL time.Duration
	asking    *asking

	mu    sync.RWMutex
	seen  uint64 // revision of RUNS up to which all entries are known
	known map[messages.Run]*knownRun
}

// knownRun is what submissions ask of a run. It does not change; its gate does.
type knownRun struct {
	revision uint64
	ended    *messages.Cancel
	closed   bool
	since    time.Time       // when it was closed
	policy   json.RawMessage // what every call of it brings
	budget   messages.RunBudget
	inFlight int
	gate     *runGate // nil where nothing is counted
}

func newRuns(b Broker, cfg Config) *runs {
	r := &runs{broker: b, names: b.Names(), ttl: cfg.RecordTTL, cancelTTL: cfg.CancelTTL, known: make(map[messages.Run]*knownRun)}
	r.asking = newAsking(r.load)
	return r
}

// apply takes an entry of RUNS, as the watch brings it.
func (r *runs) apply(e messages.Entry) {
	name, ok := strings.CutPrefix(e.Key, "run.")
	if !ok {
		return
	}
	r.note(messages.Run(name), e)
	r.mu.Lock()
	r.seen = max(r.seen, e.Revision)
	r.mu.Unlock()
}

// note keeps the newer of what is known and what was read or written.
func (r *runs) note(run messages.Run, e messages.Entry) {
	entry, err := messages.DecodeRun(e.Value)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.known[run]
	switch {
	case e.Deleted || err != nil || entry.Gone():
		delete(r.known, run)
	case before != nil && before.revision > e.Revision:
	default:
		r.known[run] = know(entry, e.Revision, before)
	}
}

// know keeps of a run what submissions ask for. Of one that is over that is
// little: it is kept for as long as RUNS keeps it.
func know(e messages.RunEntry, revision uint64, before *knownRun) *knownRun {
	k := &knownRun{revision: revision, ended: e.Ended, closed: e.Ended == nil && !e.Admits()}
	if e.Closed != nil {
		k.since = e.Closed.At
	}
	if e.Over != nil || e.Spec == nil {
		return k
	}
	k.policy, k.budget, k.inFlight = runPolicy(*e.Spec), e.Spec.Budget, e.Spec.InFlight
	if k.inFlight > 0 || k.budget.Calls > 0 || k.budget.Retries > 0 {
		k.gate = &runGate{}
		if before != nil && before.gate != nil {
			k.gate = before.gate
		}
	}
	return k
}

// of gives what is known of a run, nil for nothing.
func (r *runs) of(run messages.Run) *knownRun {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known[run]
}

// isOver says whether the run is known to have ended hard.
func (r *runs) isOver(run messages.Run) (messages.Cancel, bool) {
	if k := r.of(run); k != nil && k.ended != nil {
		return *k.ended, true
	}
	return messages.Cancel{}, false
}

// catchUp reads the runs that a chunk names where the watch is behind what its
// sender knows of RUNS.
func (r *runs) catchUp(ctx context.Context, revision uint64, names []messages.Run) error {
	r.mu.RLock()
	seen := r.seen
	r.mu.RUnlock()
	if revision <= seen {
		return nil
	}
	for _, run := range names {
		e, err := r.broker.Load(ctx, messages.BucketRuns, messages.RunKey(run))
		if errors.Is(err, messages.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read run %s: %w", run, err)
		}
		r.note(run, e)
	}
	return nil
}

// ended asks RUNS itself; nil when the run goes on.
func (r *runs) ended(ctx context.Context, run messages.Run) (*messages.Cancel, error) {
	entry, err := r.asking.ask(ctx, run)
	return entry.Ended, err
}

func (r *runs) load(ctx context.Context, run messages.Run) (messages.RunEntry, uint64, error) {
	e, err := r.broker.Load(ctx, messages.BucketRuns, messages.RunKey(run))
	if errors.Is(err, messages.ErrNotFound) {
		return messages.RunEntry{Run: run, Created: time.Now().UTC()}, 0, nil
	}
	if err != nil {
		return messages.RunEntry{}, 0, fmt.Errorf("read run %s: %w", run, err)
	}
	entry, err := messages.DecodeRun(e.Value)
	return entry, e.Revision, err
}

// save writes an entry in place of that with the revision rev, and knows it at
// once. ErrConflict where there is another.
func (r *runs) save(ctx context.Context, entry messages.RunEntry, rev uint64) (uint64, error) {
	b, err := messages.EncodeRun(entry)
	if err != nil {
		return 0, err
	}
	saved, err := r.broker.Save(ctx, messages.BucketRuns, messages.RunKey(entry.Run), b, rev, r.ttl)
	if err == nil {
		r.note(entry.Run, messages.Entry{Value: b, Revision: saved})
	}
	return saved, err
}

// saveGone writes the entry of a run that was deleted, which goes within moments
// of its own. Who asked for the deletion finds in it what went.
func (r *runs) saveGone(ctx context.Context, entry messages.RunEntry, rev uint64) error {
	b, err := messages.EncodeRun(messages.RunEntry{Run: entry.Run, Created: entry.Created, Delete: entry.Delete})
	if err != nil {
		return err
	}
	saved, err := r.broker.Save(ctx, messages.BucketRuns, messages.RunKey(entry.Run), b, rev, goneTTL)
	if errors.Is(err, messages.ErrConflict) {
		return errAgain
	}
	if err == nil {
		r.note(entry.Run, messages.Entry{Value: b, Revision: saved})
	}
	return wrap("write that the run is gone", err)
}

// goneTTL is how long it is told of a run that was deleted.
const goneTTL = 10 * time.Second

// mark ends a run in RUNS, where submissions and coordinators look, then in
// CONTROL, where workers look. The first wish stays; it is returned.
func (r *runs) mark(ctx context.Context, run messages.Run, wish messages.Cancel) (messages.Cancel, error) {
	for {
		entry, rev, err := r.load(ctx, run)
		if err != nil {
			return wish, err
		}
		if entry.Ended == nil && (entry.Over != nil || entry.Delete != nil) {
			return wish, nil // all its calls have ended, and it stays what it came to
		}
		if entry.Ended == nil {
			wish.Version = messages.Version
			entry.Ended = &wish
			_, err = r.save(ctx, entry, rev)
			if errors.Is(err, messages.ErrConflict) {
				continue
			}
			if err != nil {
				return wish, fmt.Errorf("end run %s: %w", run, err)
			}
		}
		return *entry.Ended, r.control(ctx, messages.ControlRunKey(run), *entry.Ended)
	}
}

// control tells the workers.
func (r *runs) control(ctx context.Context, key string, wish messages.Cancel) error {
	m, err := messages.EncodeStory(key, wish)
	if err != nil {
		return err
	}
	return wrap("tell the workers of "+key, r.broker.Put(ctx, messages.BucketControl, key, m.Body, r.cancelTTL))
}

// putCancel makes the wish durable: a trigger that does not die with us. It
// is put once, so that a call is cancelled once.
func (r *runs) putCancel(ctx context.Context, run messages.Run, call string, wish messages.Cancel) error {
	m, err := messages.EncodeStory(r.names.CancelSubject(run, call), wish)
	if err != nil {
		return err
	}
	_, err = r.broker.PutOnce(ctx, m)
	return wrap("put the cancellation", err)
}

// endRun ends a run for good: marked first, so that nobody keeps a call of it
// going who looks after this; the rest is the work of a durable trigger.
func (c *Coordinator) endRun(ctx context.Context, run messages.Run, wish messages.Cancel) error {
	wish, err := c.runs.mark(ctx, run, wish)
	if err != nil {
		return err
	}
	return c.runs.putCancel(ctx, run, messages.WholeRun, wish)
}

// wholeRun handles a trigger of a run: its cancellation, or its deadline. The
// run is marked, then its calls are listed, and each is cancelled once (S5.5).
// A call that fails meanwhile is in neither list; who writes its record reads
// RUNS after that (P7.26).
func (h *handling) wholeRun(ctx context.Context) error {
	switch h.t.id.Kind {
	case messages.TriggerDeadline:
		return h.c.expireRun(ctx, h.t.run, *h.t.event.Cancel)
	case messages.TriggerDue:
		return h.runOver(ctx)
	}
	if h.t.id.Kind != messages.TriggerCancel {
		return nil
	}
	wish, err := h.c.runs.mark(ctx, h.t.run, *h.t.event.Cancel)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	calls := 0
	err = h.c.eachOpen(gctx, h.t.run, func(call string) {
		calls++
		g.Go(func() error { return h.c.runs.putCancel(gctx, h.t.run, call, wish) })
	})
	if err = errors.Join(g.Wait(), err); err != nil {
		return err
	}
	h.log.Info("run ended", "status", string(wish.Status), "reason", wish.Reason, "calls", calls)
	entry, _, err := h.c.runs.load(ctx, h.t.run)
	if err != nil || entry.Spec == nil {
		return err
	}
	return h.c.watchEnd(ctx, entry)
}

// atOnce bounds writes that are sent side by side for one request or trigger.
const atOnce = 32

// eachOpen hands over the calls of a run that have not ended: those in CALLS,
// then those with a record that says so. One that moves meanwhile comes twice.
// Of a run of any size no more than a batch is held at a time.
func (c *Coordinator) eachOpen(ctx context.Context, run messages.Run, fn func(call string)) error {
	err := c.broker.List(ctx, messages.StreamCalls, []string{c.names.RunCallsFilter(run)}, func(m messages.Stored) bool {
		if a, err := c.names.Parse(m.Subject); err == nil {
			fn(a.Call)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("list the calls of run %s: %w", run, err)
	}
	return c.eachRecord(ctx, run, fn)
}

// eachRecord hands over the calls of a run whose records have not ended.
func (c *Coordinator) eachRecord(ctx context.Context, run messages.Run, fn func(call string)) error {
	err := c.broker.EachEntry(ctx, messages.BucketAttempts, string(run)+".*", func(e messages.Entry) bool {
		if r, err := messages.DecodeRecord(e.Value); err == nil && r.State != messages.Ended {
			fn(r.Call.ID)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("list the records of run %s: %w", run, err)
	}
	return nil
}
