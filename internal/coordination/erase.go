package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/payload"
	"mulligan/pkg/messages"
)

// deletion answers EndpointDelete. When it says yes the wish is durable: a
// coordinator deletes everything of the run, after a lease, and if it dies
// another one does.
func (c *Coordinator) deletion(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.RunRequest](request)
	if err == nil && req.Action != messages.RunErase {
		err = fmt.Errorf("action %q is asked for at %s", req.Action, c.names.ServiceSubject(messages.EndpointRun))
	}
	if err != nil {
		return encodeReply(messages.RunReply{Error: err.Error(), Code: messages.CodeBadRun})
	}
	reply, err := c.eraseRun(ctx, req)
	if err != nil {
		return c.refused(req, err)
	}
	return encodeReply(reply)
}

// eraseRun marks a run for deletion. Nothing of it may be under way: a call
// that is forgotten while it stands in CALLS would run again.
func (c *Coordinator) eraseRun(ctx context.Context, req messages.RunRequest) (messages.RunReply, error) {
	for {
		entry, rev, err := c.runs.load(ctx, req.Run)
		if err != nil {
			return messages.RunReply{}, err
		}
		if entry.Delete == nil {
			if err := c.mayErase(ctx, entry, rev); err != nil {
				return messages.RunReply{}, err
			}
			entry.Delete = &messages.RunDelete{At: time.Now().UTC(), By: req.By}
			rev, err = c.runs.save(ctx, entry, rev)
			if errors.Is(err, messages.ErrConflict) {
				continue
			}
			if err != nil {
				return messages.RunReply{}, fmt.Errorf("run %s cannot be written: %w", runName(req.Run), err)
			}
			c.log.Info("run is to be deleted", "run", string(req.Run), "by", req.By)
		}
		if !entry.Gone() {
			err = wrap("the deletion cannot be scheduled", c.scheduleErase(ctx, entry))
		}
		return messages.RunReply{Revision: rev, Entry: &entry}, err
	}
}

// mayErase says why a run cannot be deleted now.
func (c *Coordinator) mayErase(ctx context.Context, entry messages.RunEntry, rev uint64) error {
	open := func(format string, args ...any) error {
		return &runError{messages.CodeRunNotOver, fmt.Errorf("run "+runName(entry.Run)+" is not over: "+format, args...)}
	}
	if entry.Spec != nil && entry.Admits() {
		return open("calls may still come into it; close or cancel it first")
	}
	left, err := c.unfinished(ctx, entry)
	switch {
	case err != nil:
		return err
	case left > 0:
		return open("%d of its calls have not ended; wait for them, or cancel it first", left)
	case rev > 0:
		return nil
	}
	held, err := c.holds(ctx, entry.Run)
	if err == nil && !held {
		err = &runError{messages.CodeNotFound, fmt.Errorf("nothing is known of run %s", runName(entry.Run))}
	}
	return err
}

// unfinished is how many calls of a run have not ended, at least 1 while any has not.
func (c *Coordinator) unfinished(ctx context.Context, e messages.RunEntry) (int64, error) {
	return c.searchOpen(ctx, e, time.Now().Add(-c.cfg.ResultsRetention))
}

// holds says whether anything of a run without an entry is kept.
func (c *Coordinator) holds(ctx context.Context, run messages.Run) (bool, error) {
	for stream, filter := range map[messages.Stream]string{
		messages.StreamResults: c.names.ResultsFilter(run), messages.StreamRecovery: c.names.RunStories(run),
	} {
		if n, err := c.runs.matching(ctx, stream, filter); err != nil || n > 0 {
			return true, err
		}
	}
	found := false
	err := c.broker.EachEntry(ctx, messages.BucketAttempts, string(run)+".>", func(messages.Entry) bool {
		found = true
		return false
	})
	return found, err
}

// erasing is the W of the schedule by which a run is deleted, apart from those
// by which it is looked whether it is over.
const erasing = 1 << 30

// scheduleErase has a run deleted a lease after that was asked for. Until then a
// trigger of it may be in the hands of a coordinator that knows its failure and
// waits beside it; from then on each has seen the result, or is let go of.
func (c *Coordinator) scheduleErase(ctx context.Context, e messages.RunEntry) error {
	return c.broker.Schedule(ctx, messages.Due{Kind: messages.DueRunOver, Run: e.Run, W: erasing, At: e.Delete.At.Add(c.cfg.Lease).UTC()})
}

// keepFor deletes a run that is over once it was kept for as long as its
// declaration says, or has that looked at then.
func (h *handling) keepFor(ctx context.Context, entry messages.RunEntry) error {
	if entry.Spec == nil || entry.Spec.Keep <= 0 || entry.Import != nil {
		return nil
	}
	until := entry.Over.At.Add(entry.Spec.Keep.Duration()).UTC()
	if time.Now().Before(until) {
		return h.c.broker.Schedule(ctx, messages.Due{Kind: messages.DueRunOver, Run: entry.Run, W: erasing, At: until})
	}
	_, err := h.c.eraseRun(ctx, messages.RunRequest{Run: entry.Run, By: "keep_ms of the run"})
	var refused *runError
	if errors.As(err, &refused) {
		h.log.Warn("a run is kept for longer than it asks for", "error", err)
		return nil
	}
	return err
}

// erase deletes everything of a run that is marked for it, its entry last. Each
// step may be done again. The results are the last that goes but for the entry:
// whatever still asks for a call of the run finds that it has ended.
func (h *handling) erase(ctx context.Context, entry messages.RunEntry, rev uint64) error {
	if entry.Gone() {
		return nil
	}
	if time.Now().Before(entry.Delete.At.Add(h.c.cfg.Lease)) {
		return h.c.scheduleErase(ctx, entry)
	}
	left, err := h.c.unfinished(ctx, entry)
	if err != nil {
		return err
	}
	if left > 0 { // submitted while it was marked; nothing of it is forgotten before it ends
		return h.lookAgain(ctx, entry, left)
	}
	gone, err := h.c.eraseAll(ctx, entry.Run)
	if err != nil {
		return err
	}
	entry.Delete.Removed = &gone
	if err := h.c.runs.saveGone(ctx, entry, rev); err != nil {
		return err
	}
	h.log.Info("run deleted", "by", entry.Delete.By, "results", gone.Results, "story", gone.Story, "records", gone.Records, "entries", gone.Entries, "payloads", gone.Payloads)
	return nil
}

func (c *Coordinator) eraseAll(ctx context.Context, run messages.Run) (gone messages.RunRemoved, err error) {
	if gone.Payloads, err = c.erasePayloads(ctx, run); err != nil {
		return gone, fmt.Errorf("delete the payloads: %w", err)
	}
	if gone.Entries, err = c.eraseEntries(ctx, run); err != nil {
		return gone, err
	}
	if _, err = c.broker.Erase(ctx, messages.StreamSchedule, c.names.RunAllSchedules(run)); err != nil {
		return gone, err
	}
	if gone.Story, err = c.broker.Erase(ctx, messages.StreamRecovery, c.names.RunStories(run)); err != nil {
		return gone, err
	}
	if gone.Records, err = c.broker.EraseEntries(ctx, messages.BucketAttempts, string(run)+".>"); err != nil {
		return gone, err
	}
	gone.Results, err = c.broker.Erase(ctx, messages.StreamResults, c.names.ResultsFilter(run))
	return gone, err
}

// eraseEntries deletes what RUNS and CONTROL hold of a run beside its entry: the
// notes of who replayed its calls, its calls in the lists of batches, and what
// workers and coordinators were told of it.
func (c *Coordinator) eraseEntries(ctx context.Context, run messages.Run) (n int64, err error) {
	var replayed, batches, told []messages.Entry
	keep := func(into *[]messages.Entry) func(messages.Entry) bool {
		return func(e messages.Entry) bool {
			*into = append(*into, messages.Entry{Key: e.Key, Revision: e.Revision})
			return true
		}
	}
	err = c.broker.EachEntry(ctx, messages.BucketRuns, messages.ReplayKey("*", "*"), keep(&replayed))
	if err == nil {
		err = c.broker.EachEntry(ctx, messages.BucketRuns, "batch.>", func(e messages.Entry) bool {
			if _, has := withoutRun(e.Value, run); has {
				keep(&batches)(e)
			}
			return true
		})
	}
	for _, filter := range []string{messages.ControlRunKey(run), messages.ControlCallKey(run, "*"), messages.DenialsFilter(run)} {
		if err == nil {
			err = c.broker.EachEntry(ctx, messages.BucketControl, filter, keep(&told))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("look for what else is kept of the run: %w", err)
	}
	for _, e := range replayed {
		of, err := c.replayOf(ctx, run, e.Key)
		if err == nil && of {
			n++
			err = c.broker.Delete(ctx, messages.BucketRuns, e.Key)
		}
		if err != nil {
			return n, err
		}
	}
	for _, e := range batches {
		if err := c.unlist(ctx, run, e.Key); err != nil {
			return n, err
		}
		n++
	}
	for _, e := range told {
		if err := c.broker.Delete(ctx, messages.BucketControl, e.Key); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// replayOf says whether a note is about a call of the run that was replayed. The
// notes about calls of others which this run replayed stay: they are theirs.
func (c *Coordinator) replayOf(ctx context.Context, run messages.Run, key string) (bool, error) {
	e, err := c.broker.Load(ctx, messages.BucketRuns, key)
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r, err := messages.DecodeReplay(e.Value)
	if err != nil {
		return false, nil // nobody can tell whose it is
	}
	_, err = c.broker.Find(ctx, c.names.ResultSubject(run, r.Original))
	if errors.Is(err, messages.ErrNotFound) {
		_, err = c.broker.Load(ctx, messages.BucketAttempts, messages.CallKey(run, r.Original))
	}
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// unlist takes the calls of a run out of the list of a batch, which goes when
// nothing is left in it.
func (c *Coordinator) unlist(ctx context.Context, run messages.Run, key string) error {
	for {
		e, err := c.broker.Load(ctx, messages.BucketRuns, key)
		if errors.Is(err, messages.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		rest, has := withoutRun(e.Value, run)
		switch {
		case !has:
			return nil
		case len(rest.Calls) == 0:
			return c.broker.Delete(ctx, messages.BucketRuns, key)
		}
		b, err := json.Marshal(rest)
		if err != nil {
			return err
		}
		if _, err = c.broker.Save(ctx, messages.BucketRuns, key, b, e.Revision, c.cfg.RecordTTL); !errors.Is(err, messages.ErrConflict) {
			return err
		}
	}
}

// withoutRun is the list of a batch without the calls of a run, and whether it has any.
func withoutRun(value []byte, run messages.Run) (rest messages.BatchEntry, has bool) {
	if json.Unmarshal(value, &rest) != nil {
		return rest, false
	}
	kept := rest.Calls[:0]
	for _, call := range rest.Calls {
		if call.Run != run {
			kept = append(kept, call)
		}
	}
	has = len(kept) < len(rest.Calls)
	rest.Calls = kept
	return rest, has
}

// erasePayloads deletes the large inputs and outputs that the run refers to and
// nobody else. They are named by their content, so that others may mean the same
// ones: all that is kept is looked through, where the run has any.
func (c *Coordinator) erasePayloads(ctx context.Context, run messages.Run) (int64, error) {
	mine := make(map[string]bool)
	if err := c.eachPayload(ctx, run, func(of messages.Run, digest string) {
		if of == run {
			mine[digest] = true
		}
	}); err != nil || len(mine) == 0 {
		return 0, err
	}
	if err := c.eachPayload(ctx, "", func(of messages.Run, digest string) {
		if of != run {
			delete(mine, digest)
		}
	}); err != nil {
		return 0, err
	}
	n := int64(0)
	for digest := range mine {
		chunks, err := c.broker.Erase(ctx, messages.StreamPayloads, c.names.PayloadFilter(digest))
		if err != nil {
			return n, err
		}
		if chunks > 0 {
			n++
		}
	}
	return n, nil
}

// eachPayload hands over the digests of the payloads that a run refers to; with
// an empty run those of all, and of which run.
func (c *Coordinator) eachPayload(ctx context.Context, run messages.Run, fn func(of messages.Run, digest string)) error {
	found := func(m messages.Stored) {
		a, err := c.names.Parse(m.Subject)
		if err != nil {
			return
		}
		for _, key := range []string{messages.HeaderPayload, messages.HeaderTaskRef} {
			if r, err := messages.ParsePayloadRef(m.Header.Get(key)); err == nil {
				fn(a.Run, r.Digest)
			}
		}
		for _, digest := range payload.Digests(m.Body) {
			fn(a.Run, digest)
		}
	}
	whole := func(m messages.Stored) bool {
		found(m)
		return true
	}
	heads := func(m messages.Stored) bool {
		m.Body = nil
		return whole(m)
	}
	calls, stories, records := c.names.RunCallsFilter(run), []string{c.names.RunStories(run)}, string(run)+".>"
	if run == "" {
		calls, stories, records = c.names.RunCallsFilter("*"), nil, ">"
	}
	if err := c.broker.List(ctx, messages.StreamCalls, []string{calls}, heads); err != nil {
		return err
	}
	if err := c.broker.List(ctx, messages.StreamRecovery, stories, whole); err != nil {
		return err
	}
	if err := c.broker.EachEntry(ctx, messages.BucketAttempts, records, func(e messages.Entry) bool {
		if r, err := messages.DecodeRecord(e.Value); err == nil {
			for _, digest := range payload.Digests(e.Value) {
				fn(r.Call.Run, digest)
			}
		}
		return true
	}); err != nil {
		return err
	}
	return c.broker.ListHeads(ctx, messages.StreamResults, c.names.ResultsFilter(run), 0, heads)
}
