package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// Batch is what is submitted under one batch id. Its calls that name no run
// share one for the eye only: they can be followed with one filter, and never
// affect each other (S5.5). All methods may be called concurrently.
type Batch struct {
	c     *Client
	id    string
	run   messages.Run // of the calls that name none
	chunk atomic.Int64
}

// OpenBatch gives the batch with this id, a UUID. A submitter that wants to be
// able to submit the same calls again, after a crash for instance, keeps the
// id, and gives as firstChunk a number above all that the batch has used.
func (c *Client) OpenBatch(id string, firstChunk int) (*Batch, error) {
	if err := messages.UnnamedRun(id).Check(); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	return c.newBatch(id, firstChunk), nil
}

func (c *Client) newBatch(id string, firstChunk int) *Batch {
	b := &Batch{c: c, id: id, run: messages.UnnamedRun(id)}
	b.chunk.Store(int64(firstChunk))
	return b
}

// ID is the batch's id.
func (b *Batch) ID() string { return b.id }

// Run is the run that a call belongs to when it names name, which may be empty.
func (b *Batch) Run(name string) messages.Run {
	if name == "" {
		return b.run
	}
	return messages.NamedRun(name)
}

// Submit is [Client.Submit] for the calls of this batch.
func (b *Batch) Submit(ctx context.Context, calls []messages.Submission) ([]messages.Refusal, error) {
	return b.submit(ctx, calls, false)
}

// Resubmit submits calls, each with its id, that may have been submitted
// before. A call that was accepted then is neither refused now nor run again
// because of it (P7.11).
func (b *Batch) Resubmit(ctx context.Context, calls []messages.Submission) ([]messages.Refusal, error) {
	return b.submit(ctx, calls, true)
}

func (b *Batch) submit(ctx context.Context, calls []messages.Submission, repeat bool) ([]messages.Refusal, error) {
	var mu sync.Mutex
	refused := make(map[string]messages.Refusal)
	keep := func(rs ...messages.Refusal) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range rs {
			refused[r.Call] = r
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.c.cfg.Pipeline)
	send := func(chunk []prepared) {
		g.Go(func() error {
			rs, err := b.sendPatiently(gctx, chunk, repeat)
			keep(rs...)
			return err
		})
	}
	err := b.cut(gctx, calls, send, keep)
	if werr := g.Wait(); werr != nil {
		err = werr
	}
	return inOrder(calls, refused), err
}

func inOrder(calls []messages.Submission, refused map[string]messages.Refusal) []messages.Refusal {
	var out []messages.Refusal
	for _, s := range calls {
		if r, ok := refused[s.Call]; ok {
			r.Ref = s.Ref
			out = append(out, r)
		}
	}
	return out
}

// maxUploaded is how many bytes the calls of one chunk may refer to: the
// coordinator reads them all before it answers.
const maxUploaded = messages.MaxPayload

// cut prepares the calls and cuts them into chunks.
func (b *Batch) cut(ctx context.Context, calls []messages.Submission, send func([]prepared), keep func(...messages.Refusal)) error {
	var chunk []prepared
	size, uploaded := 0, int64(0)
	for i := range calls {
		p, r, err := b.prepare(ctx, &calls[i])
		if err != nil {
			return err
		}
		if r != nil {
			keep(*r)
			continue
		}
		if len(chunk) == messages.MaxChunkCalls || len(chunk) > 0 && (size+len(p.line) > messages.MaxChunkBytes || uploaded+p.uploaded > maxUploaded) {
			send(chunk)
			chunk, size, uploaded = nil, 0, 0
		}
		chunk, size, uploaded = append(chunk, p), size+len(p.line)+1, uploaded+p.uploaded
	}
	if len(chunk) > 0 {
		send(chunk)
	}
	return nil
}

// sendPatiently sends a chunk and, after the hint, again those of its calls
// that were refused only for now. Patience is measured from the last progress:
// a long file in front of a full queue moves on as the queue does.
func (b *Batch) sendPatiently(ctx context.Context, calls []prepared, repeat bool) ([]messages.Refusal, error) {
	var final []messages.Refusal
	giveUp := time.Now().Add(b.c.cfg.Patience)
	for {
		refused, err := b.send(ctx, calls, repeat)
		if err != nil {
			return final, err
		}
		later, wait := split(refused, &final)
		if len(later) == 0 {
			return final, nil
		}
		if len(later) < len(calls) {
			giveUp = time.Now().Add(b.c.cfg.Patience)
		}
		if time.Now().Add(wait).After(giveUp) {
			return append(final, later...), nil
		}
		if !pace.Sleep(ctx, wait) {
			return append(final, later...), nil
		}
		calls, repeat = only(calls, later), repeat || mayBeStored(later)
	}
}

// split takes the refusals that are for good into final, and gives the others
// with the longest wait among their hints.
func split(refused []messages.Refusal, final *[]messages.Refusal) (later []messages.Refusal, wait time.Duration) {
	for _, r := range refused {
		if r.RetryAfter <= 0 {
			*final = append(*final, r)
			continue
		}
		later, wait = append(later, r), max(wait, r.RetryAfter.Duration())
	}
	return later, wait
}

// mayBeStored says whether one of the refusals leaves open what became of its
// call, so that sending it again is a repetition (P7.11).
func mayBeStored(refused []messages.Refusal) bool {
	return slices.ContainsFunc(refused, func(r messages.Refusal) bool { return r.Code == messages.CodeNotStored })
}

func only(calls []prepared, refused []messages.Refusal) []prepared {
	ids := make(map[string]bool, len(refused))
	for _, r := range refused {
		ids[r.Call] = true
	}
	var out []prepared
	for _, p := range calls {
		if ids[p.call] {
			out = append(out, p)
		}
	}
	return out
}
