package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"mulligan/pkg/messages"
)

// fakeBroker holds messages in one slice for each stream. Its submit endpoint
// is a function, so that a test decides what the coordinators do.
type fakeBroker struct {
	mu       sync.Mutex
	stored   map[messages.Stream][]messages.Stored
	changed  chan struct{} // closed and replaced with each message
	payloads map[string][]byte
	requests [][]byte
	follows  []string // the filters of each reader, joined

	submit    func(ctx context.Context, c messages.Chunk) (messages.ChunkReply, error)
	cancel    func(r messages.CancelRequest) (messages.CancelReply, error)
	answer    func(r messages.AnswerRequest) (messages.AnswerReply, error)
	followErr error
	uploads   int  // that fail before one succeeds
	reads     int  // the same, of Get
	twice     bool // Follow breaks its word and hands over each message twice
}

func newFake() *fakeBroker {
	return &fakeBroker{stored: make(map[messages.Stream][]messages.Stored), changed: make(chan struct{}), payloads: make(map[string][]byte)}
}

func (f *fakeBroker) Names() messages.Pool { return messages.Pool{} }

func (f *fakeBroker) Request(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	f.mu.Lock()
	f.requests = append(f.requests, body)
	f.mu.Unlock()
	if endpoint == messages.EndpointCancel {
		var r messages.CancelRequest
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, err
		}
		reply, err := f.cancel(r)
		if err != nil {
			return nil, err
		}
		return json.Marshal(reply)
	}
	if endpoint == messages.EndpointAnswer {
		r, err := messages.DecodeService[messages.AnswerRequest](body)
		if err != nil {
			return nil, err
		}
		reply, err := f.answer(r)
		if err != nil {
			return nil, err
		}
		return messages.EncodeService(reply)
	}
	chunk, err := messages.DecodeChunk(body)
	if err != nil {
		return json.Marshal(messages.ChunkReply{Error: err.Error(), Code: messages.CodeBadCall})
	}
	reply, err := f.submit(ctx, chunk)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

func (f *fakeBroker) sent() [][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fakeBroker) followed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.follows)
}

// chunks decodes what was sent so far.
func (f *fakeBroker) chunks(t *testing.T) []messages.Chunk {
	t.Helper()
	var out []messages.Chunk
	for _, b := range f.sent() {
		c, err := messages.DecodeChunk(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func (f *fakeBroker) put(stream messages.Stream, m messages.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored[stream] = append(f.stored[stream], messages.Stored{Message: m, Sequence: uint64(len(f.stored[stream]) + 1)})
	close(f.changed)
	f.changed = make(chan struct{})
}

// end stores a result for each call of a chunk.
func (f *fakeBroker) end(c messages.Chunk, change func(*messages.Result)) {
	for _, s := range c.Calls {
		run := messages.UnnamedRun(c.Batch)
		if s.Run != "" {
			run = messages.NamedRun(s.Run)
		}
		r := messages.Result{Call: s.Call, Ref: s.Ref, Run: run, Tool: s.Tool, Status: messages.Succeeded, Attempts: 1, Output: messages.Body{Inline: s.Input}}
		if change != nil {
			change(&r)
		}
		f.put(messages.StreamResults, f.Names().EncodeResult(r))
	}
}

func (f *fakeBroker) Get(_ context.Context, subject string) (messages.Stored, error) {
	stream, _ := f.Names().StreamOf(subject)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads > 0 {
		f.reads--
		return messages.Stored{}, errors.New("no answer from the broker in time")
	}
	for _, m := range f.stored[stream] {
		if match(subject, m.Subject) {
			return m, nil
		}
	}
	return messages.Stored{}, messages.ErrNotFound
}

func (f *fakeBroker) LastSequence(_ context.Context, s messages.Stream) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uint64(len(f.stored[s])), nil
}

func (f *fakeBroker) Follow(ctx context.Context, s messages.Stream, filters []string, from uint64, fn func(messages.Stored)) error {
	f.mu.Lock()
	f.follows = append(f.follows, strings.Join(filters, " "))
	f.mu.Unlock()
	for next := from; ; {
		f.mu.Lock()
		err, changed := f.followErr, f.changed
		var ms []messages.Stored
		if n := uint64(len(f.stored[s])); n >= next {
			ms = f.stored[s][next-1 : n : n]
			next = n + 1
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
		for _, m := range ms {
			for _, filter := range filters {
				if !match(filter, m.Subject) {
					continue
				}
				fn(m)
				if f.twice {
					fn(m)
				}
			}
		}
		if len(ms) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *fakeBroker) PutPayload(_ context.Context, b []byte) (messages.PayloadRef, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uploads > 0 {
		f.uploads--
		return messages.PayloadRef{}, errors.New("the broker cannot be reached")
	}
	sum := sha256.Sum256(b)
	r := messages.PayloadRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(b)), Chunks: max(1, (len(b)+messages.PayloadChunk-1)/messages.PayloadChunk)}
	f.payloads[r.Digest] = b
	return r, nil
}

func (f *fakeBroker) GetPayload(_ context.Context, r messages.PayloadRef) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.payloads[r.Digest]
	if !ok {
		return nil, messages.ErrNotFound
	}
	return b, nil
}

func match(filter, subject string) bool {
	ft, st := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, t := range ft {
		if t == ">" {
			return i < len(st)
		}
		if i >= len(st) || t != "*" && t != st[i] {
			return false
		}
	}
	return len(ft) == len(st)
}
