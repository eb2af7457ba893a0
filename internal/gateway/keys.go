package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"mulligan/pkg/messages"
)

const headerKey = "Idempotency-Key"

// keepKeys is how long a key is remembered. An id has to be younger than half
// the retention of results to be submitted again, which is 36 hours unless it
// was configured.
const keepKeys = 24 * time.Hour

// maxKey is the length of a key, in bytes.
const maxKey = 255

// identity is under which ids a request submits.
type identity struct {
	// base is the id of the call, or what the ids of several are derived from.
	base string
	// keyed: the request may have come before, so nothing in it is surely new.
	keyed bool
}

// identity finds out what the request's idempotency key stands for, making it
// stand for a new id if it is new. sum is over everything that matters of the
// request.
func (x *exchange) identity(sum [sha256.Size]byte) (identity, error) {
	given := x.r.Header.Values(headerKey)
	if len(given) == 0 {
		return identity{base: messages.NewCallID()}, nil
	}
	if err := checkKey(given); err != nil {
		return identity{}, err
	}
	k, err := x.g.keyed(x.ctx(), messages.SubmitterKey(x.who.Name, given[0]), hex.EncodeToString(sum[:]))
	return identity{base: k, keyed: true}, err
}

func checkKey(given []string) error {
	key := given[0]
	if len(given) > 1 || key == "" || len(key) > maxKey {
		return fail(http.StatusBadRequest, codeBadParameter, "give one key of 1 to %d characters", maxKey).about(headerKey, key)
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return fail(http.StatusBadRequest, codeBadParameter, "the key holds characters that are not ASCII; give letters, digits and signs").about(headerKey, key)
		}
	}
	return nil
}

// keyed gives the id that a key stands for. Of those who bring a new key at the
// same time one writes, and all read what that one wrote.
func (g *Gateway) keyed(ctx context.Context, key, digest string) (string, error) {
	mine := messages.KeyEntry{Call: messages.NewCallID(), Digest: digest, At: time.Now().UTC()}
	b, err := messages.EncodeKeyEntry(mine)
	if err != nil {
		return "", err
	}
	if _, err = g.cfg.Broker.Save(ctx, messages.BucketRuns, key, b, 0, keepKeys); err == nil {
		return mine.Call, nil
	}
	// Whatever the error, it may have been written: what is there counts.
	e, lerr := g.cfg.Broker.Load(ctx, messages.BucketRuns, key)
	if lerr != nil {
		return "", fmt.Errorf("idempotency key: %w", errors.Join(err, lerr))
	}
	there, lerr := messages.DecodeKeyEntry(e.Value)
	switch {
	case lerr != nil:
		return "", fmt.Errorf("idempotency key: %w", lerr)
	case there.Digest != digest:
		return "", fail(http.StatusUnprocessableEntity, codeKeyReused, "this key was given with another request at %s, and stands for that one; give a new key to each request",
			there.At.Format(time.RFC3339)).about(headerKey, "")
	}
	return there.Call, nil
}

// digest is over what matters of a request: where it goes, what it says, and
// the parameters that change what is run.
func (x *exchange) digest(body io.Reader, parameters ...string) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	q := x.r.URL.Query()
	_, _ = fmt.Fprintf(h, "%s\n", x.r.URL.Path) // a hash takes anything
	for _, p := range parameters {
		_, _ = fmt.Fprintf(h, "%s=%q\n", p, q.Get(p))
	}
	if _, err := io.Copy(h, body); err != nil {
		return sum, err
	}
	copy(sum[:], h.Sum(nil))
	return sum, nil
}
