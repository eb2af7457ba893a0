package client

import (
	"context"
	"errors"
	"testing"

	"mulligan/pkg/messages"
)

// Who comes back to a call finds its result, whether it has ended by then or
// ends later, and who gave up waiting may wait again.
func TestAttendAndWaitAgain(t *testing.T) {
	f := newFake()
	f.submit = acceptAll
	c := newClient(t, f, Config{})
	p, err := c.Batch().Begin(t.Context(), messages.Submission{Tool: "echo", Input: []byte(`{}`)}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	over, stop := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	stop(gaveUp)
	if _, err := p.Wait(over); !errors.Is(err, gaveUp) {
		t.Fatalf("err %v", err)
	}
	second, err := c.Attend(t.Context(), p.Run, p.Call)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	f.end(f.chunks(t)[0], nil)
	for _, q := range []*Pending{p, second} {
		if r, err := q.Wait(t.Context()); err != nil || r.Call != p.Call {
			t.Fatalf("result %+v, err %v", r, err)
		}
	}
	third, err := c.Attend(t.Context(), p.Run, p.Call)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if r, err := third.Wait(over); err != nil || r.Call != p.Call { // it is there already
		t.Fatalf("result %+v, err %v", r, err)
	}
	if n := len(f.sent()); n != 1 {
		t.Fatalf("%d submissions", n)
	}
}

// A repetition of a call that has ended is not even sent.
func TestBeginAgainRunsNothing(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, chunk messages.Chunk) (messages.ChunkReply, error) {
		f.end(chunk, nil)
		return messages.ChunkReply{}, nil
	}
	c := newClient(t, f, Config{})
	id := messages.NewCallID()
	batch, err := c.OpenBatch(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := batch.Begin(t.Context(), messages.Submission{Call: id, Tool: "echo", Input: []byte(`{}`)}, true)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(t.Context()); err != nil || r.Call != id {
			t.Fatalf("result %+v, err %v", r, err)
		}
		p.Close()
	}
	if chunks := f.chunks(t); len(chunks) != 1 || !chunks[0].Repeat {
		t.Fatalf("chunks %+v", chunks)
	}
}
