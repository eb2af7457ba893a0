package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

var errBroken = errors.New("broken by the test")

func newBroker(t *testing.T) *Broker {
	t.Helper()
	b := New(Config{Lease: time.Second})
	if err := b.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	return b
}

func queued(b *Broker, n int) messages.Message {
	return messages.Message{Subject: b.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), n), Body: []byte("in")}
}

func fetch(t *testing.T, b *Broker, wait time.Duration) []messages.Delivery {
	t.Helper()
	ds, err := b.Fetch(t.Context(), messages.StreamCalls, b.Names().LaneConsumer("q", messages.LaneNormal), 10, wait)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func TestLoseAckStoresAndDenies(t *testing.T) {
	b := newBroker(t)
	m := messages.Message{Subject: b.Names().ResultSubject("r", messages.NewCallID()), Body: []byte("x")}
	b.LoseAck(OpPutOnce, "mulligan.result.>")
	if winner, err := b.PutOnce(t.Context(), m); winner != nil || err == nil {
		t.Fatalf("%v, %v", winner, err)
	}
	if winner, err := b.PutOnce(t.Context(), m); err != nil || winner == nil {
		t.Fatalf("it is not there, or the fault goes on: %v, %v", winner, err)
	}
	b.LoseAck(OpSave, "ATTEMPTS.r.c")
	if _, err := b.Save(t.Context(), messages.BucketAttempts, "r.c", []byte("x"), 0, 0); err == nil {
		t.Fatal("the answer was not lost")
	}
	if e, err := b.Load(t.Context(), messages.BucketAttempts, "r.c"); err != nil || string(e.Value) != "x" {
		t.Fatalf("%v, %v", e, err)
	}
}

func TestLostSettlementIsNotNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		if err := b.Publish(t.Context(), queued(b, 0)); err != nil {
			t.Fatal(err)
		}
		d := fetch(t, b, 0)[0]
		b.LoseAck(OpAck, ">")
		if err := b.Ack(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if again := fetch(t, b, time.Minute); len(again) != 1 || again[0].Delivery != 2 {
			t.Fatalf("got %v", again)
		}
	})
}

func TestFailHasNoEffect(t *testing.T) {
	b := newBroker(t)
	b.Fail(OpPublish, ">", 2, errBroken)
	m := queued(b, 0)
	for i := range 3 {
		if err := b.Publish(t.Context(), m); errors.Is(err, errBroken) != (i < 2) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	b.Fail("", "TOOLS.>", -1, errBroken)
	for range 3 {
		if err := b.Put(t.Context(), messages.BucketTools, "k", nil, 0); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if err := b.Peer().Put(t.Context(), messages.BucketTools, "k", nil, 0); err != nil {
		t.Fatalf("a peer shares the fault: %v", err)
	}
	b.Heal()
	if err := b.Put(t.Context(), messages.BucketTools, "k", nil, 0); err != nil {
		t.Fatal(err)
	}
}

// A frozen process does nothing; what it held is handed to another.
func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := newBroker(t)
		other := frozen.Peer()
		if err := frozen.Publish(t.Context(), queued(frozen, 0)); err != nil {
			t.Fatal(err)
		}
		d := fetch(t, frozen, 0)[0]
		frozen.Freeze()
		acked := make(chan error, 1)
		go func() { acked <- frozen.Ack(context.Background(), d) }()
		if ds := fetch(t, other, time.Minute); len(ds) != 1 || ds[0].Sequence != d.Sequence || ds[0].Delivery != 2 {
			t.Fatalf("got %v", ds)
		}
		select {
		case err := <-acked:
			t.Fatalf("it acked while frozen: %v", err)
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := frozen.Get(ctx, d.Subject); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("it read while frozen: %v", err)
		}
		frozen.Thaw()
		if err := <-acked; err != nil {
			t.Fatal(err)
		}
		if ds := fetch(t, other, time.Minute); len(ds) != 0 {
			t.Fatalf("the stale ack was fenced: %v", ds)
		}
	})
}

func TestStaleReadSeesWhatWasBefore(t *testing.T) {
	b := newBroker(t)
	rev, err := b.Save(t.Context(), messages.BucketAttempts, "r.c", []byte("old"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Save(t.Context(), messages.BucketAttempts, "r.c", []byte("new"), rev, 0); err != nil {
		t.Fatal(err)
	}
	b.StaleRead("ATTEMPTS.>")
	for _, want := range []string{"old", "new"} {
		if e, err := b.Load(t.Context(), messages.BucketAttempts, "r.c"); err != nil || string(e.Value) != want {
			t.Fatalf("got %q, %v; want %q", e.Value, err, want)
		}
	}
	m := messages.Message{Subject: b.Names().ResultSubject("r", messages.NewCallID())}
	if _, err := b.PutOnce(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.StaleRead(m.Subject)
	if _, err := b.Get(t.Context(), m.Subject); !errors.Is(err, messages.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), m.Subject); err != nil {
		t.Fatal(err)
	}
}

func TestDeliverAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t)
		if err := b.Publish(t.Context(), queued(b, 0)); err != nil {
			t.Fatal(err)
		}
		d := fetch(t, b, 0)[0]
		if err := b.Ack(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := b.DeliverAgain(d); err != nil {
			t.Fatal(err)
		}
		if ds := fetch(t, b, time.Second); len(ds) != 1 || ds[0].Sequence != d.Sequence || ds[0].Delivery != 1 {
			t.Fatalf("got %v", ds)
		}
		if ds := fetch(t, b, time.Hour); len(ds) != 0 {
			t.Fatalf("and again: %v", ds)
		}
		if err := b.DeliverAgain(messages.Delivery{Token: "x"}); err == nil {
			t.Error("a token of nobody was taken")
		}
	})
}

func TestExpireLeases(t *testing.T) {
	b := newBroker(t)
	if err := b.Publish(t.Context(), queued(b, 0)); err != nil {
		t.Fatal(err)
	}
	fetch(t, b, 0)
	b.ExpireLeases(messages.StreamCalls, b.Names().LaneConsumer("q", messages.LaneNormal))
	if ds := fetch(t, b, 0); len(ds) != 1 || ds[0].Delivery != 2 {
		t.Fatalf("got %v", ds)
	}
}

func TestCounts(t *testing.T) {
	b := newBroker(t)
	worker := b.Peer()
	for range 3 {
		if err := b.Publish(t.Context(), queued(b, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range fetch(t, worker, 0) {
		if err := worker.Ack(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if b.Count(OpPublish, "mulligan.call.>") != 3 || b.Count(OpPublish, "mulligan.result.>") != 0 || b.Count(OpAck, ">") != 0 {
		t.Errorf("publisher did %v", b.Counts())
	}
	if c := worker.Counts(); c[OpFetch] != 1 || c[OpDelivery] != 3 || c[OpAck] != 3 || len(c) != 3 {
		t.Errorf("worker did %v", c)
	}
	b.ResetCounts()
	if len(b.Counts()) != 0 {
		t.Errorf("after a reset: %v", b.Counts())
	}
}

// A failed or an ended retention lets go of what it held, and the same subject
// can be written again.
func TestAgesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{ResultsAge: time.Hour, RecoveryAge: 3 * time.Hour})
		id := messages.NewCallID()
		result := messages.Message{Subject: b.Names().ResultSubject("r", id)}
		start := messages.Message{Subject: b.Names().StartSubject("r", id, 0)}
		failure := messages.Message{Subject: b.Names().FailureSubject("r", id, 0)}
		put := func(m messages.Message, want bool) {
			t.Helper()
			winner, err := b.PutOnce(t.Context(), m)
			if err != nil || (winner == nil) != want {
				t.Fatalf("%s: %v, %v", m.Subject, winner, err)
			}
		}
		put(result, true)
		put(start, true)
		put(failure, true)
		<-time.After(2 * time.Hour)
		put(result, true)
		put(start, true)
		put(failure, false)
		<-time.After(2 * time.Hour)
		put(failure, true)
	})
}
