package worker

import (
	"context"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// mostAllocs is what a call that simply works may allocate in a worker, from its
// delivery to its ack, without what the broker's connection takes: 36 as
// measured, and a little for other versions of Go. What grows it makes every
// call of every pool dearer.
const mostAllocs = 39

// quietBroker stores everything and keeps nothing.
type quietBroker struct{ Broker }

func (quietBroker) Names() messages.Pool                         { return messages.Pool{} }
func (quietBroker) Ack(context.Context, messages.Delivery) error { return nil }
func (quietBroker) PutOnce(context.Context, messages.Message) (*messages.Stored, error) {
	return nil, nil
}

// hotWorker is a worker that is handed deliveries by hand.
func hotWorker(tb testing.TB) (w *Worker, deliver func()) {
	tb.Helper()
	echo := tool.Raw("noop", nil, func(_ context.Context, c tool.Call) (tool.Output, error) {
		return tool.Output{Body: c.Input}, nil
	}, tool.Effect(messages.ReadOnly), tool.Queue("q"))
	w, err := New(Config{Broker: quietBroker{}, Name: "w", Tools: []*tool.Tool{echo}, Slots: 1})
	if err != nil {
		tb.Fatal(err)
	}
	w.draining, w.working, w.flushing = tb.Context(), tb.Context(), tb.Context()
	id := messages.NewCallID()
	m := messages.Pool{}.EncodeCall(messages.Call{
		ID: id, Run: messages.UnnamedRun(messages.NewCallID()), Tool: "noop", Queue: "q", Lane: messages.LaneNormal,
		Effect: messages.ReadOnly, Key: id, Input: messages.Text(`{"p":"x"}`),
	})
	n := uint64(0)
	return w, func() {
		n++
		w.handle(w.leases.take(messages.Delivery{Stored: messages.Stored{Message: m, Sequence: n}, Delivery: 1, Fetched: time.Now()}))
		<-w.freed
	}
}

func TestAllocationsOfACallThatWorks(t *testing.T) {
	w, deliver := hotWorker(t)
	if n := testing.AllocsPerRun(1000, deliver); n > mostAllocs {
		t.Errorf("%v allocations a call, the gate is at %d", n, mostAllocs)
	}
	if got := w.counts.succeeded.Load(); got != 1001 {
		t.Errorf("%d calls succeeded", got)
	}
}

// BenchmarkCall is a worker's share of a call that simply works.
func BenchmarkCall(b *testing.B) {
	_, deliver := hotWorker(b)
	b.ReportAllocs()
	for b.Loop() {
		deliver()
	}
}
