package jetstream_test

import (
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// headBytes is more than the head of CALLS takes.
const headBytes = 100

func TestUsageTellsWhatIsQueuedAndWhatFailed(t *testing.T) {
	t.Parallel()
	p := natstest.Start(t)
	run, names := messages.NamedRun("r"), p.Names()
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	before, queued, failed := usage(t, p)
	if queued > headBytes || failed != 0 {
		t.Fatalf("an empty pool: %d queued, %d failed", queued, failed)
	}
	const size = 10_000
	roughly := func(what string, got, want int64) {
		t.Helper()
		if got < want || got > want+want/5 {
			t.Errorf("%s: %d bytes, want %d and little more", what, got, want)
		}
	}
	body := make([]byte, size)
	if err := p.Publish(t.Context(), messages.Message{Subject: names.CallSubject("q", messages.LaneNormal, run, messages.NewCallID(), 0), Body: body}); err != nil {
		t.Fatal(err)
	}
	var call string
	for range 4 {
		call = messages.NewCallID()
		mustPut(t, p, messages.Message{Subject: names.FailureSubject(run, call, 0), Body: body})
	}
	stored, queued, failed := usage(t, p)
	roughly("stored", stored-before, 5*size)
	roughly("queued", queued, size)
	roughly("failed", failed, 4*size)

	ds, err := p.Fetch(t.Context(), messages.StreamRecovery, messages.ConsumerReflector, 4, patience)
	if err != nil || len(ds) == 0 {
		t.Fatalf("%d failures, %v", len(ds), err)
	}
	_, _, failed = usage(t, p)
	roughly("failed, in a reflector's hands", failed, 4*size)
	mustPut(t, p, messages.Message{Subject: names.DecisionSubject(run, call, 0), Body: body})
	if err := p.Ack(t.Context(), ds[0]); err != nil {
		t.Fatal(err)
	}
	acked(t, p, 4) // three failures and the decision
	_, _, failed = usage(t, p)
	roughly("failed, one of them decided", failed, 4*size)
}

func usage(t *testing.T, p *jetstream.Pool) (stored, queued, failed int64) {
	t.Helper()
	stored, queued, failed, err := p.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stored, queued, failed
}

// acked waits until reflectors and coordinators have n messages yet to do.
func acked(t *testing.T, p *jetstream.Pool, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		open := 0
		for _, c := range []string{messages.ConsumerReflector, messages.ConsumerDecisions} {
			waiting, unacked, err := p.Backlog(t.Context(), messages.StreamRecovery, c)
			if err != nil {
				t.Fatal(err)
			}
			open += waiting + unacked
		}
		if open == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d messages are to be done, want %d", open, n)
		}
	}
}
