package memory

import (
	"context"

	"mulligan/pkg/messages"
)

// Erase removes all messages of a stream whose subject matches filter, and says
// how many.
func (b *Broker) Erase(ctx context.Context, stream messages.Stream, filter string) (int64, error) {
	lost, err := b.enter(ctx, OpErase, filter)
	if err != nil {
		return 0, err
	}
	n, err := b.erase(string(stream), filter)
	if err == nil && lost {
		err = errLostAck
	}
	return n, err
}

// EraseEntries removes all entries of a bucket under keys that match filter,
// without the marks of deletions.
func (b *Broker) EraseEntries(ctx context.Context, bucket messages.Bucket, filter string) (int64, error) {
	lost, err := b.enter(ctx, OpErase, string(bucket)+"."+filter)
	if err != nil {
		return 0, err
	}
	n, err := b.erase(bucketStream(bucket), filter)
	if err == nil && lost {
		err = errLostAck
	}
	return n, err
}

func (b *Broker) erase(stream, filter string) (n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamNamed(stream)
	if err != nil {
		return 0, err
	}
	for _, m := range s.from(0, []string{filter}, 0) {
		if t := b.schedules[m.Subject]; t != nil {
			t.Stop()
			delete(b.schedules, m.Subject)
		}
		if !m.deleted {
			n++
		}
		s.remove(m)
	}
	return n, nil
}
