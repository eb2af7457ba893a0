package raw_test

import (
	"context"
	"errors"
	"testing"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/raw"
	"mulligan/pkg/messages"
)

func calls(names messages.Pool, run messages.Run, n int) []messages.Message {
	ms := make([]messages.Message, n)
	for i := range ms {
		id := messages.NewCallID()
		ms[i] = names.EncodeCall(messages.Call{ID: id, Run: run, Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.ReadOnly, Key: id, Input: messages.Text("{}")})
	}
	return ms
}

// Every job comes back once, also with a large body, and nothing is left behind.
func TestPipeline(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	pool := natstest.Connect(t, s, jetstream.Config{})
	if err := errors.Join(pool.Provision(t.Context(), jetstream.TopologyConfig{}), pool.EnsureQueue(t.Context(), "q")); err != nil {
		t.Fatal(err)
	}
	p, err := raw.Open(t.Context(), raw.Config{URL: s.ClientURL(), Token: s.Token(), Like: pool.Names(), Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	run := messages.UnnamedRun("00000000-0000-7000-8000-000000000000")
	if err := p.Batch(run, calls(pool.Names(), run, 20), nil).Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Clear(t.Context()); err != nil { // nobody ever works on those
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- p.Work(ctx, 4) }()
	for _, large := range [][]byte{nil, make([]byte, messages.PayloadChunk+1)} {
		run := messages.UnnamedRun(messages.NewCallID())
		if err := p.Batch(run, calls(pool.Names(), run, 50), large).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	caller, err := p.Caller(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Call(t.Context(), calls(pool.Names(), run, 1)[0]); err != nil {
		t.Fatal(err)
	}
	caller.Close()
	theirs := natstest.Connect(t, s, jetstream.Config{Prefix: "mulligan_raw"})
	if n, err := theirs.Count(t.Context(), messages.StreamResults, theirs.Names().ResultsFilter("")); err != nil || n != 101 {
		t.Errorf("%d results are stored, %v", n, err)
	}
	if n, err := theirs.Count(t.Context(), messages.StreamCalls, ""); err != nil || n != 0 {
		t.Errorf("%d jobs are left, %v", n, err)
	}
	stop()
	if err := errors.Join(<-worked, p.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.LastSequence(t.Context(), messages.StreamCalls); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("its stream is still there: %v", err)
	}
}
