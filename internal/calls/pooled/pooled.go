// Package pooled lets package calls run its files through a client.
package pooled

import (
	"context"
	"errors"
	"sync"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/pace"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Pool is a client as package calls wants one. It works on one batch and
// session at a time; methods may be called concurrently.
type Pool struct {
	*client.Client

	mu    sync.Mutex
	batch *client.Batch // of the batch and session that were last asked for
}

var _ calls.Pool = (*Pool)(nil)

// New makes a pool of a client, which stays the caller's to close.
func New(c *client.Client) *Pool { return &Pool{Client: c} }

// chunksOfASession keeps the chunks of the sessions of one batch apart.
const chunksOfASession = 1_000_000

// Submit is that of [calls.Pool].
func (p *Pool) Submit(ctx context.Context, batch string, session int, repeat bool, calls []messages.Submission) ([]messages.Refusal, error) {
	b, err := p.open(batch, session)
	if err != nil {
		return nil, err
	}
	if repeat {
		return b.Resubmit(ctx, calls)
	}
	return b.Submit(ctx, calls)
}

func (p *Pool) open(batch string, session int) (*client.Batch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch == nil || p.batch.ID() != batch {
		b, err := p.OpenBatch(batch, session*chunksOfASession)
		if err != nil {
			return nil, err
		}
		p.batch = b
	}
	return p.batch, nil
}

// Results is that of [calls.Pool].
func (p *Pool) Results(ctx context.Context, runs []messages.Run, from uint64, fn func(messages.Result) error) error {
	return p.Client.Results(ctx, client.Query{Runs: runs, From: from}, fn)
}

// outputPatience is how long Output tries.
const outputPatience = 2 * time.Minute

// Output tries for a while, since the broker may be away for a moment.
func (p *Pool) Output(ctx context.Context, r messages.Result) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, outputPatience)
	defer cancel()
	for pauses := pace.New(100*time.Millisecond, 5*time.Second); ; {
		b, err := p.Client.Output(ctx, r)
		if err == nil || errors.Is(err, messages.ErrNotFound) || !pauses.Wait(ctx) {
			return b, err
		}
	}
}
