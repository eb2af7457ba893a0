package porttest

import (
	"bytes"
	"errors"
	"strings"

	"mulligan/pkg/messages"
)

func payloadCases() []Case {
	return []Case{
		{"payloads of all sizes come back", payloads},
		{"a payload is stored once", payloadOnce},
		{"a payload that is missing is not found", payloadMissing},
		{"a payload that is something else is refused", payloadForged},
		{"a payload above the limit is refused", payloadTooLarge},
	}
}

func payloads(e *Env) {
	for _, n := range []int{0, 1, messages.PayloadChunk - 1, messages.PayloadChunk, messages.PayloadChunk + 1, 3*messages.PayloadChunk + 5} {
		b := bytes.Repeat([]byte("payload\x00"), n/8+1)[:n]
		r, err := e.B.PutPayload(e.Ctx, b)
		e.must(err)
		e.must(r.Check())
		got, err := e.B.GetPayload(e.Ctx, r)
		if err != nil || !bytes.Equal(got, b) || r.Size != int64(n) {
			e.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
}

func payloadOnce(e *Env) {
	first, err := e.B.PutPayload(e.Ctx, []byte("same"))
	e.must(err)
	second, err := e.B.PutPayload(e.Ctx, []byte("same"))
	e.must(err)
	last, err := e.B.LastSequence(e.Ctx, messages.StreamPayloads)
	if first != second || last != 1 || err != nil {
		e.Fatalf("%v and %v, %d chunks stored, %v", first, second, last, err)
	}
}

func payloadMissing(e *Env) {
	r := messages.PayloadRef{Digest: strings.Repeat("a", 64), Size: 5, Chunks: 1}
	if _, err := e.B.GetPayload(e.Ctx, r); !errors.Is(err, messages.ErrNotFound) {
		e.Errorf("missing: %v", err)
	}
	r.Chunks = 9
	if _, err := e.B.GetPayload(e.Ctx, r); err == nil || errors.Is(err, messages.ErrNotFound) {
		e.Errorf("a reference that contradicts itself: %v", err)
	}
}

func payloadForged(e *Env) {
	digest := strings.Repeat("b", 64)
	_, err := e.B.PutOnce(e.Ctx, messages.Message{Subject: e.Names.PayloadSubject(digest, 0), Body: []byte("forged")})
	e.must(err)
	if b, err := e.B.GetPayload(e.Ctx, messages.PayloadRef{Digest: digest, Size: 6, Chunks: 1}); err == nil {
		e.Fatalf("got %q", b)
	}
}

func payloadTooLarge(e *Env) {
	if _, err := e.B.PutPayload(e.Ctx, make([]byte, messages.MaxPayload+1)); !errors.Is(err, messages.ErrTooLarge) {
		e.Fatalf("got %v", err)
	}
}
