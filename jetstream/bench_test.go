package jetstream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

func benchPool(b *testing.B) *jetstream.Pool {
	p := natstest.Connect(b, natstest.Server(b), jetstream.Config{Lease: time.Minute})
	if err := errors.Join(p.Provision(b.Context(), jetstream.TopologyConfig{}), p.EnsureQueue(b.Context(), "q")); err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkPutOnce is how results are stored: by goroutines that each wait for
// their own.
func BenchmarkPutOnce(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			p := benchPool(b)
			body := make([]byte, 1024)
			b.SetParallelism(workers)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					m := messages.Message{Subject: p.Names().ResultSubject("r", messages.NewCallID()), Body: body}
					if winner, err := p.PutOnce(b.Context(), m); winner != nil || err != nil {
						b.Error(winner, err)
					}
				}
			})
		})
	}
}

// BenchmarkPublishFetchAck is a call's way through its queue, in batches of 64.
func BenchmarkPublishFetchAck(b *testing.B) {
	p := benchPool(b)
	body := make([]byte, 1024)
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		ms := make([]messages.Message, min(64, b.N-done))
		for i := range ms {
			ms[i] = messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0), Body: body}
		}
		if err := errors.Join(p.PublishAll(b.Context(), ms)...); err != nil {
			b.Fatal(err)
		}
		for left := len(ms); left > 0; {
			ds, err := p.Fetch(b.Context(), messages.StreamCalls, lane, left, patience)
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range ds {
				if err := p.Ack(b.Context(), d); err != nil {
					b.Fatal(err)
				}
			}
			left -= len(ds)
		}
		done += len(ms)
	}
}

// BenchmarkOneAtATime takes one call after the other from a queue, each when the one
// before is acked, which must not cost more the more are queued (ADR 0026).
func BenchmarkOneAtATime(b *testing.B) {
	for _, queued := range []int{1_000, 100_000} {
		if testing.Short() {
			queued /= 100
		}
		b.Run(fmt.Sprint(queued), func(b *testing.B) {
			p := benchPool(b)
			lane := p.Names().LaneConsumer("q", messages.LaneNormal)
			for left := queued + b.N; left > 0; {
				ms := make([]messages.Message, min(10_000, left))
				for i := range ms {
					ms[i] = messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0)}
				}
				if err := errors.Join(p.PublishAll(b.Context(), ms)...); err != nil {
					b.Fatal(err)
				}
				left -= len(ms)
			}
			b.ResetTimer()
			for range b.N {
				ds, err := p.Fetch(b.Context(), messages.StreamCalls, lane, 1, patience)
				if err != nil || len(ds) != 1 {
					b.Fatal(len(ds), err)
				}
				if err := p.Ack(b.Context(), ds[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
