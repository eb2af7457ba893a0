package coordination_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// overheard keeps what the watches of a coordinator bring.
type overheard struct {
	*memory.Broker

	mu   sync.Mutex
	keys map[messages.Bucket][]string
}

func (o *overheard) Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error {
	return o.Broker.Watch(ctx, b, filter, ready, func(e messages.Entry) {
		o.mu.Lock()
		o.keys[b] = append(o.keys[b], e.Key)
		o.mu.Unlock()
		fn(e)
	})
}

// What batches hold is kept for a month, a key for each chunk. A coordinator
// that listened to it would read all of it at its start, and remember it.
func TestACoordinatorHearsOnlyWhatItAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		if reply := r.cancel(messages.CancelRequest{Run: c.Run}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		o := &overheard{Broker: r.admin.Peer(), keys: make(map[messages.Bucket][]string)}
		cfg := r.config("late")
		cfg.Broker = o
		late, err := coordination.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		<-late.Started()
		other := r.accept(func(s *messages.Submission) { s.Run = "other" })
		if reply := r.cancel(messages.CancelRequest{Run: other.Run, Call: other.ID}); reply.Error != "" {
			t.Fatal(reply.Error)
		}
		if err := late.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		for b, keys := range o.keys {
			for _, key := range keys {
				heard := b == messages.BucketTools || b == messages.BucketRuns && strings.HasPrefix(key, "run.") ||
					b == messages.BucketControl && (key == messages.PolicyKey || strings.HasPrefix(key, messages.BreakerPrefix))
				if !heard {
					t.Errorf("%s: %s", b, key)
				}
			}
		}
		if len(o.keys[messages.BucketRuns]) == 0 || len(o.keys[messages.BucketTools]) == 0 {
			t.Errorf("it heard too little: %v", o.keys)
		}
	})
}
