package memory

import (
	"context"
	"fmt"

	"mulligan/internal/payload"
	"mulligan/pkg/messages"
)

// Get returns the last message on subject, wildcards allowed. ErrNotFound.
func (b *Broker) Get(ctx context.Context, subject string) (messages.Stored, error) {
	if _, err := b.enter(ctx, OpGet, subject); err != nil {
		return messages.Stored{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamOf(subject)
	if err != nil {
		return messages.Stored{}, fmt.Errorf("get %w", err)
	}
	m := s.lastMatching(subject)
	if b.faults.stale(subject) {
		m = s.before[subject]
	}
	if m == nil {
		return messages.Stored{}, fmt.Errorf("get %s: %w", subject, messages.ErrNotFound)
	}
	return m.out(), nil
}

// Find is Get for a subject that is written once. A replica that lags makes no
// difference to it.
func (b *Broker) Find(ctx context.Context, subject string) (messages.Stored, error) {
	if _, err := b.enter(ctx, OpFind, subject); err != nil {
		return messages.Stored{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamOf(subject)
	if err != nil {
		return messages.Stored{}, fmt.Errorf("find %w", err)
	}
	m := s.lastMatching(subject)
	if m == nil {
		return messages.Stored{}, fmt.Errorf("find %s: %w", subject, messages.ErrNotFound)
	}
	return m.out(), nil
}

// Purge removes all messages whose subject matches filter, and unschedules.
func (b *Broker) Purge(ctx context.Context, filter string) error {
	if _, err := b.enter(ctx, OpPurge, filter); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamOf(filter)
	if err != nil {
		return fmt.Errorf("purge %w", err)
	}
	for _, m := range s.from(0, []string{filter}, 0) {
		if t := b.schedules[m.Subject]; t != nil {
			t.Stop()
			delete(b.schedules, m.Subject)
		}
		s.remove(m)
	}
	return nil
}

// List calls fn with what matches now, in the order of the stream.
func (b *Broker) List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error {
	return b.ListFrom(ctx, stream, filters, 0, fn)
}

// ListFrom is List from a sequence on.
func (b *Broker) ListFrom(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored) bool) error {
	if _, err := b.enter(ctx, OpList, string(stream)); err != nil {
		return err
	}
	b.mu.Lock()
	s, err := b.streamNamed(string(stream))
	if err != nil {
		b.mu.Unlock()
		return err
	}
	var all []messages.Stored
	for _, m := range s.from(from, filters, 0) {
		all = append(all, m.out())
	}
	b.mu.Unlock()
	for _, m := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !fn(m) {
			return nil
		}
	}
	return nil
}

// ListHeads is ListFrom for one filter, without the bodies.
func (b *Broker) ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error {
	if _, err := b.enter(ctx, OpListHeads, string(stream)); err != nil {
		return err
	}
	return b.ListFrom(ctx, stream, []string{filter}, from, func(m messages.Stored) bool {
		m.Body = nil
		return fn(m)
	})
}

// Matching is how many messages of the stream match filter.
func (b *Broker) Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error) {
	if _, err := b.enter(ctx, OpMatching, string(stream)); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamNamed(string(stream))
	if err != nil {
		return 0, err
	}
	return uint64(len(s.from(0, []string{filter}, 0))), nil
}

// Follow calls fn with each matching message from a sequence on, in order, each
// once, until ctx is done; then it returns the cause of ctx.
func (b *Broker) Follow(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored)) error {
	if _, err := b.enter(ctx, OpFollow, string(stream)); err != nil {
		return err
	}
	b.mu.Lock()
	s, err := b.streamNamed(string(stream))
	b.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		if err := b.faults.wait(ctx); err != nil {
			return fmt.Errorf("follow %s: %w", stream, err)
		}
		next, changed := b.after(s, filters, from)
		for _, m := range next {
			if ctx.Err() != nil {
				break
			}
			fn(m)
			from = m.Sequence + 1
		}
		if len(next) > 0 && ctx.Err() == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("follow %s: %w", stream, context.Cause(ctx))
		}
	}
}

// after lists up to 256 messages from a sequence on, and says when to look again.
func (p *pool) after(s *stream, filters []string, from uint64) ([]messages.Stored, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []messages.Stored
	for _, m := range s.from(from, filters, 256) {
		out = append(out, m.out())
	}
	return out, s.changed
}

// LastSequence is the sequence of the last message that the stream stored.
func (b *Broker) LastSequence(ctx context.Context, stream messages.Stream) (uint64, error) {
	if _, err := b.enter(ctx, OpLastSequence, string(stream)); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamNamed(string(stream))
	if err != nil {
		return 0, err
	}
	return s.last, nil
}

// PutPayload stores a body in PAYLOADS under its digest.
func (b *Broker) PutPayload(ctx context.Context, body []byte) (messages.PayloadRef, error) {
	return payload.Put(ctx, b, b.names, body)
}

// GetPayload returns what r names, checked against its digest.
func (b *Broker) GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error) {
	return payload.Get(ctx, b, b.names, r)
}
