// Package payload cuts large bodies into chunks named by their content, and
// puts them together again, over any store where the first write wins.
package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	"mulligan/pkg/messages"
)

// Store is where chunks are kept, one message each.
type Store interface {
	PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error)
	Get(ctx context.Context, subject string) (messages.Stored, error)
}

// Put stores b under its digest, unless it is there already, and returns the
// reference. ErrTooLarge above [messages.MaxPayload]. It may be repeated.
func Put(ctx context.Context, s Store, names messages.Pool, b []byte) (messages.PayloadRef, error) {
	if len(b) > messages.MaxPayload {
		return messages.PayloadRef{}, fmt.Errorf("payload of %d bytes: %w, the limit is %d", len(b), messages.ErrTooLarge, messages.MaxPayload)
	}
	sum := sha256.Sum256(b)
	ref := messages.PayloadRef{
		Digest: hex.EncodeToString(sum[:]),
		Size:   int64(len(b)),
		Chunks: max(1, (len(b)+messages.PayloadChunk-1)/messages.PayloadChunk),
	}
	for i := range ref.Chunks {
		chunk := b[i*messages.PayloadChunk : min((i+1)*messages.PayloadChunk, len(b))]
		// Refused by a chunk that is there is as good: the digest names its content.
		if _, err := s.PutOnce(ctx, messages.Message{Subject: names.PayloadSubject(ref.Digest, i), Body: chunk}); err != nil {
			return messages.PayloadRef{}, fmt.Errorf("payload chunk %d of %d: %w", i, ref.Chunks, err)
		}
	}
	return ref, nil
}

// Get returns what r names, checked against its digest. ErrNotFound when a
// chunk is missing, such as after its retention.
func Get(ctx context.Context, s Store, names messages.Pool, r messages.PayloadRef) ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, r.Size)
	for i := range r.Chunks {
		m, err := s.Get(ctx, names.PayloadSubject(r.Digest, i))
		if err != nil {
			return nil, fmt.Errorf("payload chunk %d of %d: %w", i, r.Chunks, err)
		}
		b = append(b, m.Body...)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != r.Digest || int64(len(b)) != r.Size {
		return nil, fmt.Errorf("payload %s: what is stored under it is something else", r.Digest)
	}
	return b, nil
}

var digestForm = regexp.MustCompile(`"digest"\s*:\s*"([0-9a-f]{64})"`)

// Digests are the digests that a document in JSON holds in fields of this name,
// as those of the references in it do. It may find more than is a reference, and
// misses none that was written by a build of ours.
func Digests(document []byte) []string {
	var out []string
	for _, m := range digestForm.FindAllSubmatch(document, -1) {
		out = append(out, string(m[1]))
	}
	return out
}
