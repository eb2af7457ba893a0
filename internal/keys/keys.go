// Package keys keeps what the idempotency keys of submitters stand for
// (docs/adr/0017-the-gateway-is-a-client.md): the first request with a key writes an
// id and the digest of what was asked, and all others read it.
package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// Kept is how long a key is remembered. An id has to be younger than half the
// retention of results to be submitted again, which is 36 hours unless it was
// configured.
const Kept = 24 * time.Hour

// Longest is the length of a key, in bytes.
const Longest = 255

// Store holds the keys; *jetstream.Pool is one.
type Store interface {
	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	// Save writes a value under a key that has none, with expect 0; else it is ErrConflict.
	Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error)
}

// ReusedError says that a key was given with another request before, and stands
// for that one.
type ReusedError struct{ At time.Time }

func (e *ReusedError) Error() string {
	return fmt.Sprintf("this key was given with another request at %s, and stands for that one; give a new key to each request", e.At.Format(time.RFC3339))
}

// Check says why a key cannot be used; nil where it can.
func Check(key string) error {
	if key == "" || len(key) > Longest {
		return fmt.Errorf("give one key of 1 to %d characters", Longest)
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return errors.New("the key holds characters that are not ASCII; give letters, digits and signs")
		}
	}
	return nil
}

// ID gives the id that a key of owner stands for, making it stand for a new one
// if it is new; digest is of what is asked. Of those who bring a new key at the
// same time one writes, and all read what that one wrote. A key that stands for
// something else is a [*ReusedError].
func ID(ctx context.Context, store Store, owner, key, digest string) (string, error) {
	mine := messages.KeyEntry{Call: messages.NewCallID(), Digest: digest, At: time.Now().UTC()}
	b, err := messages.EncodeKeyEntry(mine)
	if err != nil {
		return "", err
	}
	place := messages.SubmitterKey(owner, key)
	if _, err = store.Save(ctx, messages.BucketRuns, place, b, 0, Kept); err == nil {
		return mine.Call, nil
	}
	// Whatever the error, it may have been written: what is there counts.
	e, lerr := store.Load(ctx, messages.BucketRuns, place)
	if lerr != nil {
		return "", fmt.Errorf("idempotency key: %w", errors.Join(err, lerr))
	}
	there, lerr := messages.DecodeKeyEntry(e.Value)
	switch {
	case lerr != nil:
		return "", fmt.Errorf("idempotency key: %w", lerr)
	case there.Digest != digest:
		return "", &ReusedError{At: there.At}
	}
	return there.Call, nil
}
