package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"mulligan/pkg/messages"
)

// eraseAtOnce is how many messages are removed side by side.
const eraseAtOnce = 32

// Erase removes all messages of a stream whose subject matches filter, and says
// how many it removed. It may be repeated. What shared consumers hand out, of
// CALLS and RECOVERY, goes one message at a time, as in [Pool.Purge].
func (p *Pool) Erase(ctx context.Context, stream messages.Stream, filter string) (int64, error) {
	if stream != messages.StreamCalls && stream != messages.StreamRecovery {
		return p.erase(ctx, p.names.StreamName(stream), filter)
	}
	var removed atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(eraseAtOnce)
	err := p.List(gctx, stream, []string{filter}, func(m messages.Stored) bool {
		g.Go(func() error {
			gone, err := p.removeMessage(gctx, stream, m)
			if gone {
				removed.Add(1)
			}
			return err
		})
		return true
	})
	if waitErr := g.Wait(); waitErr != nil { // it is the cause of the other
		err = waitErr
	}
	if err != nil {
		return removed.Load(), fmt.Errorf("erase %s: %w", clip(filter), err)
	}
	return removed.Load(), nil
}

// EraseEntries removes all entries of a bucket under keys that match filter, and
// says how many. A watch is not told of it: it is for buckets that nobody watches.
func (p *Pool) EraseEntries(ctx context.Context, b messages.Bucket, filter string) (int64, error) {
	return p.erase(ctx, p.bucketStream(b), p.bucketSubject(b, filter))
}

func (p *Pool) erase(ctx context.Context, stream, filter string) (int64, error) {
	request := struct {
		Filter string `json:"filter"`
	}{filter}
	var reply struct {
		Purged int64 `json:"purged"`
	}
	err := translate("erase", filter, p.api(ctx, "STREAM.PURGE."+stream, request, &reply))
	return reply.Purged, err
}

// removeMessage removes one by its sequence; that it is gone already is no error.
func (p *Pool) removeMessage(ctx context.Context, stream messages.Stream, m messages.Stored) (bool, error) {
	request := struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"`
	}{m.Sequence, true}
	err := translate("remove", m.Subject, p.api(ctx, "STREAM.MSG.DELETE."+p.names.StreamName(stream), request, nil))
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
