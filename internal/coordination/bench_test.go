package coordination_test

import (
	"bytes"
	"fmt"
	"testing"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// BenchmarkSubmit is the coordinator's share of taking a call in: 1 KiB of
// input in chunks of 256, with the broker in memory. One operation is a call.
func BenchmarkSubmit(b *testing.B) {
	broker := memory.New(memory.Config{})
	c := must(coordination.New(coordination.Config{Broker: broker, Name: "c", MaxQueued: -1}))
	if err := c.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-c.Started()
	for ready := false; !ready; {
		_, err := broker.Request(b.Context(), messages.EndpointOffer, must(messages.EncodeService(messages.OfferRequest{
			Worker: "w", Tools: []messages.ToolSpec{{Name: "t", Schema: []byte(`{"type":"object"}`)}},
		})))
		ready = err == nil
	}
	input := []byte(fmt.Sprintf(`{"text":%q}`, bytes.Repeat([]byte("x"), 1000)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%messages.MaxChunkCalls != 0 {
			continue
		}
		chunk := messages.Chunk{Batch: messages.NewCallID()}
		for range messages.MaxChunkCalls {
			chunk.Calls = append(chunk.Calls, messages.Submission{Call: messages.NewCallID(), Tool: "t", Input: input})
		}
		raw, err := broker.Request(b.Context(), messages.EndpointSubmit, must(messages.EncodeChunk(chunk)))
		if err != nil {
			b.Fatal(err)
		}
		if reply := must(messages.DecodeService[messages.ChunkReply](raw)); reply.Error != "" || len(reply.Refused) > 0 {
			b.Fatalf("refused: %+v", reply)
		}
		b.StopTimer()
		if err := broker.Purge(b.Context(), broker.Names().QueueFilter("default")); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.StopTimer()
	if err := c.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
}
