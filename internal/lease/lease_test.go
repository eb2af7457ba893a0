package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/lease"
	"mulligan/pkg/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const length = time.Minute

// broker notes when each delivery, by its token, was extended.
type broker struct {
	mu       sync.Mutex
	err      error
	extended map[string][]time.Time
}

func (b *broker) Extend(_ context.Context, d messages.Delivery) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extended[d.Token] = append(b.extended[d.Token], time.Now())
	return b.err
}

func (b *broker) of(token string) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.extended[token])
}

func delivery(token string) messages.Delivery {
	return messages.Delivery{Stored: messages.Stored{Message: messages.Message{Subject: "s." + token}}, Token: token, Fetched: time.Now()}
}

func TestWhatIsHeldIsNeverWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{extended: map[string][]time.Time{}}
		k := lease.New(b, length, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { k.Run(ctx); close(ran) }()

		began := time.Now()
		release := k.Hold(delivery("long"))
		k.Hold(delivery("short"))()
		<-time.After(10 * length)
		if k.Held() != 1 {
			t.Errorf("it holds %d, want 1", k.Held())
		}
		last := began
		for _, at := range append(b.of("long"), time.Now()) {
			if gap := at.Sub(last); gap > length/2 || gap < length/3 && at != time.Now() {
				t.Errorf("extended %v after %v", gap, last.Sub(began))
			}
			last = at
		}
		release()
		before := len(b.of("long"))
		<-time.After(10 * length)
		if after := len(b.of("long")); after != before || len(b.of("short")) > 0 {
			t.Errorf("extended %d times after its release, and %d times what was done at once", after-before, len(b.of("short")))
		}
		stop()
		<-ran
	})
}

// The lease began when the broker handed the message out, not when it was
// taken up here.
func TestTheLeaseCountsFromTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{extended: map[string][]time.Time{}}
		k := lease.New(b, length, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { k.Run(ctx); close(ran) }()

		d := delivery("old")
		d.Fetched = time.Now().Add(-length / 2)
		defer k.Hold(d)()
		<-time.After(length/6 + time.Millisecond)
		if len(b.of("old")) != 1 {
			t.Error("an old delivery waits for its extension")
		}
		stop()
		<-ran
	})
}

func TestAnExtensionThatFailsIsSaidAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		b := &broker{extended: map[string][]time.Time{}, err: errors.New("no answer")}
		k := lease.New(b, length, slog.New(slog.NewTextHandler(&said, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { k.Run(ctx); close(ran) }()

		defer k.Hold(delivery("x"))()
		<-time.After(length + time.Millisecond)
		stop()
		<-ran
		if n := len(b.of("x")); n < 2 || strings.Count(said.String(), "s.x") != n {
			t.Errorf("tried %d times, said %q", n, said.String())
		}
	})
}
