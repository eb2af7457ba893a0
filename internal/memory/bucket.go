package memory

import (
	"context"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// A bucket is a stream whose subjects are its keys.

func (b *Broker) enterBucket(ctx context.Context, op Op, bucket messages.Bucket, key string) (*stream, bool, error) {
	lost, err := b.enter(ctx, op, string(bucket)+"."+key)
	if err != nil {
		return nil, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamNamed(bucketStream(bucket))
	return s, lost, err
}

func (m *stored) entry() messages.Entry {
	e := messages.Entry{Key: m.Subject, Revision: m.Sequence, Deleted: m.deleted}
	if !m.deleted {
		e.Value = copied(m.Message).Body
	}
	return e
}

// Load returns the value under key. ErrNotFound.
func (b *Broker) Load(ctx context.Context, bucket messages.Bucket, key string) (messages.Entry, error) {
	s, _, err := b.enterBucket(ctx, OpLoad, bucket, key)
	if err != nil {
		return messages.Entry{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := s.get(key)
	if b.faults.stale(string(bucket) + "." + key) {
		m = s.before[key]
	}
	if m == nil || m.deleted {
		return messages.Entry{}, fmt.Errorf("load %s of %s: %w", key, bucket, messages.ErrNotFound)
	}
	return m.entry(), nil
}

// Save writes value if the key still has revision expect (0: no value).
func (b *Broker) Save(ctx context.Context, bucket messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	s, lost, err := b.enterBucket(ctx, OpSave, bucket, key)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	have := uint64(0)
	if m := s.get(key); m != nil && (!m.deleted || expect != 0) {
		have = m.Sequence
	}
	if have != expect {
		if lost {
			return 0, errLostAck
		}
		return 0, fmt.Errorf("save %s of %s: %w: revision %d, expected %d", key, bucket, messages.ErrConflict, have, expect)
	}
	m, err := b.set(s, key, value, ttl)
	if err != nil {
		return 0, err
	}
	if lost {
		return 0, errLostAck
	}
	return m.Sequence, nil
}

// Put writes value under key, whatever is there.
func (b *Broker) Put(ctx context.Context, bucket messages.Bucket, key string, value []byte, ttl time.Duration) error {
	s, lost, err := b.enterBucket(ctx, OpPut, bucket, key)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.set(s, key, value, ttl); err != nil {
		return err
	}
	if lost {
		return errLostAck
	}
	return nil
}

// Delete removes the value under key, if there is one.
func (b *Broker) Delete(ctx context.Context, bucket messages.Bucket, key string) error {
	s, lost, err := b.enterBucket(ctx, OpDelete, bucket, key)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mark(s, key)
	if lost {
		return errLostAck
	}
	return nil
}

// set stores a value and starts its life. The caller holds the lock.
func (b *Broker) set(s *stream, key string, value []byte, ttl time.Duration) (*stored, error) {
	if s.full {
		return nil, fmt.Errorf("save %s: %w", key, messages.ErrFull)
	}
	if len(value) > maxMessage {
		return nil, fmt.Errorf("save %s: %w", key, messages.ErrTooLarge)
	}
	m := s.add(messages.Message{Subject: key, Body: value}, ttl)
	if m.expires.IsZero() {
		return m, nil
	}
	m.timer = time.AfterFunc(time.Until(m.expires), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !m.gone {
			b.mark(s, key) // watchers learn of an expiry as of a deletion
		}
	})
	return m, nil
}

// mark leaves the mark of a deletion for an hour. The caller holds the lock.
func (b *Broker) mark(s *stream, key string) {
	s.add(messages.Message{Subject: key}, time.Hour).deleted = true
}

// Entries returns what the bucket holds under keys that match filter.
func (b *Broker) Entries(ctx context.Context, bucket messages.Bucket, filter string) ([]messages.Entry, error) {
	s, _, err := b.enterBucket(ctx, OpEntries, bucket, filter)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []messages.Entry
	for _, m := range s.from(0, []string{filter}, 0) {
		if !m.deleted {
			out = append(out, m.entry())
		}
	}
	return out, nil
}

// EachEntry hands over what Entries returns, until fn returns false.
func (b *Broker) EachEntry(ctx context.Context, bucket messages.Bucket, filter string, fn func(messages.Entry) bool) error {
	entries, err := b.Entries(ctx, bucket, filter)
	for _, e := range entries {
		if !fn(e) {
			break
		}
	}
	return err
}

// Watch calls fn with each entry, then ready once, then fn with each change,
// until ctx is done; then it returns the cause of ctx.
func (b *Broker) Watch(ctx context.Context, bucket messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error {
	s, _, err := b.enterBucket(ctx, OpWatch, bucket, filter)
	if err != nil {
		return err
	}
	told := make(map[string]bool)
	for from := uint64(0); ; {
		if err := b.faults.wait(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", bucket, err)
		}
		entries, changed := b.entriesAfter(s, filter, from)
		for _, e := range entries {
			from = e.Revision + 1
			if !e.Deleted || told[e.Key] {
				told[e.Key] = !e.Deleted
				fn(e)
			}
		}
		if ready != nil {
			ready()
			ready = nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("watch %s: %w", bucket, context.Cause(ctx))
		}
	}
}

func (p *pool) entriesAfter(s *stream, filter string, from uint64) ([]messages.Entry, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []messages.Entry
	for _, m := range s.from(from, []string{filter}, 0) {
		out = append(out, m.entry())
	}
	return out, s.changed
}
