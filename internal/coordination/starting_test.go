package coordination_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// unserved holds the endpoints back until it is released.
type unserved struct {
	*memory.Broker
	release chan struct{}
}

func (u *unserved) Serve(ctx context.Context, endpoint string, ready func(), handle func(context.Context, []byte) []byte) error {
	if endpoint == messages.EndpointSubmit {
		<-u.release
	}
	return u.Broker.Serve(ctx, endpoint, ready, handle)
}

func isStarted(c *coordination.Coordinator) bool {
	synctest.Wait()
	select {
	case <-c.Started():
		return true
	default:
		return false
	}
}

func TestStartedMeansThatRequestsFindIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cfg := r.config("c")
		b := &unserved{Broker: r.admin.Peer(), release: make(chan struct{})}
		cfg.Broker = b
		c := must(coordination.New(cfg))
		if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		if isStarted(c) {
			t.Error("it has started, and nobody serves submissions")
		}
		close(b.release)
		if !isStarted(c) {
			t.Error("it has not started")
		}
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingIsDoneBeforeThePoolIsPrepared(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cfg := r.config("c")
		prepared := make(chan error)
		cfg.Prepare = func(context.Context) error { return <-prepared }
		c := must(coordination.New(cfg))
		if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		if isStarted(c) {
			t.Error("it has started on nothing")
		}
		prepared <- context.DeadlineExceeded
		<-c.Stopped()
		if c.Err() == nil {
			t.Error("it ended without the error")
		}
	})
}

// blind is a broker whose watch of the tools has yet to bring what is new.
type blind struct{ *memory.Broker }

func (b *blind) Watch(ctx context.Context, bucket messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error {
	if bucket == messages.BucketTools {
		fn = func(messages.Entry) {}
	}
	return b.Broker.Watch(ctx, bucket, filter, ready, fn)
}

// A watch that is behind does not make a refusal poorer.
func TestARefusalNamesAToolThatWasOfferedAMomentAgo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cfg := r.config("c")
		cfg.Broker = &blind{r.admin.Peer()}
		c := must(coordination.New(cfg))
		if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		<-c.Started()
		r.tool("get_order", messages.Unsafe)
		got := r.send(messages.Chunk{Calls: []messages.Submission{submission(func(s *messages.Submission) { s.Tool = "get_ordr" })}})
		if len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Text, "Did you mean 'get_order'?") {
			t.Errorf("%+v", got)
		}
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func TestTheEndOfAFailedCallIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		r.coordinator(func(c *coordination.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		r.tool("t", messages.Unsafe)
		r.failAndDecide(r.accept(), messages.Fail("enough"))
		synctest.Wait()
		if n := strings.Count(log.String(), "call ended"); n != 1 {
			t.Errorf("its end is told %d times:\n%s", n, log.String())
		}
	})
}

// usage is a store that is as full as the test says.
type usage struct{ stored, queued, looks atomic.Int64 }

func (u *usage) Usage(context.Context) (stored, queued, failed int64, err error) {
	u.looks.Add(1)
	return u.stored.Load(), u.queued.Load(), 0, nil
}

func TestAFullStoreRefusesUntilThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		u := &usage{}
		r.coordinator(func(c *coordination.Config) { c.Store, c.StoreLimit = u, 1_200_000 })
		r.tool("t", messages.Unsafe)
		submit := func(calls ...messages.Submission) messages.ChunkReply { return r.send(messages.Chunk{Calls: calls}) }
		big := func(s *messages.Submission) { s.Input = []byte(`{"a":"` + strings.Repeat("x", 100_000) + `"}`) }
		u.stored.Store(295_000) // 900,000 may be taken, and a call wants 502,000
		if got := submit(submission(big), submission(big)); len(got.Refused) != 1 || got.Refused[0].Code != messages.CodeQueueFull ||
			got.Refused[0].RetryAfter == 0 || !strings.Contains(got.Refused[0].Text, "store is full") {
			t.Errorf("%+v", got)
		}
		if n := u.looks.Load(); n != 1 {
			t.Errorf("it looked %d times", n)
		}
		u.stored.Store(100_000)
		if got := submit(submission(big)); len(got.Refused) != 1 {
			t.Errorf("it did not go on with its count: %+v", got)
		}
		<-time.After(time.Second)
		if got := submit(submission(big)); len(got.Refused) != 0 {
			t.Errorf("there is room: %+v", got)
		}
		<-time.After(time.Second)
		u.queued.Store(100_000) // their ends want four times as much
		if got := submit(submission(big)); len(got.Refused) != 1 {
			t.Errorf("it took the room of what is queued: %+v", got)
		}
	})
}
