package calls

import (
	"cmp"
	"context"
	"errors"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// send submits what may be submitted, until everything has ended.
func (e *engine) send(ctx context.Context) error {
	for {
		chunk, ids, err := e.take(ctx)
		if err != nil {
			return err
		}
		if chunk == nil {
			return context.Cause(ctx)
		}
		if err := e.submit(ctx, chunk, ids); err != nil {
			return err
		}
		e.mu.Lock()
		e.submitting--
		e.mu.Unlock()
		e.tellSubmitted(ctx)
	}
}

// take waits for entries to submit; nil when all have ended or ctx is done.
// It gives what there is and never waits for a chunk to become full. The error
// is that of the pace.
//
// Calls that were not submitted before get their ids here, in the order of the
// file: so results can be told in that order by whoever knows the ids alone.
func (e *engine) take(ctx context.Context) (chunk []int32, ids []string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ctx.Err() == nil && !e.allEnded() {
		if n := len(e.again); n > 0 {
			chunk = e.again[n-1]
			e.again = e.again[:n-1]
			e.submitting++
			return chunk, nil, nil
		}
		most, wait, err := e.pace()
		if err != nil {
			e.awaitPrinted(ctx)
			return nil, nil, err
		}
		size := 0
		for len(chunk) < most && size < messages.MaxChunkBytes && e.open-e.parked < e.o.Window {
			i, ok := e.plan.next()
			if !ok {
				break
			}
			e.open++
			chunk, ids = append(chunk, i), append(ids, messages.NewCallID())
			size += e.file.size(int(i))
		}
		if len(chunk) > 0 {
			e.submitting++
			return chunk, ids, nil
		}
		e.await(wait)
	}
	return nil, nil, nil
}

// pace is how many calls may be submitted now; e.mu is held.
func (e *engine) pace() (n int, wait time.Duration, err error) {
	if e.o.Pace == nil {
		return messages.MaxChunkCalls, 0, nil
	}
	n, wait, err = e.o.Pace(e.o.Now(), e.open+e.summary.Ended(), e.summary)
	return min(n, messages.MaxChunkCalls), wait, err
}

// awaitPrinted returns when the lines of what has ended are written, for whoever
// is told to look at them; e.mu is held.
func (e *engine) awaitPrinted(ctx context.Context) {
	for ctx.Err() == nil && e.lineReady() {
		e.changed.Wait()
	}
}

// await returns when something has changed, or after a time unless that is 0;
// e.mu is held.
func (e *engine) await(most time.Duration) {
	if most > 0 {
		defer time.AfterFunc(most, e.wake).Stop()
	}
	e.changed.Wait()
}

// submit submits entries with these ids, or without any with those that they had
// before.
func (e *engine) submit(ctx context.Context, chunk []int32, ids []string) error {
	repeat := ids == nil
	calls, entries, err := e.read(chunk, ids)
	if err != nil || len(calls) == 0 {
		return err
	}
	if !repeat {
		note := make([]sent, len(calls))
		e.mu.Lock()
		for k := range calls {
			note[k] = sent{Entry: entries[k], Call: calls[k].Call}
			e.entries[calls[k].Call] = entries[k]
		}
		e.mu.Unlock()
		if err := e.journal.sent(note); err != nil {
			return err
		}
	}
	refused, err := e.pool.Submit(ctx, e.journal.Batch, e.journal.past.session, repeat, calls)
	return errors.Join(e.refuse(calls, entries, refused, err == nil), err)
}

// read reads the calls of a chunk and gives them their ids. A
// line that is no call ends here.
func (e *engine) read(chunk []int32, ids []string) (calls []messages.Submission, entries []int32, err error) {
	r := reader{file: e.file}
	for k, i := range chunk {
		s, err := r.call(int(i))
		var bad *LineError
		if errors.As(err, &bad) {
			if err := e.end(i, NotAccepted(s, messages.CodeBadCall, bad.Error())); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if ids != nil {
			s.Call = ids[k]
		} else {
			s.Call, _ = e.journal.past.call(i)
		}
		s.Run = cmp.Or(s.Run, e.o.Run)
		s.Policy = recovery.Under(e.o.Policy, s.Policy)
		if s.NotBefore.IsZero() && s.After == 0 {
			s.NotBefore = e.o.NotBefore
		}
		calls, entries = append(calls, s), append(entries, i)
	}
	return calls, entries, nil
}

// refuse ends what was refused. When all is known, the others were accepted.
func (e *engine) refuse(calls []messages.Submission, entries []int32, refused []messages.Refusal, all bool) error {
	why := make(map[string]messages.Refusal, len(refused))
	for _, r := range refused {
		why[r.Call] = r
	}
	var accepted []int32
	for k, s := range calls {
		if r, ok := why[s.Call]; !ok {
			accepted = append(accepted, entries[k])
		} else if err := e.end(entries[k], NotAccepted(s, r.Code, r.Text)); err != nil {
			return err
		}
	}
	if !all || len(accepted) == 0 {
		return nil
	}
	return e.journal.accepted(accepted)
}
