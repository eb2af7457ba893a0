package memory

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

// consumer is a durable consumer. The pool's lock guards it.
type consumer struct {
	key           string
	stream        *stream
	filter        string
	lease         time.Duration
	maxAckPending int

	next     uint64 // sequence from which nothing was handed over yet
	pending  map[uint64]*pending
	again    []uint64 // to be handed over again, before anything new
	injected []messages.Delivery
	paused   bool
	changed  chan struct{} // closed and replaced when something may be handed over
}

// pending is a message that was handed over and not acked.
type pending struct {
	deliveries int
	queued     bool // in again
	lease      *time.Timer
}

func consumerKey(stream, name string) string { return stream + "/" + name }

// addConsumer creates a consumer or updates its limit. The caller holds the
// lock, or owns the pool still.
func (p *pool) addConsumer(stream, name, filter string, maxAckPending int) *consumer {
	key := consumerKey(stream, name)
	if c := p.consumers[key]; c != nil {
		c.maxAckPending = maxAckPending
		c.notify()
		return c
	}
	c := &consumer{
		key: key, stream: p.streams[stream], filter: filter, lease: p.cfg.Lease, maxAckPending: maxAckPending,
		next: 1, pending: make(map[uint64]*pending), changed: make(chan struct{}),
	}
	p.consumers[key] = c
	return c
}

func (c *consumer) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// EnsureQueue creates the durable consumers of a queue's lanes.
func (b *Broker) EnsureQueue(ctx context.Context, queue string) error {
	return b.SetQueue(ctx, queue, 0, false)
}

// SetQueue is EnsureQueue with a limit in place of the configured one, and
// whether the consumers hand nothing over.
func (b *Broker) SetQueue(ctx context.Context, queue string, inFlight int, paused bool) error {
	if _, err := b.enter(ctx, OpEnsureQueue, queue); err != nil {
		return err
	}
	if err := messages.CheckName("queue", queue, messages.MaxQueueName); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	calls, lanes := string(messages.StreamCalls), messages.Lanes()
	limit, limited := b.cfg.QueueLimits[queue]
	set := func(lane messages.Lane, filter string, most int) {
		c := b.addConsumer(calls, b.names.LaneConsumer(queue, lane), filter, most)
		c.paused = paused
		c.notify()
	}
	if limited && limit < len(lanes) {
		set(messages.LaneHigh, b.names.QueueFilter(queue), limit)
		return nil
	}
	if inFlight > 0 {
		limit, limited = inFlight, true
	}
	for i, lane := range lanes {
		most := 50_000
		if limited {
			most = limit / len(lanes)
			if i < limit%len(lanes) {
				most++
			}
		}
		set(lane, b.names.LaneFilter(queue, lane), most)
	}
	return nil
}

// Fetch hands over up to max messages: what is there, or the first that comes
// within wait. No message is (nil, nil).
func (b *Broker) Fetch(ctx context.Context, stream messages.Stream, name string, max int, wait time.Duration) ([]messages.Delivery, error) {
	if _, err := b.enter(ctx, OpFetch, string(stream)); err != nil {
		return nil, err
	}
	if max < 1 {
		return nil, nil
	}
	max = min(max, 1024)
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		if err := b.faults.wait(ctx); err != nil {
			return nil, fmt.Errorf("fetch from %s: %w", name, err)
		}
		h, err := b.hand(string(stream), name, max)
		if err != nil || len(h.got) > 0 || wait <= 0 {
			return h.got, err
		}
		select {
		case <-h.stored:
		case <-h.released:
		case <-deadline.C:
			return nil, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("fetch from %s: %w", name, context.Cause(ctx))
		}
	}
}

// handover is what can be handed over now, and when to look again.
type handover struct {
	got              []messages.Delivery
	stored, released <-chan struct{}
}

func (b *Broker) hand(stream, name string, max int) (handover, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.consumers[consumerKey(stream, name)]
	if c == nil {
		return handover{}, fmt.Errorf("fetch from %s of %s: %w: no such consumer", name, stream, messages.ErrNotFound)
	}
	h := handover{got: c.take(max, b), stored: c.stream.changed, released: c.changed}
	for range h.got {
		b.counts.add(OpDelivery, stream)
	}
	return h, nil
}

func (c *consumer) take(max int, b *Broker) []messages.Delivery {
	if c.paused {
		return nil
	}
	var got []messages.Delivery
	for len(c.injected) > 0 && len(got) < max {
		got, c.injected = append(got, c.injected[0]), c.injected[1:]
	}
	for len(c.again) > 0 && len(got) < max {
		seq := c.again[0]
		c.again = c.again[1:]
		p := c.pending[seq]
		if p == nil {
			continue
		}
		p.queued = false
		if m := c.message(seq); m != nil {
			got = append(got, c.deliver(m, p, b))
		} else {
			delete(c.pending, seq)
		}
	}
	for len(got) < max && len(c.pending) < c.maxAckPending {
		next := c.stream.from(c.next, []string{c.filter}, 1)
		if len(next) == 0 {
			c.next = c.stream.last + 1
			break
		}
		c.next = next[0].Sequence + 1
		p := &pending{}
		c.pending[next[0].Sequence] = p
		got = append(got, c.deliver(next[0], p, b))
	}
	return got
}

func (c *consumer) message(seq uint64) *stored {
	if ms := c.stream.from(seq, nil, 1); len(ms) > 0 && ms[0].Sequence == seq {
		return ms[0]
	}
	return nil
}

func (c *consumer) deliver(m *stored, p *pending, b *Broker) messages.Delivery {
	p.deliveries++
	seq := m.Sequence
	if p.lease == nil {
		p.lease = time.AfterFunc(c.lease, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			c.release(seq, p)
		})
	} else {
		p.lease.Reset(c.lease)
	}
	more := len(c.stream.from(c.next, []string{c.filter}, 1)) > 0
	return messages.Delivery{Stored: m.out(), Delivery: p.deliveries, Fetched: time.Now(), Token: c.token(seq), More: more}
}

// release puts a message back: its lease ended, or it was given back.
func (c *consumer) release(seq uint64, p *pending) {
	if c.pending[seq] != p || p.queued {
		return
	}
	p.lease.Stop()
	p.queued = true
	c.again = append(c.again, seq)
	c.notify()
}

func (c *consumer) token(seq uint64) string { return c.key + "/" + strconv.FormatUint(seq, 10) }

// pendingOf finds what a delivery's token names; the pending part is nil when
// it was settled already.
func (p *pool) pendingOf(d messages.Delivery) (*consumer, uint64, *pending, error) {
	i := strings.LastIndexByte(d.Token, '/')
	if i < 0 {
		return nil, 0, nil, fmt.Errorf("%q is not the token of a delivery", d.Token)
	}
	seq, err := strconv.ParseUint(d.Token[i+1:], 10, 64)
	c := p.consumers[d.Token[:i]]
	if err != nil || c == nil {
		return nil, 0, nil, fmt.Errorf("%q is not the token of a delivery", d.Token)
	}
	return c, seq, c.pending[seq], nil
}

// Ack says that d is dealt with. Unfenced: it settles whatever delivery of the
// message is under way.
func (b *Broker) Ack(ctx context.Context, d messages.Delivery) error {
	return b.settle(ctx, OpAck, d, func(c *consumer, seq uint64, p *pending) {
		p.lease.Stop()
		delete(c.pending, seq)
		if c.stream.workQueue {
			if m := c.message(seq); m != nil {
				c.stream.remove(m)
			}
		}
		c.notify()
	})
}

// Nak gives d back at once; the next delivery counts one more. As unfenced as Ack.
func (b *Broker) Nak(ctx context.Context, d messages.Delivery) error {
	return b.settle(ctx, OpNak, d, func(c *consumer, seq uint64, p *pending) { c.release(seq, p) })
}

// Extend begins the lease of d anew. As unfenced as Ack.
func (b *Broker) Extend(ctx context.Context, d messages.Delivery) error {
	return b.settle(ctx, OpExtend, d, func(c *consumer, _ uint64, p *pending) {
		if !p.queued {
			p.lease.Reset(c.lease)
		}
	})
}

func (b *Broker) settle(ctx context.Context, op Op, d messages.Delivery, do func(*consumer, uint64, *pending)) error {
	lost, err := b.enter(ctx, op, d.Subject)
	if err != nil || lost { // a lost settlement is not noticed: none is confirmed
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c, seq, p, err := b.pendingOf(d)
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, d.Subject, err)
	}
	if p != nil {
		do(c, seq, p)
	}
	return nil
}

// Backlog counts what a consumer has yet to hand over, and what is not acked.
func (b *Broker) Backlog(ctx context.Context, stream messages.Stream, name string) (waiting, unacked int, err error) {
	if _, err := b.enter(ctx, OpBacklog, string(stream)); err != nil {
		return 0, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.consumers[consumerKey(string(stream), name)]
	if c == nil {
		return 0, 0, fmt.Errorf("backlog of %s of %s: %w", name, stream, messages.ErrNotFound)
	}
	return len(c.stream.from(c.next, []string{c.filter}, 0)), len(c.pending), nil
}
