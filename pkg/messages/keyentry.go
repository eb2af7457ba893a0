package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// KeyEntry says what a submitter's idempotency key stands for: key [SubmitterKey] in
// RUNS. The first that is written counts, for as long as it is kept.
type KeyEntry struct {
	Version string    `json:"version"`
	Call    string    `json:"call"`   // id of the call, or what the ids of several are made of, see [DerivedCallID]
	Digest  string    `json:"digest"` // of what was asked, in hexadecimal digits, so that another request under the same key is noticed
	At      time.Time `json:"at"`
}

// SubmitterKey is the key in RUNS of an idempotency key; who is the name of its
// owner, since each has keys of its own.
func SubmitterKey(who, key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key." + Token(who) + "." + hex.EncodeToString(sum[:])
}

// EncodeKeyEntry writes a KeyEntry for RUNS.
func EncodeKeyEntry(k KeyEntry) ([]byte, error) {
	k.Version = Version
	return encodeJSON("key", &k)
}

// DecodeKeyEntry reads a KeyEntry.
func DecodeKeyEntry(b []byte) (KeyEntry, error) {
	var k KeyEntry
	return k, decodeJSON("key", b, &k)
}

func (k *KeyEntry) check() error {
	if err := CheckCallID(k.Call); err != nil {
		return err
	}
	if len(k.Digest) != 2*sha256.Size {
		return errors.New("digest is not that of SHA-256")
	}
	return nil
}

// DerivedCallID is the id of the call with this index among those that are
// submitted under one id. It is the same each time, and as old as base, which
// has to be a call id.
func DerivedCallID(base string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", base, index))
	u := uuid.MustParse(base)
	copy(u[6:], sum[:10])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}
