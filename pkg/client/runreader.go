package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pacing "mulligan/internal/pace"
	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// RunStore is what runs are read from; *jetstream.Pool is one.
type RunStore interface {
	Names() messages.Pool
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	EachEntry(ctx context.Context, b messages.Bucket, filter string, fn func(messages.Entry) bool) error
	Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error)
	ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error
	Get(ctx context.Context, subject string) (messages.Stored, error)
}

// RunState is where a run stands.
type RunState = runstate.State

// RunProgress is what is counted of a run at a moment.
type RunProgress = runstate.Progress

// Runs reads the runs of a pool. Its methods may be called concurrently.
type Runs struct {
	store RunStore
	names messages.Pool
}

// NewRuns reads runs from a pool. It does no I/O.
func NewRuns(s RunStore) *Runs { return &Runs{store: s, names: s.Names()} }

// RunQuery says which runs are wanted; the zero value wants all.
type RunQuery struct {
	Labels  map[string]string // all of them; an empty value stands for any
	Name    string            // a part of the run's name
	States  []RunState
	Since   time.Time // declared at or after
	Until   time.Time // declared before
	Origin  messages.Run
	Before  messages.Run // the last of the page before
	Limit   int          // 0 for no limit
	Batches bool         // also batches that nobody declared: what they hold has to be read
}

// List gives the runs that were declared, or ended hard, the newest first, and
// whether there are more than the limit.
func (r *Runs) List(ctx context.Context, q RunQuery) (page []messages.RunEntry, more bool, err error) {
	var found []messages.RunEntry
	known := make(map[messages.Run]bool)
	err = r.store.EachEntry(ctx, messages.BucketRuns, messages.RunKey(">"), func(e messages.Entry) bool {
		entry, err := messages.DecodeRun(e.Value)
		if err != nil || entry.Gone() {
			return true
		}
		known[entry.Run] = true
		if q.wants(entry) {
			found = append(found, entry)
		}
		return true
	})
	if err == nil && q.Batches {
		err = r.store.EachEntry(ctx, messages.BucketRuns, "batch.*.0", func(e messages.Entry) bool {
			if entry, ok := ofBatch(e); ok && !known[entry.Run] && q.wants(entry) {
				found = append(found, entry)
			}
			return true
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the runs: %w", err)
	}
	slices.SortFunc(found, func(a, b messages.RunEntry) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Run, b.Run))
	})
	if q.Before != "" {
		at := slices.IndexFunc(found, func(e messages.RunEntry) bool { return e.Run == q.Before })
		if at < 0 {
			return nil, false, fmt.Errorf("no run %s is among those that are listed, so that nothing stands behind it: %w", q.Before, messages.ErrNotFound)
		}
		found = found[at+1:]
	}
	if more = q.Limit > 0 && len(found) > q.Limit; more {
		found = found[:q.Limit]
	}
	return found, more, nil
}

// ofBatch stands for a batch that nobody declared, by its first chunk.
func ofBatch(e messages.Entry) (messages.RunEntry, bool) {
	batch, ok := strings.CutPrefix(e.Key, "batch.")
	batch, _, _ = strings.Cut(batch, ".")
	var entry messages.BatchEntry
	if !ok || json.Unmarshal(e.Value, &entry) != nil {
		return messages.RunEntry{}, false
	}
	run := messages.UnnamedRun(batch)
	if !slices.ContainsFunc(entry.Calls, func(c messages.BatchCall) bool { return c.Run == run }) {
		return messages.RunEntry{}, false // all its calls name a run
	}
	return messages.RunEntry{Run: run, Created: entry.At}, true
}

func (q RunQuery) wants(e messages.RunEntry) bool {
	spec := messages.RunSpec{}
	if e.Spec != nil {
		spec = *e.Spec
	}
	for k := range maps.Keys(q.Labels) {
		if v, ok := spec.Labels[k]; !ok || q.Labels[k] != "" && q.Labels[k] != v {
			return false
		}
	}
	name := e.Run.Name()
	if !e.Run.Named() {
		name = string(e.Run)
	}
	switch {
	case q.Name != "" && !strings.Contains(name, q.Name),
		len(q.States) > 0 && !slices.Contains(q.States, runstate.Of(e)),
		!q.Since.IsZero() && e.Created.Before(q.Since),
		!q.Until.IsZero() && !e.Created.Before(q.Until),
		q.Origin != "" && spec.Origin != q.Origin:
		return false
	}
	return true
}

// Get gives a run. One that was not declared has an entry without a spec as long
// as anything of it is kept; else it is [messages.ErrNotFound].
func (r *Runs) Get(ctx context.Context, run messages.Run) (messages.RunEntry, error) {
	e, err := r.store.Load(ctx, messages.BucketRuns, messages.RunKey(run))
	if err == nil {
		entry, err := messages.DecodeRun(e.Value)
		if err == nil && entry.Gone() {
			err = fmt.Errorf("run %s was deleted: %w", run, messages.ErrNotFound)
		}
		return entry, err
	}
	if !errors.Is(err, messages.ErrNotFound) {
		return messages.RunEntry{}, fmt.Errorf("read run %s: %w", run, err)
	}
	entry := messages.RunEntry{Run: run}
	p, err := r.Progress(ctx, entry)
	if err != nil {
		return entry, err
	}
	if p.Known() == 0 {
		return entry, fmt.Errorf("nothing is known of run %s; `mulligan runs` lists those that there are: %w", run, messages.ErrNotFound)
	}
	return entry, nil
}

// Progress counts a run, exactly and without reading it: a few requests, which
// cost the broker some tens of milliseconds for a million calls. Of a run that
// is over nothing is asked.
func (r *Runs) Progress(ctx context.Context, e messages.RunEntry) (RunProgress, error) {
	if e.Over != nil {
		return RunProgress{Ended: e.Over.Calls}.WithTotal(e), nil
	}
	var p RunProgress
	for _, c := range []struct {
		into   *int64
		stream messages.Stream
		filter string
	}{
		// In the order in which calls move, so that none is missed that does.
		{&p.Parked, messages.StreamSchedule, r.names.RunSchedules(messages.DueAnswerBy, e.Run)},
		{&p.Waiting, messages.StreamSchedule, r.names.RunSchedules(messages.DueRetry, e.Run)},
		{&p.Queued, messages.StreamCalls, r.names.RunCallsFilter(e.Run)},
		{&p.Ended, messages.StreamResults, r.names.ResultsFilter(e.Run)},
	} {
		n, err := r.store.Matching(ctx, c.stream, c.filter)
		if err != nil {
			return p, fmt.Errorf("count run %s: %w", e.Run, err)
		}
		*c.into = int64(n)
	}
	return p.WithTotal(e), nil
}

// Counts counts the results of a run by outcome and tool. Of a run that is over
// it is kept; else the headers of all its results are read, each of which tells
// what was counted so far to seen, which may be nil and ends the reading by false.
func (r *Runs) Counts(ctx context.Context, e messages.RunEntry, seen func(messages.RunCounts) bool) (messages.RunCounts, error) {
	if e.Over != nil {
		return e.Over.RunCounts, nil
	}
	var counts messages.RunCounts
	err := r.store.ListHeads(ctx, messages.StreamResults, r.names.ResultsFilter(e.Run), e.From, func(m messages.Stored) bool {
		if res, err := r.names.DecodeResult(m.Message); err == nil {
			runstate.Add(&counts, res)
		}
		return seen == nil || seen(counts)
	})
	if err != nil {
		return counts, fmt.Errorf("count the results of run %s: %w", e.Run, err)
	}
	return counts, nil
}

// Of waiting for the end of a run.
const (
	waitLook  = time.Second // between two looks, at least
	waitShare = 20          // looks take this part of the time at most
)

// Wait returns the entry of a run that is over: closed or ended, and all its
// calls have ended. A run that is neither is taken for over when two looks one
// after another find no call left. Progress is told after each look how far it
// is, and how long the rest takes where that can be said. When ctx is done the
// cause is returned, and the run goes on.
func (r *Runs) Wait(ctx context.Context, run messages.Run, progress func(p RunProgress, rest time.Duration, known bool)) (messages.RunEntry, error) {
	var pace runstate.Pace
	for quiet := 0; ; {
		began := time.Now()
		e, err := r.Get(ctx, run)
		if err != nil {
			return e, err
		}
		p, err := r.Progress(ctx, e)
		if err != nil {
			return e, err
		}
		pace.Note(began, p.Ended)
		rest, known := pace.Rest(p.Left())
		progress(p, rest, known)
		switch {
		case e.Over != nil:
			return e, nil
		case e.Spec != nil && (e.Closed != nil || e.Ended != nil), p.Known() > p.Ended:
			quiet = 0
		default:
			if quiet++; quiet == 2 && p.Ended > 0 {
				return e, nil
			}
		}
		if !pacing.Sleep(ctx, max(waitLook, waitShare*time.Since(began))) {
			return e, context.Cause(ctx)
		}
	}
}
