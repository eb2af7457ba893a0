package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// Target is a pool that a run is brought into; *jetstream.Pool is one.
type Target interface {
	Source
	PutOnce(ctx context.Context, m messages.Message) (winner *messages.Stored, err error)
	PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error)
	Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (revision uint64, err error)
	Put(ctx context.Context, b messages.Bucket, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, b messages.Bucket, key string) error
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
}

// ErrExists says that the pool holds the run, or something of it.
var ErrExists = errors.New("the pool has this run already")

// Import brings a run in from a file that was checked, which is read again. What
// is written first wins, as everywhere: the same file may be brought in again
// after a crash, and goes on. The result of a call is written before its story,
// so that whoever reads that meanwhile sees a call that has ended. No call comes
// into the run until all is there. A run that the pool has is ErrExists. Progress
// is told how many of how many calls are there; it may be nil.
func Import(ctx context.Context, to Target, file io.Reader, c Checked, by string, progress func(done, of int64)) error {
	i := &importer{to: to, names: to.Names(), head: c.Head, mark: messages.RunImport{At: time.Now().UTC(), By: by, File: c.Digest}}
	err := i.all(ctx, file, progress)
	if err != nil {
		err = fmt.Errorf("import run %s: %w", runstate.NameOf(c.Head.Run), err)
	}
	return err
}

type importer struct {
	to    Target
	names messages.Pool
	head  Head
	mark  messages.RunImport
	from  uint64
}

func (i *importer) all(ctx context.Context, file io.Reader, progress func(done, of int64)) error {
	if err := i.begin(ctx); err != nil {
		return err
	}
	done := int64(0)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(callsAtOnce)
	_, err := read(gctx, file, i.names, handler{
		payload: func(_ int, _ Payload, b []byte) error {
			_, err := i.to.PutPayload(gctx, b)
			return err
		},
		call: func(line int, c Call) error {
			if done++; progress != nil {
				progress(done, i.head.Calls)
			}
			if c.Result == nil {
				return nil // it would look like a call that goes on
			}
			g.Go(func() error {
				if err := i.call(gctx, c); err != nil {
					return &LineError{line, fmt.Errorf("call %s: %w", c.Call, err)}
				}
				return nil
			})
			return nil
		},
	})
	if failed := g.Wait(); failed != nil { // it is the cause of the other
		return failed
	}
	if err != nil {
		return err
	}
	return i.end(ctx)
}

// begin marks the run, which keeps everybody else from it.
func (i *importer) begin(ctx context.Context) error {
	rev := uint64(0)
	e, err := i.to.Load(ctx, messages.BucketRuns, messages.RunKey(i.head.Run))
	switch {
	case errors.Is(err, messages.ErrNotFound):
	case err != nil:
		return err
	default:
		was, err := messages.DecodeRun(e.Value)
		switch {
		case err != nil:
			return err
		case was.Gone():
			rev = e.Revision
		case was.Import != nil && was.Import.File == i.mark.File:
			i.from = was.From
			return nil // it was begun before
		case was.Import != nil:
			return fmt.Errorf("%w in part: it was begun at %s by %s from another file; go on with that one, or delete the run first (`mulligan runs delete`)",
				ErrExists, was.Import.At.Format(time.RFC3339), was.Import.By)
		default:
			return i.exists()
		}
	}
	if err := i.nothing(ctx); err != nil {
		return err
	}
	last, err := i.to.LastSequence(ctx, messages.StreamResults)
	if err != nil {
		return err
	}
	i.from = last + 1
	entry := i.entry()
	entry.Import = &i.mark
	b, err := messages.EncodeRun(entry)
	if err == nil {
		_, err = i.to.Save(ctx, messages.BucketRuns, messages.RunKey(i.head.Run), b, rev, 0)
	}
	if errors.Is(err, messages.ErrConflict) {
		return fmt.Errorf("%w: somebody else has just begun it", ErrExists)
	}
	return err
}

func (i *importer) exists() error {
	return fmt.Errorf("%w; delete it first (`mulligan runs delete`), or bring it into another pool", ErrExists)
}

// entry is that of the run in this pool.
func (i *importer) entry() messages.RunEntry {
	entry := messages.RunEntry{Run: i.head.Run, Created: i.mark.At}
	if i.head.Entry != nil {
		entry = *i.head.Entry
	}
	entry.From = i.from
	return entry
}

// nothing says that the pool holds nothing of a run that has no entry.
func (i *importer) nothing(ctx context.Context) error {
	run := i.head.Run
	for stream, filters := range map[messages.Stream][]string{
		messages.StreamCalls: {i.names.RunCallsFilter(run)}, messages.StreamResults: {i.names.ResultsFilter(run)},
		messages.StreamRecovery: {i.names.RunStories(run)},
		messages.StreamSchedule: {i.names.RunSchedules(messages.DueRetry, run), i.names.RunSchedules(messages.DueAnswerBy, run)},
	} {
		for _, f := range filters {
			n, err := i.to.Matching(ctx, stream, f)
			if err != nil {
				return err
			}
			if n > 0 {
				return i.exists()
			}
		}
	}
	found := false
	err := i.to.EachEntry(ctx, messages.BucketAttempts, string(run)+".>", func(messages.Entry) bool {
		found = true
		return false
	})
	if err == nil && found {
		err = i.exists()
	}
	return err
}

// call brings in one call: its result, its record, then what led to them.
func (i *importer) call(ctx context.Context, c Call) error {
	result := i.names.EncodeResult(c.Result.of(i.head.Run, c.Call))
	if err := i.once(ctx, result); err != nil {
		return err
	}
	if c.Record != nil {
		_, err := i.to.Save(ctx, messages.BucketAttempts, messages.CallKey(i.head.Run, c.Call), c.Record, 0, 0)
		if err != nil && !errors.Is(err, messages.ErrConflict) {
			return fmt.Errorf("record: %w", err)
		}
	}
	for _, failures := range []bool{false, true} { // a reflector that gets one finds it decided on
		for n, m := range c.Story {
			if (m.Kind == messages.KindFailure) != failures {
				continue
			}
			if err := i.message(ctx, c.Call, m); err != nil {
				return fmt.Errorf("story[%d]: %w", n, err)
			}
		}
	}
	for n, r := range c.Replays {
		b, err := json.Marshal(r)
		if err == nil {
			err = i.to.Put(ctx, messages.BucketRuns, messages.ReplayKey(r.Original, r.Call), b, 0)
		}
		if err != nil {
			return fmt.Errorf("replays[%d]: %w", n, err)
		}
	}
	return nil
}

// message brings in a part of a story, which says that it repeats what was
// elsewhere: a reflector looks before it asks a model about it.
func (i *importer) message(ctx context.Context, call string, m Message) error {
	at, err := m.subject(i.names, i.head.Run, call)
	if err != nil {
		return err
	}
	return i.once(ctx, messages.Message{Subject: at, Body: m.Body,
		Header: messages.Header{messages.HeaderVersion: {messages.Version}, messages.HeaderRepeat: {"1"}}})
}

// once writes where the first write wins, and takes no other for its own.
func (i *importer) once(ctx context.Context, m messages.Message) error {
	winner, err := i.to.PutOnce(ctx, m)
	if err != nil {
		return err
	}
	if winner != nil && !bytes.Equal(winner.Body, m.Body) {
		return fmt.Errorf("%s holds something else, which came first and stays; delete the run, and bring it in again", m.Subject)
	}
	return nil
}

// end takes the mark away. A run that nobody had declared is left without an entry.
func (i *importer) end(ctx context.Context) error {
	key := messages.RunKey(i.head.Run)
	if i.head.Entry == nil {
		return i.to.Delete(ctx, messages.BucketRuns, key)
	}
	for {
		e, err := i.to.Load(ctx, messages.BucketRuns, key)
		if err != nil {
			return err
		}
		was, err := messages.DecodeRun(e.Value)
		if err != nil {
			return err
		}
		if was.Import == nil || was.Import.File != i.mark.File || was.Delete != nil {
			return errors.New("its entry was changed by somebody else meanwhile; look at `mulligan runs get`")
		}
		b, err := messages.EncodeRun(i.entry())
		if err != nil {
			return err
		}
		if _, err = i.to.Save(ctx, messages.BucketRuns, key, b, e.Revision, 0); !errors.Is(err, messages.ErrConflict) {
			return err
		}
	}
}
