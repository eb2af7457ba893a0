package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// send sends one chunk until it is answered. Repeating it is safe, since its
// calls keep their ids; once it may have arrived it says so (P7.11).
func (b *Batch) send(ctx context.Context, calls []prepared, repeat bool) ([]messages.Refusal, error) {
	chunk := messages.Chunk{Version: messages.Version, Batch: b.id, Index: int(b.chunk.Add(1) - 1), Count: len(calls), By: b.c.cfg.By, Repeat: repeat, Runs: b.c.runs.Load()}
	var refused []messages.Refusal
	arrived := repeat
	err := b.c.insist(ctx, func(ctx context.Context) error {
		chunk.Repeat = arrived
		chunk.RepeatAt, _ = ctx.Deadline()
		chunk.RepeatAt = chunk.RepeatAt.UTC()
		body, err := request(chunk, calls)
		if err != nil {
			return final(err)
		}
		raw, err := b.c.broker.Request(ctx, messages.EndpointSubmit, body)
		if err != nil {
			arrived = arrived || !errors.Is(err, messages.ErrNoResponder) && !errors.Is(err, messages.ErrForbidden)
			return err
		}
		refused, err = readChunkReply(raw)
		return err
	})
	var ce *ChunkError
	switch {
	case err == nil && !arrived:
		return refused, nil
	case err == nil:
		return b.dropAccepted(ctx, calls, refused)
	case arrived:
		return nil, &UncertainError{Calls: len(calls), Err: err}
	case errors.As(err, &ce):
		return nil, ce
	}
	return nil, fmt.Errorf("submit %d calls: %w", len(calls), err)
}

// request is what [messages.EncodeChunk] makes, of lines that are encoded.
func request(head messages.Chunk, calls []prepared) ([]byte, error) {
	body, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("chunk: %w", err)
	}
	size := len(body)
	for _, p := range calls {
		size += 1 + len(p.line)
	}
	body = slices.Grow(body, size-len(body))
	for _, p := range calls {
		body = append(append(body, '\n'), p.line...)
	}
	return body, nil
}

// dropAccepted removes the refusals of calls that an earlier copy of the chunk
// brought in: that copy was accepted, and what is refused now (the queue is
// full, the deadline has passed, the run has ended) is only the repetition.
func (b *Batch) dropAccepted(ctx context.Context, calls []prepared, refused []messages.Refusal) ([]messages.Refusal, error) {
	runs := make(map[string]messages.Run, len(calls))
	for _, p := range calls {
		runs[p.call] = p.run
	}
	var out []messages.Refusal
	for _, r := range refused {
		var known bool
		err := b.c.insist(ctx, func(ctx context.Context) (err error) {
			known, err = b.c.Known(ctx, runs[r.Call], r.Call)
			return err
		})
		if err != nil {
			return out, &UncertainError{Calls: len(calls), Err: err}
		}
		if !known {
			out = append(out, r)
		}
	}
	return out, nil
}

// Known says whether the pool holds a trace of the call, which it does from
// its acceptance on for as long as its result is kept: its first dispatch is in
// CALLS, or has its outcome. CALLS is read first: a worker writes the outcome
// before it takes the call from there, so a call cannot slip from one place to
// the other between the reads.
func (c *Client) Known(ctx context.Context, run messages.Run, call string) (bool, error) {
	for _, s := range []string{c.names.CallFilter(run, call), c.names.FailureSubject(run, call, 0), c.names.ResultSubject(run, call)} {
		_, err := c.broker.Get(ctx, s)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, messages.ErrNotFound) {
			return false, fmt.Errorf("look for call %s: %w", call, err)
		}
	}
	return false, nil
}

func readChunkReply(raw []byte) ([]messages.Refusal, error) {
	var reply messages.ChunkReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		return nil, final(fmt.Errorf("answer of the coordinator: %w", err))
	}
	if reply.Error == "" {
		return reply.Refused, nil
	}
	err := &ChunkError{Code: reply.Code, Text: reply.Error}
	if reply.Code == messages.CodeNotStored {
		return nil, err
	}
	return nil, final(err)
}

// finalError marks an error that another try cannot mend.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func final(err error) error { return finalError{err} }

// insist repeats try, with growing pauses, until it succeeds, fails for good,
// the patience is spent or ctx is done. Each try has twice the time of the one
// before: a coordinator that is too slow to answer is at work on the earlier
// ones still, and more of them would only make it slower.
func (c *Client) insist(ctx context.Context, try func(context.Context) error) error {
	pauses := pace.New(100*time.Millisecond, 5*time.Second)
	giveUp := time.Now().Add(c.cfg.Patience)
	for timeout := c.cfg.RequestTimeout; ; timeout = min(2*timeout, max(c.cfg.Patience, c.cfg.RequestTimeout)) {
		tctx, cancel := context.WithTimeout(ctx, timeout)
		err := try(tctx)
		cancel()
		var f finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &f):
			return f.error
		case errors.Is(err, messages.ErrForbidden):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		wait := pauses.Next()
		if time.Now().Add(wait).After(giveUp) {
			return err
		}
		if !pace.Sleep(ctx, wait) {
			return err
		}
	}
}
