package pooled_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/calls/pooled"
	"mulligan/internal/memory"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// coordinator accepts everything and hands over the chunks that it was sent.
func coordinator(t *testing.T) (*pooled.Pool, <-chan messages.Chunk) {
	t.Helper()
	broker := memory.New(memory.Config{})
	chunks := make(chan messages.Chunk, 10)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- broker.Serve(ctx, messages.EndpointSubmit, nil, func(_ context.Context, request []byte) []byte {
			c, err := messages.DecodeChunk(request)
			if err != nil {
				t.Error(err)
			}
			chunks <- c
			reply, err := messages.EncodeService(messages.ChunkReply{})
			if err != nil {
				t.Error(err)
			}
			return reply
		})
	}()
	c, err := client.New(broker, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		stop()
		<-served
	})
	return pooled.New(c), chunks
}

// The chunks of a batch are told apart, also when a later session goes on with it.
func TestChunksOfSessions(t *testing.T) {
	batch := messages.NewCallID()
	submit := func(p *pooled.Pool, session int, repeat bool) {
		t.Helper()
		calls := []messages.Submission{{Call: messages.NewCallID(), Tool: "echo", Input: []byte("{}")}}
		if refused, err := p.Submit(t.Context(), batch, session, repeat, calls); err != nil || len(refused) > 0 {
			t.Fatalf("refused %v, %v", refused, err)
		}
	}
	first, chunks := coordinator(t)
	submit(first, 1, false)
	submit(first, 1, false)
	a, b := <-chunks, <-chunks
	if a.Batch != batch || a.Index == b.Index || a.Repeat || b.Repeat {
		t.Errorf("chunks %d and %d of %s", a.Index, b.Index, a.Batch)
	}
	later, chunks := coordinator(t)
	submit(later, 2, true)
	if c := <-chunks; c.Batch != batch || c.Index <= max(a.Index, b.Index) || !c.Repeat {
		t.Errorf("the later session sent chunk %d, repeat %t", c.Index, c.Repeat)
	}
	if _, err := first.Submit(t.Context(), "no id", 1, false, nil); err == nil {
		t.Error("a batch needs an id")
	}
}

// An output that has outlived its retention is not waited for.
func TestOutputThatIsGone(t *testing.T) {
	p, _ := coordinator(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ref := messages.PayloadRef{Digest: strings.Repeat("0", 64), Size: 4, Chunks: 1}
	_, err := p.Output(ctx, messages.Result{Output: messages.Body{Ref: &ref}})
	if !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if b, err := p.Output(ctx, messages.Result{Output: messages.Text("here")}); err != nil || string(b) != "here" {
		t.Errorf("got %q, %v", b, err)
	}
}
