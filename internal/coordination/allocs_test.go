package coordination

import (
	"context"
	"strings"
	"testing"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// mostAllocs is what taking in a call of 1 KiB may allocate in a coordinator, of
// a chunk of 256 that is checked against a schema, without what the broker's
// connection takes: 23 as measured, and a little for other versions of Go.
const mostAllocs = 25

// quietBroker is a pool whose calls are taken and not kept.
type quietBroker struct{ *memory.Broker }

func (quietBroker) PublishAll(_ context.Context, ms []messages.Message) []error {
	return make([]error, len(ms))
}

func TestAllocationsOfASubmittedCall(t *testing.T) {
	broker := quietBroker{memory.New(memory.Config{})}
	c, err := New(Config{Broker: broker, Name: "c", MaxQueued: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-c.Started()
	schema := `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	offer, err := messages.EncodeService(messages.OfferRequest{Worker: "w", Tools: []messages.ToolSpec{{Name: "t", Schema: []byte(schema)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Request(t.Context(), messages.EndpointOffer, offer); err != nil {
		t.Fatal(err)
	}
	chunk := messages.Chunk{Batch: messages.NewCallID()}
	for range messages.MaxChunkCalls {
		chunk.Calls = append(chunk.Calls, messages.Submission{Call: messages.NewCallID(), Tool: "t", Input: []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)})
	}
	request, err := messages.EncodeChunk(chunk)
	if err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(20, func() {
		reply, err := messages.DecodeService[messages.ChunkReply](c.submit(t.Context(), request))
		if err != nil || reply.Error != "" || len(reply.Refused) > 0 {
			t.Fatal(err, reply)
		}
	})
	if n /= messages.MaxChunkCalls; n > mostAllocs {
		t.Errorf("%.1f allocations a call, the gate is at %d", n, mostAllocs)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
