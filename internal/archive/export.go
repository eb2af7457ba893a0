package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// Source is what a run is read from; *jetstream.Pool is one.
type Source interface {
	Names() messages.Pool
	Get(ctx context.Context, subject string) (messages.Stored, error)
	List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error
	ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error
	Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error)
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	EachEntry(ctx context.Context, b messages.Bucket, filter string, fn func(messages.Entry) bool) error
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// callsAtOnce is how many calls are read, or brought in, side by side.
const callsAtOnce = 16

// Summary is what an export came to.
type Summary struct {
	Head Head
	Tail Tail
}

// Export writes what the pool holds of a run, one call after another in the order
// of their ids, the same each time. It keeps a few dozen bytes of each call, and
// reads the headers of all results first. Progress, which may be nil, is told how
// many of how many calls are written. ErrNotFound where nothing is known of the run.
func Export(ctx context.Context, src Source, run messages.Run, w io.Writer, progress func(done, of int64)) (Summary, error) {
	x := &exporter{src: src, names: src.Names(), run: run, w: w, has: make(map[runstate.ID]part), told: make(map[string]bool)}
	err := x.export(ctx, progress)
	if err != nil {
		err = fmt.Errorf("export run %s: %w", runstate.NameOf(run), err)
	}
	return Summary{x.head, x.tail}, err
}

// part says what there is of a call.
type part uint8

const (
	hasResult part = 1 << iota
	hasStory
	hasRecord
	hasReplay
)

type exporter struct {
	src   Source
	names messages.Pool
	run   messages.Run
	w     io.Writer
	has   map[runstate.ID]part
	told  map[string]bool // digests of payloads that were written, or are gone
	head  Head
	tail  Tail
}

func (x *exporter) export(ctx context.Context, progress func(done, of int64)) error {
	if err := x.survey(ctx); err != nil {
		return err
	}
	ids := make([]runstate.ID, 0, len(x.has))
	for id := range x.has {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b runstate.ID) int { return bytes.Compare(a[:], b[:]) })
	if err := x.begin(ctx, int64(len(ids))); err != nil {
		return err
	}
	for part := range slices.Chunk(ids, callsAtOnce) {
		found := make([]*gathered, len(part))
		g, gctx := errgroup.WithContext(ctx)
		for i, id := range part {
			g.Go(func() (err error) {
				found[i], err = x.gather(gctx, id.String(), x.has[id])
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, c := range found {
			if err := x.write(ctx, c); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(x.tail.Calls, int64(len(ids)))
		}
	}
	if o := x.head.Entry; o != nil && o.Over != nil { // calls of which only the count is left
		x.tail.Missing += max(o.Over.Calls-int64(len(ids)), 0)
	}
	x.tail.End = true
	return x.line(x.tail)
}

// survey finds out which calls there are. A call moves from CALLS by RECOVERY to
// RESULTS, so that what is read in this order misses none.
func (x *exporter) survey(ctx context.Context) error {
	note := func(p part) func(messages.Stored) bool {
		return func(m messages.Stored) bool {
			if a, err := x.names.Parse(m.Subject); err == nil && a.Call != messages.WholeRun {
				x.has[runstate.IDOf(a.Call)] |= p
			}
			return ctx.Err() == nil
		}
	}
	open := uint64(0)
	for _, c := range []struct {
		stream messages.Stream
		filter string
	}{
		{messages.StreamSchedule, x.names.RunSchedules(messages.DueRetry, x.run)},
		{messages.StreamSchedule, x.names.RunSchedules(messages.DueAnswerBy, x.run)},
		{messages.StreamCalls, x.names.RunCallsFilter(x.run)},
	} {
		n, err := x.src.Matching(ctx, c.stream, c.filter)
		if err != nil {
			return err
		}
		open += n
	}
	if err := x.src.List(ctx, messages.StreamRecovery, []string{x.names.RunStories(x.run)}, note(hasStory)); err != nil {
		return err
	}
	if err := x.src.EachEntry(ctx, messages.BucketAttempts, string(x.run)+".>", func(e messages.Entry) bool {
		r, err := messages.DecodeRecord(e.Value)
		if err == nil {
			x.has[runstate.IDOf(r.Call.ID)] |= hasRecord
			if r.State != messages.Ended {
				open++
			}
		}
		return ctx.Err() == nil
	}); err != nil {
		return err
	}
	if err := x.src.ListHeads(ctx, messages.StreamResults, x.names.ResultsFilter(x.run), 0, note(hasResult)); err != nil {
		return err
	}
	x.head.Whole = open == 0
	if err := x.src.EachEntry(ctx, messages.BucketRuns, messages.ReplayKey("*", "*"), func(e messages.Entry) bool {
		if r, err := messages.DecodeReplay(e.Value); err == nil && x.has[runstate.IDOf(r.Original)] != 0 {
			x.has[runstate.IDOf(r.Original)] |= hasReplay
		}
		return ctx.Err() == nil
	}); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (x *exporter) begin(ctx context.Context, calls int64) error {
	x.head.Format, x.head.Version, x.head.Run, x.head.Name, x.head.Calls = Format, Version, x.run, runstate.NameOf(x.run), calls
	e, err := x.src.Load(ctx, messages.BucketRuns, messages.RunKey(x.run))
	switch {
	case errors.Is(err, messages.ErrNotFound):
		if calls == 0 {
			return fmt.Errorf("nothing is known of it: %w", messages.ErrNotFound)
		}
	case err != nil:
		return err
	default:
		entry, err := messages.DecodeRun(e.Value)
		if err != nil {
			return err
		}
		if entry.Gone() && calls == 0 {
			return fmt.Errorf("it was deleted: %w", messages.ErrNotFound)
		}
		if entry.Delete != nil || entry.Import != nil {
			return errors.New("it is being deleted or brought in; wait for that")
		}
		x.head.Whole = x.head.Whole && (entry.Spec == nil || entry.Over != nil)
		entry.From = 0
		x.head.Entry = &entry
	}
	for _, p := range x.has {
		if p&hasResult != 0 {
			x.head.Results++
		}
	}
	return x.line(x.head)
}

// gathered is a call with the payloads that it refers to.
type gathered struct {
	Call
	refs []messages.PayloadRef
	ask  messages.Body // the input as it was submitted
	from *messages.Call
}

// gather reads a call. What is gone meanwhile is missing.
func (x *exporter) gather(ctx context.Context, call string, p part) (*gathered, error) {
	g := &gathered{Call: Call{Call: call}}
	if p&hasResult != 0 {
		m, err := x.src.Get(ctx, x.names.ResultSubject(x.run, call))
		if err != nil && !errors.Is(err, messages.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			r, err := x.names.DecodeResult(m.Message)
			if err != nil {
				g.Missing = append(g.Missing, "unreadable result")
			} else {
				g.Result = resultOf(r)
				g.refs = append(g.refs, bodyRefs(r.Output)...)
			}
		}
	}
	if g.Result == nil && len(g.Missing) == 0 {
		g.Missing = append(g.Missing, "result")
	}
	if p&hasRecord != 0 {
		if err := x.record(ctx, g); err != nil {
			return nil, err
		}
	}
	if p&hasStory != 0 {
		if err := x.story(ctx, g); err != nil {
			return nil, err
		}
	}
	if r := g.Result; r != nil {
		for n := range r.Dispatch {
			if !slices.ContainsFunc(g.Story, func(m Message) bool { return m.Kind == messages.KindFailure && m.N == n }) {
				g.Missing = append(g.Missing, fmt.Sprintf("failure %d", n))
			}
		}
	}
	if p&hasReplay != 0 {
		return g, x.replays(ctx, g)
	}
	return g, nil
}

func (x *exporter) record(ctx context.Context, g *gathered) error {
	e, err := x.src.Load(ctx, messages.BucketAttempts, messages.CallKey(x.run, g.Call.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil {
		g.Missing = append(g.Missing, "unreadable record")
		return nil
	}
	g.Record = e.Value
	g.refs = append(g.refs, recordRefs(r)...)
	if r.N == 0 && r.Call.Key != "" {
		g.from, g.ask = &r.Call, r.Input
	}
	return nil
}

func (x *exporter) story(ctx context.Context, g *gathered) error {
	err := x.src.List(ctx, messages.StreamRecovery, x.names.StoryFilters(x.run, g.Call.Call), func(s messages.Stored) bool {
		a, err := x.names.Parse(s.Subject)
		if err != nil {
			return true
		}
		m := Message{Kind: a.Kind, N: a.N, K: a.K, Token: a.Token, Body: s.Body}
		refs, err := m.refs(x.run, g.Call.Call)
		if err != nil || !json.Valid(s.Body) {
			g.Missing = append(g.Missing, fmt.Sprintf("unreadable %s %d", a.Kind, a.N))
			return true
		}
		g.refs = append(g.refs, refs...)
		g.Story = append(g.Story, m)
		if f, err := messages.DecodeFailure(s.Body); a.Kind == messages.KindFailure && a.N == 0 && err == nil {
			g.from, g.ask = &f.Call, f.Input
		}
		return true
	})
	order := []string{messages.KindStart, messages.KindFailure, messages.KindDecision, messages.KindAnswer, messages.KindSettled, messages.KindLate, messages.KindCancel}
	slices.SortFunc(g.Story, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.K, b.K), cmp.Compare(a.Token, b.Token))
	})
	return err
}

func (x *exporter) replays(ctx context.Context, g *gathered) error {
	err := x.src.EachEntry(ctx, messages.BucketRuns, messages.ReplayKey(g.Call.Call, "*"), func(e messages.Entry) bool {
		if r, err := messages.DecodeReplay(e.Value); err == nil {
			g.Replays = append(g.Replays, r)
		}
		return true
	})
	slices.SortFunc(g.Replays, func(a, b messages.Replay) int { return cmp.Compare(a.Call, b.Call) })
	return err
}

// write writes the payloads of a call that no call before it had, and the call.
func (x *exporter) write(ctx context.Context, g *gathered) error {
	for _, ref := range g.refs {
		gone, known := x.told[ref.Digest]
		if !known {
			b, err := x.src.GetPayload(ctx, ref)
			gone = errors.Is(err, messages.ErrNotFound)
			if err != nil && !gone {
				return fmt.Errorf("fetch payload %s: %w", ref.Digest, err)
			}
			x.told[ref.Digest] = gone
			if !gone {
				x.tail.Payloads++
				if err := x.line(payloadOf(ref, b)); err != nil {
					return err
				}
			}
		}
		if what := "payload " + ref.Digest; gone && !slices.Contains(g.Missing, what) {
			g.Missing = append(g.Missing, what)
		}
	}
	if err := x.submission(ctx, g); err != nil {
		return err
	}
	slices.Sort(g.Missing)
	x.tail.Calls++
	x.tail.Missing += int64(len(g.Missing))
	return x.line(g.Call)
}

// submission is the call as it was submitted, where its parts are there and can
// stand in a line.
func (x *exporter) submission(ctx context.Context, g *gathered) error {
	c := g.from
	if c == nil {
		return nil
	}
	s := messages.Submission{Ref: c.Ref, Run: c.Run.Name(), Tool: cmp.Or(c.OriginalTool, c.Tool), Lane: c.Lane, Timeout: c.Timeout,
		Deadline: c.Deadline, Task: c.Task, Labels: c.Labels, Policy: c.Policy, Input: g.ask.Inline}
	if c.Key != c.ID {
		s.Key = c.Key
	}
	for _, apart := range []struct {
		ref *messages.PayloadRef
		put func([]byte)
	}{{g.ask.Ref, func(b []byte) { s.Input = b }}, {c.TaskRef, func(b []byte) { s.Task = string(b) }}} {
		if apart.ref == nil {
			continue
		}
		b, err := x.src.GetPayload(ctx, *apart.ref)
		if errors.Is(err, messages.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		apart.put(b)
	}
	write := s.AppendJSON
	var compact bytes.Buffer
	if json.Compact(&compact, s.Input) != nil || !bytes.Equal(compact.Bytes(), s.Input) { // a value in a line would lose its white space
		write = func([]byte) ([]byte, error) { return s.MarshalJSON() }
	}
	if b, err := write(nil); err == nil {
		g.Submission = b
	}
	return nil
}

func (x *exporter) line(v any) error {
	b, err := marshal(v)
	if err == nil {
		_, err = x.w.Write(append(b, '\n'))
	}
	return err
}
