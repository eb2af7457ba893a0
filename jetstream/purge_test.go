package jetstream_test

import (
	"fmt"
	"testing"

	"mulligan/internal/natstest"
	"mulligan/pkg/messages"
)

// A purge by subject of what a consumer has handed over moves the floors of
// that consumer so that its next ack passes over what others still hold: a
// worker dies, and its call is never handed out again (nats-server 2.15.2). What
// is in CALLS is removed by its sequence instead.
func TestP7_07_RemovingACallLosesNoOther(t *testing.T) {
	t.Parallel()
	p := natstest.Start(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.EnsureQueue(t.Context(), "q"))
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	var calls []messages.Call
	for range 3 {
		c := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: "k"}
		must(p.Publish(t.Context(), p.Names().EncodeCall(c)))
		calls = append(calls, c)
	}
	var held []messages.Delivery
	for range calls {
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 1, patience)
		must(err)
		held = append(held, ds...)
	}
	if len(held) != 3 {
		t.Fatalf("%d of 3 calls were handed over", len(held))
	}
	// The first is held by one who dies, the second is cancelled, the third done.
	must(p.Purge(t.Context(), held[1].Subject))
	must(p.Ack(t.Context(), held[2]))
	again, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 1, patience)
	if err != nil || len(again) != 1 || again[0].Subject != held[0].Subject || again[0].Delivery != 2 {
		t.Fatalf("handed over %+v, %v; want the first call again", again, err)
	}
	must(p.Ack(t.Context(), again[0]))
	must(p.Purge(t.Context(), held[1].Subject)) // what is gone is no error
	eventually(t, func() error {                // the last ack may be under way
		waiting, unacked, err := p.Backlog(t.Context(), messages.StreamCalls, lane)
		if err == nil && waiting+unacked != 0 {
			err = fmt.Errorf("%d wait, %d are in hands", waiting, unacked)
		}
		return err
	})
}
