// Package lease keeps what is being handled from being handed out to another.
package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// Extender begins the lease of a delivery anew, unfenced.
type Extender interface {
	Extend(ctx context.Context, d messages.Delivery) error
}

// Keeper extends the leases of the deliveries that it holds. It does not tell
// whether a lease has lapsed: it is for those to whom a second handling of the
// same message does no harm. All methods may be called concurrently.
type Keeper struct {
	broker Extender
	length time.Duration
	log    *slog.Logger

	mu   sync.Mutex
	held map[*held]struct{}
}

type held struct {
	d     messages.Delivery
	since time.Time // of the lease, or of its last extension
}

// New makes a keeper of leases of this length.
func New(b Extender, length time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{broker: b, length: length, log: log, held: make(map[*held]struct{})}
}

// Hold keeps d until release is called.
func (k *Keeper) Hold(d messages.Delivery) (release func()) {
	h := &held{d: d, since: d.Fetched}
	k.mu.Lock()
	k.held[h] = struct{}{}
	k.mu.Unlock()
	return func() {
		k.mu.Lock()
		delete(k.held, h)
		k.mu.Unlock()
	}
}

// Held is how many deliveries it holds.
func (k *Keeper) Held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held)
}

// Run extends until ctx is done. Most deliveries are done long before their
// first extension, so one ticker serves them all.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.length / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.extend(ctx)
		}
	}
}

func (k *Keeper) extend(ctx context.Context) {
	for _, d := range k.due(time.Now()) {
		if err := k.broker.Extend(ctx, d); err != nil && ctx.Err() == nil {
			k.log.Warn("a lease was not extended", "subject", d.Subject, "error", err)
		}
	}
}

// due are the deliveries to extend now.
func (k *Keeper) due(now time.Time) []messages.Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []messages.Delivery
	for h := range k.held {
		if now.Sub(h.since) >= k.length/3 {
			h.since = now
			due = append(due, h.d)
		}
	}
	return due
}
