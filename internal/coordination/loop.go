package coordination

import (
	"context"
	"runtime/debug"
	"time"

	"mulligan/pkg/messages"
)

const (
	fetchWait = 5 * time.Second
	fetchMost = 256
)

// kind is one shared consumer and how its messages are read.
type kind struct {
	stream   messages.Stream
	consumer string
	read     func(messages.Delivery) (trigger, error)
	slots    slots
}

func (c *Coordinator) kinds() []*kind {
	of := func(s messages.Stream, consumer string, read func(messages.Delivery) (trigger, error)) *kind {
		return &kind{stream: s, consumer: consumer, read: read, slots: newSlots(c.cfg.Concurrency)}
	}
	return []*kind{
		of(messages.StreamRecovery, messages.ConsumerDecisions, c.readDecision),
		of(messages.StreamRecovery, messages.ConsumerAnswers, c.readAnswer),
		of(messages.StreamRecovery, messages.ConsumerCancels, c.readCancel),
		of(messages.StreamRecovery, messages.ConsumerSettled, c.readSettled),
		of(messages.StreamSchedule, messages.ConsumerDue, c.readDue),
	}
}

// slots bounds how many triggers of a kind are handled at once. What comes back
// from a short wait has slots of its own: the fetching holds some while it
// polls, and would make a wait of milliseconds last as long as a poll.
type slots struct{ fresh, resumed chan struct{} }

func newSlots(n int) slots {
	return slots{fresh: make(chan struct{}, n), resumed: make(chan struct{}, n)}
}

// take waits for a free slot and takes up to most; 0 when ctx is done.
func (s slots) take(ctx context.Context, most int) int {
	select {
	case s.fresh <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; n < most; n++ {
		select {
		case s.fresh <- struct{}{}:
		default:
			return n
		}
	}
	return most
}

func (s slots) give(n int) {
	for range n {
		<-s.fresh
	}
}

// consume takes triggers of one kind until ctx is done. It never fetches more
// than can be handled at once.
func (c *Coordinator) consume(ctx context.Context, k *kind) {
	p := pauses()
	for {
		n := k.slots.take(ctx, min(c.cfg.Concurrency, fetchMost))
		if n == 0 {
			return
		}
		ds, err := c.broker.Fetch(ctx, k.stream, k.consumer, n, fetchWait)
		k.slots.give(n - len(ds))
		for _, d := range ds {
			c.handlings.Go(func() { c.work(k, d) })
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Warn("triggers cannot be fetched", "consumer", k.consumer, "error", err)
			if !p.Wait(ctx) {
				return
			}
		default:
			p = pauses()
		}
	}
}

// work brings one delivery to its end: acked, given back, or let go. Whatever
// happens to it, the others go on.
func (c *Coordinator) work(k *kind, d messages.Delivery) {
	s := &seat{slots: k.slots, taken: k.slots.fresh}
	defer s.leave()
	defer c.leases.Hold(d)()
	defer c.contain(d)
	t, err := k.read(d)
	if err != nil {
		c.unreadable(d, err)
		return
	}
	switch newHandling(c, t, s).advance(c.working) {
	case done:
		c.ack(d)
	case givenBack:
		c.giveBack(d)
	case letGo:
		c.metrics.LetGo(t.id.Kind)
	}
}

// seat is the slot of one trigger, left while it only waits.
type seat struct {
	slots slots
	taken chan struct{}
}

func (s *seat) leave() { <-s.taken }

// away runs wait without the slot.
func (s *seat) away(wait func()) {
	s.leave()
	wait()
	s.taken = s.slots.resumed
	s.taken <- struct{}{}
}

// contain keeps a fault of ours, met by one call, from ending the process. The
// delivery comes again after its lease.
func (c *Coordinator) contain(d messages.Delivery) {
	if p := recover(); p != nil {
		c.log.Error("a trigger panicked", "subject", d.Subject, "panic", p, "stack", string(debug.Stack()))
	}
}

func (c *Coordinator) ack(d messages.Delivery) {
	if err := c.broker.Ack(c.working, d); err != nil {
		c.log.Warn("a trigger was not acked and comes again", "subject", d.Subject, "error", err)
	}
}

// giveBack hands a trigger that was only waiting to the other coordinators.
func (c *Coordinator) giveBack(d messages.Delivery) {
	if err := c.broker.Nak(c.working, d); err != nil {
		c.log.Warn("a trigger was not given back and comes again after its lease", "subject", d.Subject, "error", err)
	}
}
