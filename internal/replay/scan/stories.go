package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/expression"
	"mulligan/internal/replay"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Stories are what RECOVERY holds of calls. Close them.
type Stories struct {
	src   Source
	sel   *replay.Selection
	spool *spool
	of    map[string]*traced
}

// traced is what is kept of a story: the rest is in the spool.
type traced struct {
	o           *replay.Original
	first, last span // failures: of dispatch 0, and the last one
	lastN       int
	decided     int // dispatch of the decision that was noted, -1 for none
}

// few is up to how many stories are read one by one, and besideFew how many at a
// time; more are read from the stream as it stands, which costs less.
const (
	few       = 64
	besideFew = 16
)

// Stories reads the stories of calls: queue, decisions, what may have had an
// effect, inputs. It tells them in the originals, but for what [Stories.Fill] does.
func (s *Scanner) Stories(ctx context.Context, list []*replay.Original) (*Stories, error) {
	sp, err := newSpool()
	if err != nil {
		return nil, err
	}
	st := &Stories{src: s.Source, sel: s.Selection, spool: sp, of: make(map[string]*traced, len(list))}
	for _, o := range list {
		st.of[o.Result.Call] = &traced{o: o, lastN: -1, decided: -1}
	}
	if err := s.gather(ctx, st, list); err != nil {
		st.Close()
		return nil, err
	}
	for _, t := range st.of {
		slices.SortFunc(t.o.Dispatches, func(a, b replay.Dispatch) int { return cmp.Compare(a.N, b.N) })
	}
	return st, nil
}

func (s *Scanner) gather(ctx context.Context, st *Stories, list []*replay.Original) error {
	if len(list) > few {
		if err := s.bulk(ctx, st, list); err != nil {
			return err
		}
		// What is told of a call that began before what was read, as by a submitter
		// whose clock is ahead, is read by itself.
		list = slices.DeleteFunc(slices.Clone(list), func(o *replay.Original) bool { return st.of[o.Result.Call].first.length > 0 || o.Attempts == 0 })
	}
	for part := range slices.Chunk(list, besideFew) {
		found := make([][]messages.Stored, len(part))
		var g errgroup.Group
		for i, o := range part {
			g.Go(func() (err error) {
				found[i], err = s.story(ctx, o)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, ms := range found {
			for _, m := range ms {
				if err := st.add(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// kinds are what counts of a story.
func kinds() []string {
	return []string{messages.KindFailure, messages.KindDecision, messages.KindLate}
}

// story reads that of one call.
func (s *Scanner) story(ctx context.Context, o *replay.Original) (found []messages.Stored, err error) {
	names := s.Source.Names()
	err = s.Source.ListFrom(ctx, messages.StreamRecovery, names.StoryFilters(o.Run, o.Result.Call)[:1], 0, func(m messages.Stored) bool {
		found = append(found, m)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the story of call %s: %w", o.Result.Call, err)
	}
	return found, nil
}

// bulk reads RECOVERY from the time on when the first of the calls was submitted.
func (s *Scanner) bulk(ctx context.Context, st *Stories, list []*replay.Original) error {
	begin := list[0].Ended
	for _, o := range list {
		for _, t := range []time.Time{messages.CallTime(o.Result.Call), o.Ended} {
			if t.Before(begin) {
				begin = t
			}
		}
	}
	from, err := SequenceAt(ctx, s.Source, messages.StreamRecovery, begin.Add(-skew))
	if err != nil {
		return err
	}
	var filters []string
	for _, kind := range kinds() {
		if runs := s.Selection.Runs; len(runs) > 0 && len(runs) <= maxFilters/len(kinds()) {
			for _, run := range runs {
				filters = append(filters, s.Source.Names().KindFilter(kind, run))
			}
		}
	}
	var bad error
	err = s.Source.ListFrom(ctx, messages.StreamRecovery, filters, from, func(m messages.Stored) bool {
		s.count(messages.StreamRecovery)
		bad = st.add(m)
		return bad == nil
	})
	if err = errors.Join(bad, err); err != nil {
		return fmt.Errorf("read the stories of %d calls: %w", len(list), err)
	}
	return nil
}

// add takes in one message of a story. What is of another call, or cannot be
// read, is passed over; a failure that cannot be read counts as the worst.
func (st *Stories) add(m messages.Stored) error {
	at, err := st.src.Names().Parse(m.Subject)
	if err != nil {
		return nil
	}
	t := st.of[at.Call]
	if t == nil || t.o.Run != at.Run {
		return nil
	}
	switch at.Kind {
	case messages.KindFailure:
		return st.failure(t, at.N, m.Body)
	case messages.KindDecision:
		if d, err := messages.DecodeDecision(m.Body); err == nil && at.N > t.decided {
			t.decided, t.o.By, t.o.Rule = at.N, d.By, d.Rule
		}
	case messages.KindLate:
		if l, err := messages.DecodeStory[messages.Late](m.Body); err == nil && l.Output != nil {
			t.o.LateSuccess = true
		}
	}
	return nil
}

func (st *Stories) failure(t *traced, n int, body []byte) error {
	for _, d := range t.o.Dispatches {
		if d.N == n {
			return nil // read before
		}
	}
	f, err := messages.DecodeFailure(body)
	if err != nil {
		t.o.Dispatches = append(t.o.Dispatches, replay.Dispatch{N: n, Effect: messages.Unsafe, Ambiguous: true})
		return nil
	}
	d := replay.Dispatch{N: n, Key: f.Call.Key, Effect: f.Call.Effect, Ambiguous: f.Ambiguous}
	if d.Ambiguous || n > t.lastN { // only these are compared
		input := f.Input.Inline
		if f.Input.Ref != nil {
			input = []byte("\x00" + f.Input.Ref.Digest)
		}
		d.Digest = recovery.Digest(f.Call.Tool, input)
	}
	t.o.Dispatches = append(t.o.Dispatches, d)
	t.o.Queue = f.Call.Queue
	if n > t.lastN {
		t.lastN, t.o.Effect = n, f.Call.Effect
		if t.last, err = st.spool.put(body); err != nil {
			return err
		}
	}
	if n == 0 {
		t.first, err = st.spool.put(body)
	}
	return err
}

// Meant gives those of the calls that the whole selection means.
func (st *Stories) Meant(ctx context.Context, list []*replay.Original) ([]*replay.Original, error) {
	var out []*replay.Original
	for _, o := range list {
		if st.sel.NeedsInput() {
			if err := st.Fill(ctx, o); err != nil {
				return nil, err
			}
		}
		ok, err := st.sel.Story(o, expression.NewWork(workOf))
		if err != nil {
			return nil, err
		}
		o.Forget()
		if ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// Fill reads what the call was submitted with: from the failure of its first
// dispatch, else from the record of one that never came so far. HasInput says
// whether there is such a thing.
func (st *Stories) Fill(ctx context.Context, o *replay.Original) error {
	t := st.of[o.Result.Call]
	if t == nil {
		return nil
	}
	var input messages.Body
	switch {
	case t.first.length > 0:
		f, err := st.read(t.first)
		if err != nil {
			return err
		}
		o.Call, input = f.Call, f.Input
	default:
		r, err := st.record(ctx, o)
		if err != nil || r == nil {
			return err
		}
		o.Call, input = r.Call, r.Input
		o.Queue, o.Effect = cmp.Or(o.Queue, r.Call.Queue), cmp.Or(o.Effect, r.Call.Effect)
	}
	var known bool
	var err error
	if o.Input, known, err = st.body(ctx, input); err != nil || !known {
		return err
	}
	o.HasInput = true
	if ref := o.Call.TaskRef; ref != nil {
		task, known, err := st.body(ctx, messages.Body{Ref: ref})
		if err != nil {
			return err
		}
		if known {
			o.Call.Task = strings.ToValidUTF8(string(task), "\uFFFD")
		}
		o.Call.TaskRef = nil
	}
	return st.digests(o, t)
}

// digests mends those of inputs that are kept apart, which were not read while
// the stories were: they are the same as the first one, or nobody can tell.
func (st *Stories) digests(o *replay.Original, t *traced) error {
	if t.first.length == 0 {
		return nil
	}
	f, err := st.read(t.first)
	if err != nil || f.Input.Ref == nil {
		return err
	}
	apart := recovery.Digest(f.Call.Tool, []byte("\x00"+f.Input.Ref.Digest))
	for i, d := range o.Dispatches {
		if d.Digest == apart {
			o.Dispatches[i].Digest = recovery.Digest(f.Call.Tool, o.Input)
		}
	}
	return nil
}

// Last reads the last failure with its input, nil where that is gone; nil for
// none.
func (st *Stories) Last(ctx context.Context, o *replay.Original) (*messages.Failure, []byte, error) {
	t := st.of[o.Result.Call]
	if t == nil || t.last.length == 0 {
		return nil, nil, nil
	}
	f, err := st.read(t.last)
	if err != nil {
		return nil, nil, err
	}
	input, _, err := st.body(ctx, f.Input)
	return &f, input, err
}

func (st *Stories) read(at span) (messages.Failure, error) {
	b, err := st.spool.get(at)
	if err != nil {
		return messages.Failure{}, err
	}
	return messages.DecodeFailure(b)
}

// record is that of a call as it was submitted; nil where there is none that
// tells. It holds the input of its dispatch, which only the first has in common
// with the submission.
func (st *Stories) record(ctx context.Context, o *replay.Original) (*messages.Record, error) {
	e, err := st.src.Load(ctx, messages.BucketAttempts, messages.CallKey(o.Run, o.Result.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of call %s: %w", o.Result.Call, err)
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil || r.Call.Key == "" || r.N > 0 {
		return nil, nil
	}
	return &r, nil
}

// body gives the bytes of a body; known is false where they have outlived their
// retention.
func (st *Stories) body(ctx context.Context, b messages.Body) (_ []byte, known bool, err error) {
	if b.Ref == nil {
		return b.Inline, true, nil
	}
	out, err := st.src.GetPayload(ctx, *b.Ref)
	if errors.Is(err, messages.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("fetch payload %s of %d bytes: %w", b.Ref.Digest, b.Ref.Size, err)
	}
	return out, true, nil
}

// Close lets go of what was kept.
func (st *Stories) Close() { st.spool.close() }
