package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Held is the policy document of a pool; its JSON form is that of `mulligan
// policy show -o json`.
type Held struct {
	Revision uint64          `json:"revision"` // 0: the pool never had one
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Document json.RawMessage `json:"document"`

	Read recovery.Document `json:"-"`
}

// Values is where one value of a bucket is read.
type Values interface {
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
}

// Policies reads the document of a pool. One of a newer version is given all
// the same, with an error; what it says cannot be told then.
func Policies(ctx context.Context, src Values) (Held, error) {
	e, err := src.Load(ctx, messages.BucketControl, messages.PolicyKey)
	if errors.Is(err, messages.ErrNotFound) {
		return Held{}, nil
	}
	if err != nil {
		return Held{}, fmt.Errorf("the policies of the pool cannot be read: %w", err)
	}
	entry, err := messages.DecodePolicies(e.Value)
	h := Held{Revision: e.Revision, By: entry.By, At: entry.At, Document: entry.Document}
	if err != nil {
		return h, err
	}
	if h.Read, err = policies.Check(entry.Document); err != nil {
		return h, fmt.Errorf("the policies of the pool cannot be read by this version: %w", err)
	}
	return h, nil
}

// Override is the effect that policies say in place of the tool's own; empty
// when they say none.
func Override(d recovery.Document, t messages.ToolSpec) messages.Effect {
	p, _, err := d.Effective(t.Queue, t.Name, nil)
	if err != nil || p.Effect == t.Effect {
		return ""
	}
	return p.Effect
}
