package jetstream

import (
	"context"
	"fmt"

	"mulligan/internal/payload"
	"mulligan/pkg/messages"
)

// PutPayload stores b in PAYLOADS under its digest, in chunks, unless it is
// there already, and returns the reference. ErrTooLarge above MaxPayload.
func (p *Pool) PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error) {
	return payload.Put(ctx, p, p.names, b)
}

// GetPayload returns what r names, checked against its digest. ErrNotFound when
// a chunk is missing, such as after its retention.
func (p *Pool) GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error) {
	return payload.Get(ctx, anyReplica{p}, p.names, r)
}

// anyReplica reads chunks from whichever replica answers, and as they are: the
// leader's answer is JSON, which costs the broker many times as much for a
// large chunk, and the digest proves what was read. The leader has the last
// word on what is not there.
type anyReplica struct{ *Pool }

func (p anyReplica) Get(ctx context.Context, subject string) (messages.Stored, error) {
	body := fmt.Appendf(nil, `{"last_by_subj":%q}`, subject)
	m, err := p.ask(ctx, apiPrefix+"DIRECT.GET."+p.names.StreamName(messages.StreamPayloads), nil, body)
	if err == nil && directStatus(m) == "" {
		if s, err := directStored(m); err == nil {
			return s, nil
		}
	}
	return p.Pool.Get(ctx, subject)
}
