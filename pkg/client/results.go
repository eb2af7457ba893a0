package client

import (
	"context"
	"errors"

	"mulligan/pkg/messages"
)

// maxFilters is how many runs are filtered by the broker; above it this side
// filters what the whole pool ends, since each filter costs the broker more
// than a result that is not wanted costs us.
const maxFilters = 32

// Query says which results are wanted.
type Query struct {
	// Runs whose results are wanted; none means all of the pool's. See [Batch.Run].
	Runs []messages.Run
	// From is the sequence to begin at, see [Client.Position]; 0 means the
	// oldest that is kept.
	From uint64
}

// ErrStop ends [Client.Results] when fn returns it.
var ErrStop = errors.New("stop")

// Results hands each result to fn once, in the order of their ends, first what
// is there and then what comes, until ctx is done or fn returns an error,
// which it returns; ErrStop it returns as nil. fn is never called concurrently,
// and what it does holds up the next result.
//
// A result that this build cannot read, such as one of a later version of the
// wire, ends the reading of given runs with an [UnreadableError], since their
// calls would be waited for in vain; where all of the pool's are wanted, it is
// logged and left out.
func (c *Client) Results(ctx context.Context, q Query, fn func(messages.Result) error) error {
	return c.results(ctx, q, fn, func(e *UnreadableError) error {
		if len(q.Runs) > 0 {
			return e
		}
		c.cfg.Log.Error("a result cannot be read and is left out", "call", e.Call, "error", e.Err)
		return nil
	})
}

// results is Results, and hands results that cannot be read to unreadable.
func (c *Client) results(ctx context.Context, q Query, fn func(messages.Result) error, unreadable func(*UnreadableError) error) error {
	fctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wanted := make(map[messages.Run]bool, len(q.Runs))
	for _, r := range q.Runs {
		wanted[r] = true
	}
	var last uint64
	err := c.broker.Follow(fctx, messages.StreamResults, c.filters(q.Runs), max(q.From, 1), func(m messages.Stored) {
		if fctx.Err() != nil || m.Sequence <= last {
			return
		}
		last = m.Sequence
		r, err := c.names.DecodeResult(m.Message)
		if err != nil {
			a, perr := c.names.Parse(m.Subject)
			if perr == nil && (len(wanted) == 0 || wanted[a.Run]) {
				err = unreadable(&UnreadableError{Call: a.Call, Err: err})
			} else {
				err = nil // nobody's result, or nobody's here
			}
		} else if len(wanted) == 0 || wanted[r.Run] {
			err = fn(r)
		}
		if err != nil {
			stop(err)
		}
	})
	if cause := context.Cause(fctx); cause != nil {
		err = cause
	}
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

func (c *Client) filters(runs []messages.Run) []string {
	if len(runs) == 0 || len(runs) > maxFilters {
		return []string{c.names.ResultsFilter("")}
	}
	out := make([]string, 0, len(runs))
	seen := make(map[messages.Run]bool, len(runs))
	for _, r := range runs {
		if !seen[r] {
			seen[r] = true
			out = append(out, c.names.ResultsFilter(r))
		}
	}
	return out
}

// Wait hands over the result of each of the calls, which are given by id and
// run, until all have ended.
func (c *Client) Wait(ctx context.Context, from uint64, calls map[string]messages.Run, fn func(messages.Result) error) error {
	if len(calls) == 0 {
		return nil
	}
	left := make(map[string]bool, len(calls))
	q := Query{From: from}
	runs := make(map[messages.Run]bool)
	for id, run := range calls {
		left[id] = true
		if !runs[run] {
			runs[run] = true
			q.Runs = append(q.Runs, run)
		}
	}
	return c.results(ctx, q, func(r messages.Result) error {
		if !left[r.Call] {
			return nil
		}
		delete(left, r.Call)
		if err := fn(r); err != nil {
			return err
		}
		if len(left) == 0 {
			return ErrStop
		}
		return nil
	}, func(e *UnreadableError) error {
		if left[e.Call] {
			return e
		}
		return nil
	})
}
