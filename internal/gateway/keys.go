package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"mulligan/internal/keys"
	"mulligan/pkg/messages"
)

const headerKey = "Idempotency-Key"

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
	id, err := keys.ID(x.ctx(), x.g.cfg.Broker, x.who.Name, given[0], hex.EncodeToString(sum[:]))
	var reused *keys.ReusedError
	if errors.As(err, &reused) {
		err = fail(http.StatusUnprocessableEntity, codeKeyReused, "%v", reused).about(headerKey, "")
	}
	return identity{base: id, keyed: true}, err
}

func checkKey(given []string) error {
	if len(given) > 1 {
		return fail(http.StatusBadRequest, codeBadParameter, "give one key of 1 to %d characters", keys.Longest).about(headerKey, given[0])
	}
	if err := keys.Check(given[0]); err != nil {
		return fail(http.StatusBadRequest, codeBadParameter, "%v", err).about(headerKey, given[0])
	}
	return nil
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
