package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/runstate"
	"mulligan/pkg/messages"
)

// Of reading results one by one.
const (
	resultsAtOnce = 64  // requests side by side
	resultsBatch  = 512 // results held at a time
)

// Results hands over the results of the calls of a run that have ended when it
// is called, in the order in which the calls were submitted: that of their ids,
// which hold their time. It keeps 16 bytes of each call, so that a million take
// 16 MB, and reads the headers of all before the first is handed over, of which
// it tells seen how many; seen may be nil. A result that cannot be read is an
// [*UnreadableError]; one that has outlived its retention meanwhile is left out.
func (r *Runs) Results(ctx context.Context, e messages.RunEntry, seen func(n int), fn func(messages.Result) error) error {
	ids, err := r.ended(ctx, e, seen)
	if err != nil {
		return err
	}
	found := make([]*messages.Stored, resultsBatch)
	for len(ids) > 0 {
		n := min(len(ids), resultsBatch)
		if err := r.fetch(ctx, e.Run, ids[:n], found); err != nil {
			return err
		}
		for i, m := range found[:n] {
			if m == nil {
				continue
			}
			res, err := r.names.DecodeResult(m.Message)
			if err != nil {
				return &UnreadableError{Call: ids[i].String(), Err: err}
			}
			if err := fn(res); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}

// ended are the ids of the calls of a run that have ended, in their order.
func (r *Runs) ended(ctx context.Context, e messages.RunEntry, seen func(int)) ([]runstate.ID, error) {
	n, err := r.store.Matching(ctx, messages.StreamResults, r.names.ResultsFilter(e.Run))
	if err != nil {
		return nil, fmt.Errorf("count the results of run %s: %w", e.Run, err)
	}
	ids := make([]runstate.ID, 0, n)
	err = r.store.ListHeads(ctx, messages.StreamResults, r.names.ResultsFilter(e.Run), e.From, func(m messages.Stored) bool {
		if a, err := r.names.Parse(m.Subject); err == nil {
			ids = append(ids, runstate.IDOf(a.Call))
		}
		if seen != nil {
			seen(len(ids))
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the results of run %s: %w", e.Run, err)
	}
	slices.SortFunc(ids, func(a, b runstate.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids, nil
}

func (r *Runs) fetch(ctx context.Context, run messages.Run, ids []runstate.ID, into []*messages.Stored) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(resultsAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			into[i] = nil
			m, err := r.store.Get(ctx, r.names.ResultSubject(run, id.String()))
			if errors.Is(err, messages.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("result of call %s: %w", id, err)
			}
			into[i] = &m
			return nil
		})
	}
	return g.Wait()
}
