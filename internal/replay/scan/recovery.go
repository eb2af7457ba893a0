package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/expression"
	"mulligan/internal/replay"
	"mulligan/pkg/messages"
)

// Recovery hands over the calls that are meant and have a failure in a range of
// RECOVERY, which outlives results: where the result is gone, the record tells
// how a call ended. It gives how many calls were passed over since they have not
// ended, as far as the pool knows.
func (s *Scanner) Recovery(ctx context.Context, r Range, fn func(*replay.Original) bool) (open int, err error) {
	if !s.Selection.Since.IsZero() {
		from, err := SequenceAt(ctx, s.Source, messages.StreamRecovery, s.Selection.Since)
		if err != nil {
			return 0, err
		}
		r.From = max(r.From, from)
	}
	calls, err := s.failing(ctx, r)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(calls, besideFew) {
		ended := make([]*replay.Original, len(part))
		var g errgroup.Group
		for i, at := range part {
			g.Go(func() (err error) {
				ended[i], err = s.ended(ctx, at)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return open, err
		}
		for _, o := range ended {
			if o == nil {
				open++
				continue
			}
			ok, err := s.Selection.Result(o, expression.NewWork(workOf))
			if err != nil {
				return open, err
			}
			if !ok {
				continue
			}
			s.found++
			if o.Shorten(); !fn(o) {
				return open, nil
			}
		}
	}
	return open, nil
}

// failing are the calls with a failure in a range, each once.
func (s *Scanner) failing(ctx context.Context, r Range) ([]messages.Address, error) {
	names, sel := s.Source.Names(), s.Selection
	var filters []string
	for _, run := range sel.Runs {
		filters = append(filters, names.KindFilter(messages.KindFailure, run))
	}
	if len(filters) > maxFilters {
		filters = nil // all of it
	}
	seen := make(map[string]bool)
	var out []messages.Address
	err := s.Source.ListFrom(ctx, messages.StreamRecovery, filters, r.From, func(m messages.Stored) bool {
		if r.To > 0 && m.Sequence > r.To || !sel.Until.IsZero() && !m.Time.Before(sel.Until) {
			return false
		}
		s.count(messages.StreamRecovery)
		if at, err := names.Parse(m.Subject); err == nil && at.Kind == messages.KindFailure && !seen[at.Call] && (len(sel.Runs) == 0 || slices.Contains(sel.Runs, at.Run)) {
			seen[at.Call] = true
			out = append(out, at)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the failures: %w", err)
	}
	return out, nil
}

// ended is how a call ended; nil where the pool does not know that it did.
func (s *Scanner) ended(ctx context.Context, at messages.Address) (*replay.Original, error) {
	names := s.Source.Names()
	m, err := s.Source.Get(ctx, names.ResultSubject(at.Run, at.Call))
	if err == nil {
		r, err := names.DecodeResult(m.Message)
		if err != nil {
			return nil, nil
		}
		return replay.FromResult(r, m.Sequence), nil
	}
	if !errors.Is(err, messages.ErrNotFound) {
		return nil, fmt.Errorf("read the result of call %s: %w", at.Call, err)
	}
	e, err := s.Source.Load(ctx, messages.BucketAttempts, messages.CallKey(at.Run, at.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of call %s: %w", at.Call, err)
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil || r.State != messages.Ended || r.Outcome == nil {
		return nil, nil
	}
	return replay.FromResult(messages.Result{
		Call: at.Call, Run: at.Run, Ref: r.Call.Ref, Tool: r.Call.Tool, OriginalTool: r.Call.OriginalTool, Labels: r.Call.Labels,
		Status: r.Outcome.Status, Code: r.Outcome.Code, Reason: r.Outcome.Reason, Attempts: r.Spent, Dispatch: r.N, Ended: r.Updated,
		Output: messages.Text(r.Outcome.Text), IsError: true,
	}, 0), nil
}
