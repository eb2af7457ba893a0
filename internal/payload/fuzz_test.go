package payload_test

import (
	"bytes"
	"context"
	"testing"

	"mulligan/internal/fuzztest"
	"mulligan/internal/payload"
	"mulligan/pkg/messages"
)

// odd is a store in which anything may stand under any subject.
type odd struct{ body []byte }

func (o odd) PutOnce(context.Context, messages.Message) (*messages.Stored, error) { return nil, nil }

func (o odd) Get(context.Context, string) (messages.Stored, error) {
	return messages.Stored{Message: messages.Message{Body: o.body}}, nil
}

// What a reference names is read as it was stored, or not at all, and a store
// of something else costs no more than what was promised.
func FuzzGet(f *testing.F) {
	f.Add("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08;4;1", []byte("test"))
	f.Add("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08;16777216;32", bytes.Repeat([]byte("x"), 3000))
	f.Add(";;", []byte{})
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		var names messages.Pool
		if ref, err := messages.ParsePayloadRef(header); err == nil {
			fuzztest.Bounded(t, int(ref.Size)+len(body), func() {
				got, err := payload.Get(t.Context(), odd{body}, names, ref)
				fuzztest.Told(t, err)
				if err == nil && int64(len(got)) != ref.Size {
					t.Fatalf("%d bytes of %d", len(got), ref.Size)
				}
			})
		}
		ref, err := payload.Put(t.Context(), odd{}, names, body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := payload.Get(t.Context(), odd{body}, names, ref); len(body) <= messages.PayloadChunk && (err != nil || !bytes.Equal(got, body)) {
			t.Fatalf("%d bytes came back as %d, %v", len(body), len(got), err)
		}
	})
}
