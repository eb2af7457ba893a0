package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mulligan/internal/subject"
	"mulligan/pkg/messages"
)

// errLostAck is what a publisher sees whose message was stored and whose answer
// was lost.
var errLostAck = errors.New("no answer from the broker in time; it may have happened")

// faults are those of one connection.
type faults struct {
	mu     sync.Mutex
	frozen chan struct{} // closed by Thaw; nil when not frozen
	rules  []*rule
}

// rule makes the next times operations that it matches go wrong.
type rule struct {
	op     Op // "" any
	filter string
	times  int // negative: until Heal
	kind   faultKind
	err    error
}

type faultKind int

const (
	fail faultKind = iota
	loseAck
	staleRead
)

func (b *Broker) addRule(r rule) {
	b.faults.mu.Lock()
	b.faults.rules = append(b.faults.rules, &r)
	b.faults.mu.Unlock()
}

// Fail makes the next times operations of a kind ("" any) on what matches
// filter fail with err, without effect. Times below zero: until Heal. Filter is
// a subject filter; operations on a bucket have the subject <bucket>.<key>,
// those on a stream or consumer its name. ">" is all.
func (b *Broker) Fail(op Op, filter string, times int, err error) {
	b.addRule(rule{op: op, filter: filter, times: times, kind: fail, err: err})
}

// LoseAck makes the next write that matches filter happen, and its answer get
// lost: the caller gets an error. Of an Ack, Nak or Extend, which nobody
// answers, the settlement itself is lost, and the caller gets none.
func (b *Broker) LoseAck(op Op, filter string) {
	b.addRule(rule{op: op, filter: filter, times: 1, kind: loseAck})
}

// StaleRead makes the next Get or Load that matches filter see what was there
// before the last write, as a replica that lags would.
func (b *Broker) StaleRead(filter string) {
	b.addRule(rule{filter: filter, times: 1, kind: staleRead})
}

// Heal ends all faults of this connection but a freeze.
func (b *Broker) Heal() {
	b.faults.mu.Lock()
	b.faults.rules = nil
	b.faults.mu.Unlock()
}

// Freeze holds every operation of this connection, as if its process stood
// still, until Thaw. What was handed over before is not taken back: leases run
// on. An operation whose context ends meanwhile returns its cause.
func (b *Broker) Freeze() {
	b.faults.mu.Lock()
	if b.faults.frozen == nil {
		b.faults.frozen = make(chan struct{})
	}
	b.faults.mu.Unlock()
}

// Thaw ends a freeze.
func (b *Broker) Thaw() {
	b.faults.mu.Lock()
	if b.faults.frozen != nil {
		close(b.faults.frozen)
		b.faults.frozen = nil
	}
	b.faults.mu.Unlock()
}

// SetFull makes a stream refuse everything new, as one that has reached its
// store limit, or take it again.
func (b *Broker) SetFull(stream messages.Stream, full bool) {
	b.mu.Lock()
	b.streams[string(stream)].full = full
	b.mu.Unlock()
}

// DeliverAgain makes the next Fetch from d's consumer hand d over once more, as
// it was, whatever became of it: a delivery that was under way too long.
func (b *Broker) DeliverAgain(d messages.Delivery) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, _, _, err := b.pendingOf(d)
	if err != nil {
		return fmt.Errorf("deliver again: %w", err)
	}
	c.injected = append(c.injected, d)
	c.notify()
	return nil
}

// ExpireLeases ends the lease of everything that a consumer has handed over.
func (b *Broker) ExpireLeases(stream messages.Stream, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.consumers[consumerKey(string(stream), name)]
	if c == nil {
		return
	}
	for seq, p := range c.pending {
		c.release(seq, p)
	}
}

// enter counts an operation and applies the faults that it meets. Lost says
// that it is to happen and its answer to be lost.
func (b *Broker) enter(ctx context.Context, op Op, on string) (lost bool, err error) {
	if err := b.faults.wait(ctx); err != nil {
		return false, err
	}
	b.counts.add(op, on)
	r := b.faults.take(func(r *rule) bool {
		return r.kind != staleRead && (r.op == "" || r.op == op) && subject.Covers(r.filter, on)
	})
	switch {
	case r == nil:
		return false, nil
	case r.kind == loseAck:
		return true, nil
	}
	return false, r.err
}

// wait returns when the connection is not frozen and ctx is not done.
func (f *faults) wait(ctx context.Context) error {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (f *faults) stale(on string) bool {
	return f.take(func(r *rule) bool { return r.kind == staleRead && subject.Covers(r.filter, on) }) != nil
}

// take uses up one application of the first rule that matches.
func (f *faults) take(match func(*rule) bool) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.rules {
		if !match(r) {
			continue
		}
		if r.times > 0 {
			if r.times--; r.times == 0 {
				f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
			}
		}
		return r
	}
	return nil
}
