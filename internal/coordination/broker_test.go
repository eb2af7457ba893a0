package coordination_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/natstest"
	"mulligan/pkg/messages"
)

// patience bounds what must happen soon, on a machine that has much else to do.
const patience = 2 * time.Minute

// real is a coordinator on a real broker. What the bubbles show about order is
// not repeated here, only that the broker takes and gives what the twin does.
type real struct {
	t     *testing.T
	b     coordination.Broker
	names messages.Pool
	batch string
	ask   func(endpoint string, body []byte) []byte
}

func onBroker(t *testing.T) *real {
	t.Helper()
	pool := natstest.Start(t)
	c := must(coordination.New(coordination.Config{Broker: pool, Name: "c", Lease: natstest.Lease, Log: testLog(t)}))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	<-c.Started()
	r := &real{t: t, b: pool, names: pool.Names(), batch: messages.NewCallID()}
	r.ask = func(endpoint string, body []byte) []byte {
		for begin := time.Now(); ; {
			reply, err := pool.Request(t.Context(), endpoint, body)
			if err == nil {
				return reply
			}
			if !errors.Is(err, messages.ErrNoResponder) || time.Since(begin) > patience {
				t.Fatal(err)
			}
		}
	}
	offer := messages.OfferRequest{Worker: "w", Tools: []messages.ToolSpec{{Name: "t", Queue: "a queue/1", Effect: messages.Unsafe}}}
	reply := must(messages.DecodeService[messages.OfferReply](r.ask(messages.EndpointOffer, must(messages.EncodeService(offer)))))
	if reply.Error != "" {
		t.Fatal(reply.Error)
	}
	return r
}

func (r *real) submit(change ...func(*messages.Submission)) messages.Call {
	r.t.Helper()
	s := submission(change...)
	reply := must(messages.DecodeService[messages.ChunkReply](r.ask(messages.EndpointSubmit,
		must(messages.EncodeChunk(messages.Chunk{Batch: r.batch, Calls: []messages.Submission{s}})))))
	if reply.Error != "" || len(reply.Refused) > 0 {
		r.t.Fatalf("refused: %+v", reply)
	}
	run := messages.UnnamedRun(r.batch)
	if s.Run != "" {
		run = messages.NamedRun(s.Run)
	}
	m := must(r.b.Get(r.t.Context(), r.names.CallFilter(run, s.Call)))
	return must(r.names.DecodeCall(m.Message))
}

// eventually asks until the answer is there.
func eventually[T any](t *testing.T, what string, ask func() (T, bool)) T {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < patience; <-tick.C {
		if v, ok := ask(); ok {
			return v
		}
	}
	t.Fatalf("it did not happen: %s", what)
	panic("unreachable")
}

func (r *real) result(c messages.Call) messages.Result {
	r.t.Helper()
	return eventually(r.t, "a result", func() (messages.Result, bool) {
		m, err := r.b.Get(r.t.Context(), r.names.ResultSubject(c.Run, c.ID))
		if errors.Is(err, messages.ErrNotFound) {
			return messages.Result{}, false
		}
		return must(r.names.DecodeResult(must(m, err).Message)), true
	})
}

func (r *real) record(c messages.Call, state messages.State) messages.Record {
	r.t.Helper()
	return eventually(r.t, "a record "+string(state), func() (messages.Record, bool) {
		e, err := r.b.Load(r.t.Context(), messages.BucketAttempts, messages.CallKey(c.Run, c.ID))
		if errors.Is(err, messages.ErrNotFound) {
			return messages.Record{}, false
		}
		rec := must(messages.DecodeRecord(must(e, err).Value))
		return rec, rec.State == state
	})
}

func (r *real) failAndDecide(c messages.Call, action messages.RecoveryAction) {
	r.t.Helper()
	f := messages.Failure{Call: c, Input: c.Input, Output: messages.Text("no"), Code: messages.CodeToolError, Executed: true, At: time.Now()}
	d := messages.Decision{Call: c.ID, Run: c.Run, Dispatch: c.Dispatch, Action: action, By: "rules", MaxRetries: 3}
	for _, m := range []messages.Message{must(r.names.EncodeFailure(f)), must(r.names.EncodeDecision(d))} {
		if winner, err := r.b.PutOnce(r.t.Context(), m); err != nil || winner != nil {
			r.t.Fatal(winner, err)
		}
	}
	subject := r.names.CallSubject(c.Queue, c.TravelLane(), c.Run, c.ID, c.Dispatch)
	if err := r.b.Purge(r.t.Context(), subject); err != nil {
		r.t.Fatal(err)
	}
}

func TestOnABrokerARetryComesWhenItIsDue(t *testing.T) {
	t.Parallel()
	r := onBroker(t)
	c := r.submit()
	begin := time.Now()
	r.failAndDecide(c, messages.Retry(1100*time.Millisecond))
	next := eventually(t, "dispatch 1", func() (messages.Stored, bool) {
		m, err := r.b.Get(t.Context(), r.names.CallFilter(c.Run, c.ID))
		return m, err == nil
	})
	if took := time.Since(begin); took < 1100*time.Millisecond {
		t.Fatalf("dispatched after %s", took)
	}
	if d := must(r.names.DecodeCall(next.Message)); d.Dispatch != 1 || d.Attempt != 1 || d.Key != c.ID {
		t.Fatalf("dispatch %+v", d)
	}
}

func TestOnABrokerABatchIsCancelledWhereverItsCallsAre(t *testing.T) {
	t.Parallel()
	r := onBroker(t)
	queued, waiting := r.submit(inRun("")), r.submit(inRun(""))
	other := r.submit(inRun("other"))
	r.failAndDecide(waiting, messages.Retry(time.Hour))
	r.record(waiting, messages.Waiting)
	reply := must(messages.DecodeService[messages.CancelReply](r.ask(messages.EndpointCancel, must(messages.EncodeService(messages.CancelRequest{Run: queued.Run})))))
	if reply.Error != "" {
		t.Fatal(reply.Error)
	}
	for _, c := range []messages.Call{queued, waiting} {
		if res := r.result(c); res.Status != messages.Cancelled {
			t.Fatalf("result %+v", res)
		}
		r.record(c, messages.Ended)
	}
	if _, err := r.b.Get(t.Context(), r.names.CallFilter(other.Run, other.ID)); err != nil {
		t.Fatalf("another run was touched: %v", err)
	}
	eventually(t, "the schedule to go", func() (struct{}, bool) {
		_, err := r.b.Get(t.Context(), r.names.ScheduleSubject(messages.Due{Kind: messages.DueRetry, Run: waiting.Run, Call: waiting.ID, N: 1}))
		return struct{}{}, errors.Is(err, messages.ErrNotFound)
	})
}

func TestOnABrokerADeadlineFiresByItself(t *testing.T) {
	t.Parallel()
	r := onBroker(t)
	c := r.submit(func(s *messages.Submission) { s.Deadline = time.Now().Add(1200 * time.Millisecond) })
	if res := r.result(c); res.Status != messages.Expired || time.Now().Before(c.Deadline) {
		t.Fatalf("result %+v", res)
	}
	eventually(t, "the call to leave its queue", func() (struct{}, bool) {
		_, err := r.b.Get(t.Context(), r.names.CallFilter(c.Run, c.ID))
		return struct{}{}, errors.Is(err, messages.ErrNotFound)
	})
}
