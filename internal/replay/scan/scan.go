package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/internal/expression"
	"mulligan/internal/replay"
	"mulligan/pkg/messages"
)

// Source is the pool's broker.
type Source interface {
	Names() messages.Pool
	Get(ctx context.Context, subject string) (messages.Stored, error)
	ListFrom(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored) bool) error
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)
}

// Range bounds what is read of a stream, by sequence; 0 means no bound.
type Range struct{ From, To uint64 }

// Scanner reads calls that ended. Its methods may be called by one goroutine at
// a time.
type Scanner struct {
	Source    Source
	Selection *replay.Selection
	// Progress is told now and then how many messages of which stream were read, and
	// how many calls were found. May be nil.
	Progress func(stream messages.Stream, read, found int)

	read, found int
}

// workOf bounds the regular expressions of a condition, for one call.
const workOf = 1 << 26

// maxFilters is how many subjects are asked for one by one; above it everything
// is read, since each costs requests of its own.
const maxFilters = 32

// resultFilters are the subjects under which results that are meant may stand;
// none for all: for a filter with wildcards the broker counts with each batch what
// is left of it, which for a whole stream is most of the work.
func (s *Scanner) resultFilters() []string {
	names, sel := s.Source.Names(), s.Selection
	var out []string
	switch {
	case len(sel.Calls) > 0 && len(sel.Calls) <= maxFilters:
		for _, id := range sel.Calls {
			out = append(out, names.ResultSubject(anyRun, id))
		}
	case len(sel.Runs) > 0 && len(sel.Runs) <= maxFilters:
		for _, run := range sel.Runs {
			out = append(out, names.ResultsFilter(run))
		}
	}
	return out
}

// Narrow says that the selection is found by subject, so that nothing else is read.
func (s *Scanner) Narrow() bool { return s.resultFilters() != nil }

// anyRun stands for the run where it is not known.
const anyRun messages.Run = "*"

// skew is by how much the time of storing may differ from the end that a worker
// wrote.
const skew = 10 * time.Minute

// Results hands over the calls that are meant in the order of their ends, as far
// as their results tell, until fn returns false.
func (s *Scanner) Results(ctx context.Context, r Range, fn func(*replay.Original) bool) error {
	if !s.Selection.Since.IsZero() {
		from, err := SequenceAt(ctx, s.Source, messages.StreamResults, s.Selection.Since.Add(-skew))
		if err != nil {
			return err
		}
		r.From = max(r.From, from)
	}
	return s.results(ctx, r, fn)
}

func (s *Scanner) results(ctx context.Context, r Range, fn func(*replay.Original) bool) error {
	var bad error
	err := s.Source.ListFrom(ctx, messages.StreamResults, s.resultFilters(), r.From, func(m messages.Stored) bool {
		if r.To > 0 && m.Sequence > r.To || !s.Selection.Until.IsZero() && m.Time.After(s.Selection.Until.Add(skew)) {
			return false
		}
		s.count(messages.StreamResults)
		o, err := s.meant(m)
		if err != nil {
			bad = err
			return false
		}
		if o == nil {
			return true
		}
		s.found++
		return fn(o)
	})
	return errors.Join(bad, err)
}

// meant reads a result; nil for one that is not meant, or of another version.
func (s *Scanner) meant(m messages.Stored) (*replay.Original, error) {
	res, err := s.Source.Names().DecodeResult(m.Message)
	if err != nil {
		return nil, nil
	}
	o := replay.FromResult(res, m.Sequence)
	ok, err := s.Selection.Result(o, expression.NewWork(workOf))
	if err != nil || !ok {
		return nil, err
	}
	o.Shorten()
	return o, nil
}

// every is after how many messages progress is told.
const every = 5000

func (s *Scanner) count(stream messages.Stream) {
	if s.read++; s.read%every == 0 && s.Progress != nil {
		s.Progress(stream, s.read, s.found)
	}
}

// Windows of a reading from the end.
const (
	leastWindow = 1 << 13
	mostWindow  = 1 << 16
)

// Newest hands over the calls that are meant, those that ended last first, at
// most limit of them (0: all) from before a sequence of RESULTS (0: from the
// end). Where the selection needs stories, they are read. What is kept is one
// window of the stream at a time.
func (s *Scanner) Newest(ctx context.Context, before uint64, limit int, fn func(*replay.Original) error) error {
	last, err := s.Source.LastSequence(ctx, messages.StreamResults)
	if err != nil {
		return fmt.Errorf("read the position of RESULTS: %w", err)
	}
	if before > 0 {
		last = min(last, before-1)
	}
	first := uint64(1)
	if !s.Selection.Since.IsZero() {
		if first, err = SequenceAt(ctx, s.Source, messages.StreamResults, s.Selection.Since.Add(-skew)); err != nil {
			return err
		}
	}
	for size := uint64(leastWindow); last >= first; size = min(2*size, mostWindow) {
		low := first
		if last-first >= size {
			low = last - size + 1
		}
		found, err := s.window(ctx, Range{low, last}, limit)
		if err != nil {
			return err
		}
		for _, o := range slices.Backward(found) {
			if err := fn(o); err != nil {
				return err
			}
			if limit > 0 {
				if limit--; limit == 0 {
					return nil
				}
			}
		}
		last = low - 1
	}
	return nil
}

// window finds what is meant in a range, and of that the last limit calls.
func (s *Scanner) window(ctx context.Context, r Range, limit int) ([]*replay.Original, error) {
	var found []*replay.Original
	err := s.results(ctx, r, func(o *replay.Original) bool {
		found = append(found, o)
		if n := len(found); limit > 0 && n >= 2*limit && !s.Selection.NeedsStory() {
			found = append(found[:0], found[n-limit:]...)
		}
		return true
	})
	if err != nil || !s.Selection.NeedsStory() {
		return found, err
	}
	stories, err := s.Stories(ctx, found)
	if err != nil {
		return nil, err
	}
	defer stories.Close()
	return stories.Meant(ctx, found)
}

// SequenceAt is the sequence of the first message that a stream stored at a time
// or later; one after the last where there is none. It reads a few dozen messages.
func SequenceAt(ctx context.Context, src Source, stream messages.Stream, at time.Time) (uint64, error) {
	// early says that a message from there on is older, and which that is.
	early := func(from uint64) (is bool, seq uint64, err error) {
		err = src.ListFrom(ctx, stream, nil, from, func(m messages.Stored) bool {
			is, seq = m.Time.Before(at), m.Sequence
			return false
		})
		return is, seq, err
	}
	low, step := uint64(1), uint64(1) // everything before low is older
	high := uint64(0)                 // 0: not known yet
	for high == 0 || low < high {
		probe := low + step - 1
		if high > 0 {
			probe = low + (high-low)/2
		}
		is, seq, err := early(probe)
		switch {
		case err != nil:
			return 0, fmt.Errorf("look for %s in %s: %w", at.UTC().Format(time.RFC3339), stream, err)
		case is:
			low = seq + 1
			step *= 2
		default:
			high = probe
		}
	}
	return low, nil
}
