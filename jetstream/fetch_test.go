package jetstream_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// Many who fetch from one lane get each call once, and wait without asking
// again and again.
func TestManyFetchersShareALane(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{Lease: time.Minute})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	nc, _ := raw(t, s)
	pulls, err := nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.MULLIGAN_CALLS." + lane)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	const n, fetchers = 1000, 8
	got := make(chan messages.Delivery, n)
	var all sync.WaitGroup
	ctx, stop := context.WithCancelCause(t.Context())
	for range fetchers {
		all.Go(func() {
			for {
				ds, err := p.Fetch(ctx, messages.StreamCalls, lane, 10, 30*time.Second)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, d := range ds {
					if err := p.Ack(ctx, d); err != nil {
						t.Error(err)
					}
					got <- d
				}
			}
		})
	}
	seen, again := map[string]bool{}, 0
	for i := range 2 { // before and after they have all waited
		ms := make([]messages.Message, n/2)
		for j := range ms {
			ms[j] = messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0)}
		}
		if err := errors.Join(p.PublishAll(t.Context(), ms)...); err != nil {
			t.Fatal(err)
		}
		for range ms {
			d := next(t, "a call", got)
			if seen[d.Subject] {
				t.Fatalf("%s came twice", d.Subject)
			}
			seen[d.Subject] = true
			if d.Delivery > 1 {
				again++
			}
		}
		if i == 0 {
			before := asked(t, pulls.Pending)
			<-time.After(400 * time.Millisecond)
			if more := asked(t, pulls.Pending) - before; more > 20*fetchers { // asking again and again would be thousands
				t.Errorf("%d fetchers asked %d times while there was nothing", fetchers, more)
			}
		}
	}
	// A call that meets no request in time is given back. That is rare, also where
	// fetchers get no processor when it comes: a few of a hundred.
	if again > n/10 {
		t.Errorf("%d of %d calls were given back first", again, n)
	}
	stop(errStopped)
	all.Wait()
	if total := asked(t, pulls.Pending); total > 2*n {
		t.Errorf("%d calls took %d pulls", n, total)
	}
}

func asked(t *testing.T, pending func() (int, int, error)) int {
	t.Helper()
	n, _, err := pending()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A fetch for more than there is returns what is there at once, whether its
// pull is bounded in bytes or not.
func TestFetchReturnsWhatIsThere(t *testing.T) {
	t.Parallel()
	p := natstest.Start(t)
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	for _, most := range []int{1, 5, 60, 61, 1000, 100_000} {
		for range 3 {
			if err := p.Publish(t.Context(), messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0)}); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		for left := 3; left > 0; {
			ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, most, patience)
			if err != nil || len(ds) == 0 || len(ds) > most {
				t.Fatalf("at most %d: %d, %v", most, len(ds), err)
			}
			for _, d := range ds {
				if err := p.Ack(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			left -= len(ds)
		}
		if took := time.Since(begin); took > patience/2 {
			t.Errorf("at most %d: it took %v", most, took)
		}
		if ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, most, 0); len(ds) != 0 || err != nil {
			t.Errorf("at most %d: then %v, %v", most, ds, err)
		}
	}
}

func TestFetchFromADeletedConsumer(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	done := make(chan error, 1)
	go func() {
		_, err := p.Fetch(context.Background(), messages.StreamCalls, lane, 1, time.Minute)
		done <- err
	}()
	eventually(t, func() error {
		info, err := consumerInfo(t, s, "MULLIGAN_CALLS", lane)
		if err == nil && info.NumWaiting == 0 {
			err = errors.New("no pull is waiting")
		}
		return err
	})
	_, js := raw(t, s)
	if err := js.DeleteConsumer(t.Context(), "MULLIGAN_CALLS", lane); err != nil {
		t.Fatal(err)
	}
	if err := next(t, "the end of a fetch", done); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
