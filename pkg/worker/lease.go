package worker

import (
	"context"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// lease is this worker's own view of how long a delivery is still its own.
// The broker gives no sign when a lease ends and does not fence what comes
// after, so the worker trusts its own clocks only, and early (P7.28).
type lease struct {
	length time.Duration

	mu       sync.Mutex
	delivery messages.Delivery
	last     time.Time // when it began, or was last asked to begin anew
	gone     bool      // may have ended: an extension now might be of another's delivery
	lapsed   bool      // was gone once, which stays true when the broker hands the message out to us again
}

func newLease(d messages.Delivery, length time.Duration) *lease {
	return &lease{length: length, delivery: d, last: d.Fetched}
}

// elapsed is the longer of two clocks: the monotonic one stands still while a
// machine sleeps, the wall clock can be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// held says whether the delivery surely is still this worker's.
func (l *lease) held() bool { return l.within(l.length * 3 / 4) }

// young says whether a NAK sent now surely arrives within the lease.
func (l *lease) young() bool { return l.within(l.length / 2) }

func (l *lease) within(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running() && !l.lapsed && elapsed(l.last, time.Now()) < d
}

// running notes a lease that may have ended.
func (l *lease) running() bool {
	if elapsed(l.last, time.Now()) >= l.length*3/4 {
		l.gone, l.lapsed = true, true
	}
	return !l.gone
}

// due says whether to extend now, and what.
func (l *lease) due() (messages.Delivery, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delivery, l.running() && elapsed(l.last, time.Now()) >= l.length/3
}

func (l *lease) extended(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running() {
		l.last = at
	}
}

// adopt takes over a later delivery of the same message: the broker handed it
// out again and this worker, which still works on it, got it. Others may have
// had it in between, so what has not begun must not begin.
func (l *lease) adopt(d messages.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivery, l.last, l.gone, l.lapsed = d, d.Fetched, false, true
}

func (l *lease) current() messages.Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delivery
}

// leases are those of all deliveries that this worker has, by sequence in CALLS.
type leases struct {
	broker Deliveries
	length time.Duration
	failed func(messages.Delivery, error) // an extension was not sent

	mu  sync.Mutex
	all map[uint64]*lease
}

func newLeases(b Deliveries, length time.Duration, failed func(messages.Delivery, error)) *leases {
	return &leases{broker: b, length: length, failed: failed, all: make(map[uint64]*lease)}
}

// take begins to keep d. It returns nil when this worker has the message
// already: the delivery then belongs to the handling that is under way.
func (ls *leases) take(d messages.Delivery) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if have := ls.all[d.Sequence]; have != nil {
		have.adopt(d)
		return nil
	}
	l := newLease(d, ls.length)
	ls.all[d.Sequence] = l
	return l
}

// drop ends the keeping of l.
func (ls *leases) drop(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if seq := l.current().Sequence; ls.all[seq] == l {
		delete(ls.all, seq)
	}
}

// keep extends leases until ctx is done. One ticker serves all of them, since
// most calls end long before their first extension is due.
func (ls *leases) keep(ctx context.Context) {
	tick := time.NewTicker(ls.length / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ls.extend(ctx)
		}
	}
}

func (ls *leases) extend(ctx context.Context) {
	ls.mu.Lock()
	all := make([]*lease, 0, len(ls.all))
	for _, l := range ls.all {
		all = append(all, l)
	}
	ls.mu.Unlock()
	for _, l := range all {
		d, due := l.due()
		if !due {
			continue
		}
		at := time.Now()
		if err := ls.broker.Extend(ctx, d); err != nil {
			ls.failed(d, err)
			continue
		}
		l.extended(at)
	}
}
