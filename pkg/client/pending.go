package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"mulligan/pkg/messages"
)

// Pending is a call whose result is looked for. Close it when nobody waits for
// it any more; the call goes on.
type Pending struct {
	Call string
	Run  messages.Run

	ended   <-chan outcome
	close   func()
	refused *RefusedError
}

// Begin submits one call of the batch and returns when it is accepted; a
// refusal is a [*RefusedError]. With repeat the call, which then brings its id,
// may have been submitted before, by anybody: it is attached to, and does not
// run again (P7.11).
func (b *Batch) Begin(ctx context.Context, s messages.Submission, repeat bool) (*Pending, error) {
	list, err := b.BeginAll(ctx, []messages.Submission{s}, repeat)
	if err != nil {
		return nil, err
	}
	if list[0].refused != nil {
		return nil, list[0].refused
	}
	return list[0], nil
}

// looks is how many results are looked for side by side.
const looks = 16

// BeginAll is Begin for several calls, which are submitted together. There is a
// Pending for each, in their order; of a refused one Wait gives a
// [*RefusedError]. With an error there is none, and nobody knows which calls
// were accepted, as of [Client.Submit].
func (b *Batch) BeginAll(ctx context.Context, calls []messages.Submission, repeat bool) (list []*Pending, err error) {
	list = make([]*Pending, len(calls))
	defer func() {
		if err != nil {
			for _, p := range list {
				if p != nil {
					p.Close()
				}
			}
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for i := range calls {
		if calls[i].Call == "" {
			calls[i].Call = messages.NewCallID()
		}
		g.Go(func() (err error) {
			list[i], err = b.c.look(gctx, b.Run(calls[i].Run), calls[i].Call, repeat)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return list, err
	}
	var left []messages.Submission
	places := make(map[string]int)
	for i, p := range list {
		if len(p.ended) == 0 {
			left, places[p.Call] = append(left, calls[i]), i
		}
	}
	refused, err := b.submit(ctx, left, repeat)
	if err != nil {
		return list, err
	}
	for _, r := range refused {
		p := list[places[r.Call]]
		p.Close()
		*p = *p.over(outcome{err: &RefusedError{r}})
		p.refused = &RefusedError{r}
	}
	return list, nil
}

// over is a pending call of which all is known.
func (p *Pending) over(o outcome) *Pending {
	there := make(chan outcome, 1)
	there <- o
	return &Pending{Call: p.Call, Run: p.Run, ended: there, close: func() {}}
}

// Attend looks for the result of a call that was submitted before, by anybody.
// It does not find out whether there is such a call; see [Client.Known].
func (c *Client) Attend(ctx context.Context, run messages.Run, call string) (*Pending, error) {
	return c.look(ctx, run, call, true)
}

// look begins to look for a result. With before it may be there already.
func (c *Client) look(ctx context.Context, run messages.Run, call string, before bool) (*Pending, error) {
	ended, release, err := c.hub.expect(ctx, run, call)
	if err != nil {
		return nil, err
	}
	p := &Pending{Call: call, Run: run, ended: ended, close: release}
	if !before {
		return p, nil
	}
	r, err := c.Ended(ctx, run, call)
	if errors.Is(err, messages.ErrNotFound) {
		return p, nil
	}
	release()
	if err != nil {
		return nil, err
	}
	return p.over(outcome{result: r}), nil
}

// Wait gives the result. When ctx is done first it returns the cause, and may be
// called again; after a result it may not.
func (p *Pending) Wait(ctx context.Context) (messages.Result, error) {
	select {
	case o := <-p.ended:
		return o.result, o.err
	default:
	}
	select {
	case o := <-p.ended:
		return o.result, o.err
	case <-ctx.Done():
		return messages.Result{}, fmt.Errorf("call %s has not ended: %w", p.Call, context.Cause(ctx))
	}
}

// Refused says that the call was not accepted: [Pending.Wait] gives a
// [*RefusedError] at once.
func (p *Pending) Refused() bool { return p.refused != nil }

// Close ends looking for the result.
func (p *Pending) Close() { p.close() }
