package jetstream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// Headers that say what a message of a bucket is.
const (
	headerOperation = "KV-Operation"
	headerMarker    = "Nats-Marker-Reason"
)

// markerTTL is how long a deletion stays visible to a watch that was away.
// A watch that was away longer compares what there is with what it knew.
const markerTTL = time.Hour

var keyForm = regexp.MustCompile(`^[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*$`)

func checkKey(key string) error {
	if !keyForm.MatchString(key) {
		return fmt.Errorf("key %.200q: a key is tokens of letters, digits and -/_= with a dot between two", key)
	}
	return nil
}

func (p *Pool) bucketStream(b messages.Bucket) string { return bucketPrefix + p.names.BucketName(b) }

const bucketPrefix = "KV_"

// bucketOf is the name of the bucket that a stream is, ok false if it is none.
func bucketOf(stream string) (name string, ok bool) { return strings.CutPrefix(stream, bucketPrefix) }

func (p *Pool) bucketSubject(b messages.Bucket, key string) string {
	return "$KV." + p.names.BucketName(b) + "." + key
}

// Load returns the value under key as the leader has it now. ErrNotFound where
// there is none, or none any more.
func (p *Pool) Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error) {
	if err := checkKey(key); err != nil {
		return messages.Entry{}, err
	}
	e, err := p.loadAny(ctx, b, key)
	if err == nil && e.Deleted {
		return messages.Entry{}, fmt.Errorf("load %s of %s: %w", key, b, messages.ErrNotFound)
	}
	return e, err
}

// loadAny also returns the mark of a deletion.
func (p *Pool) loadAny(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error) {
	s, err := p.leaderGet(ctx, p.bucketStream(b), getRequest{LastFor: p.bucketSubject(b, key)})
	if err != nil {
		return messages.Entry{}, err
	}
	return p.entry(b, s), nil
}

func (p *Pool) entry(b messages.Bucket, s messages.Stored) messages.Entry {
	e := messages.Entry{Key: strings.TrimPrefix(s.Subject, p.bucketSubject(b, "")), Value: s.Body, Revision: s.Sequence}
	if op := s.Header.Get(headerOperation); op == "DEL" || op == "PURGE" || s.Header.Get(headerMarker) != "" {
		e.Deleted, e.Value = true, nil
	}
	return e
}

// Save writes value if the key still has revision expect (0: it must have no
// value), and returns the new revision. ErrConflict when it has another.
// After any other error it may have been written. Ttl is rounded up to whole
// seconds; 0 leaves the life of the value to the bucket, messages.Forever frees
// it from the bucket's age.
func (p *Pool) Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	revision, err := p.saveAt(ctx, b, key, value, expect, ttl)
	// A deleted key has a revision, that of its mark; who expects no value
	// cannot know it.
	for tries := 0; expect == 0 && errors.Is(err, messages.ErrConflict) && tries < 3; tries++ {
		e, readErr := p.loadAny(ctx, b, key)
		if errors.Is(readErr, messages.ErrNotFound) {
			e = messages.Entry{Deleted: true} // the mark went meanwhile
		} else if readErr != nil {
			return 0, fmt.Errorf("save %s: after a conflict: %w", key, readErr)
		}
		if !e.Deleted {
			return 0, err
		}
		revision, err = p.saveAt(ctx, b, key, value, e.Revision, ttl)
	}
	return revision, err
}

func (p *Pool) saveAt(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error) {
	h := nats.Header{headerExpectSeq: {strconv.FormatUint(expect, 10)}}
	if ttl != 0 {
		h[headerTTL] = []string{formatTTL(ttl)}
	}
	return p.store(ctx, p.bucketSubject(b, key), h, value)
}

// Put writes value under key, whatever is there. Ttl as in Save.
func (p *Pool) Put(ctx context.Context, b messages.Bucket, key string, value []byte, ttl time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	var h nats.Header
	if ttl != 0 {
		h = nats.Header{headerTTL: {formatTTL(ttl)}}
	}
	_, err := p.store(ctx, p.bucketSubject(b, key), h, value)
	return err
}

// Delete removes the value under key, if there is one.
func (p *Pool) Delete(ctx context.Context, b messages.Bucket, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	h := nats.Header{headerOperation: {"DEL"}, headerTTL: {formatTTL(markerTTL)}}
	_, err := p.store(ctx, p.bucketSubject(b, key), h, nil)
	return err
}

// Entries returns what the bucket holds under keys that match filter, written
// as a subject over keys, such as tool.> or >, in the order of their last change.
func (p *Pool) Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error) {
	var out []messages.Entry
	err := p.EachEntry(ctx, b, filter, func(e messages.Entry) bool {
		out = append(out, e)
		return true
	})
	return out, err
}

// EachEntry hands over what Entries returns, one by one, until fn returns false.
// It holds no more of it than a batch.
func (p *Pool) EachEntry(ctx context.Context, b messages.Bucket, filter string, fn func(messages.Entry) bool) error {
	return p.list(ctx, p.bucketStream(b), []string{p.bucketSubject(b, filter)}, 1, func(s messages.Stored) bool {
		e := p.entry(b, s)
		return e.Deleted || fn(e)
	})
}
