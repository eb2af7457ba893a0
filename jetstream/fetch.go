package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// Of a fetch. The broker says when a pull is over, also one that it could fill
// in part only; fetchLull is for where that does not come. It is not
// shorter, since messages of a replicated consumer come one quorum after the
// other, and what comes after a pull was given up is lost until its lease ends.
const (
	fetchMost  = 1024                   // messages of one fetch
	fetchLull  = 100 * time.Millisecond // after a first message, without the broker's word that it has no more
	fetchGrace = 2 * time.Second        // beyond its wait, for the broker to end the pull itself

	// fetchSweep is the life of a pull that is not to wait. Without an end the
	// broker keeps it open, and says nothing, while a limit of the queue holds
	// back what is there.
	fetchSweep = 5 * time.Millisecond

	// A pull for more than pullSmall messages is also bounded in bytes, since the
	// server cuts a connection that leaves more than 64 MiB unread. A bound costs
	// one more message from the server, which says that the pull is complete.
	pullSmall = 60
	pullBytes = 32 << 20
)

// What the server says at the end of a pull that is bounded in bytes.
const (
	textComplete = "Batch Completed"
	textBytes    = "Message Size Exceeds MaxBytes"
)

type pullRequest struct {
	Batch     int           `json:"batch"`
	Bytes     int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

func (p *Pool) pull(stream, consumer, inbox string, r pullRequest) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.nc.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+stream+"."+consumer, inbox, body)
}

// Fetch hands over up to max messages of a durable consumer (at most 1,024, and
// about 32 MiB):
// what is there, or, if nothing is, the first that comes within wait. Wait 0
// waits for a few milliseconds, and may miss what was published a moment ago. No
// message in time is (nil, nil), also where a limit of the queue is reached.
// ErrNotFound: there is no such consumer.
//
// When ctx is done it returns its cause at once, and what the broker was
// handing over at that moment is given back by a NAK instead of being lost
// until its lease ends.
func (p *Pool) Fetch(ctx context.Context, stream messages.Stream, consumer string, max int, wait time.Duration) ([]messages.Delivery, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if max < 1 {
		return nil, nil
	}
	f := fetch{p: p, stream: p.names.StreamName(stream), consumer: consumer, max: min(max, fetchMost)}
	got, err := f.run(ctx, wait)
	if err != nil {
		for _, d := range got {
			_ = p.Nak(ctx, d) // where this fails the lease ends it
		}
		return nil, fmt.Errorf("fetch from %s of %s: %w", consumer, f.stream, err)
	}
	return got, nil
}

// fetch is one call of Fetch.
type fetch struct {
	p                *Pool
	stream, consumer string
	max              int
	puller           *puller
	got              []messages.Delivery
}

func (f *fetch) run(ctx context.Context, wait time.Duration) ([]messages.Delivery, error) {
	link := f.p.linkUp()
	var err error
	if f.puller, err = f.p.takePuller(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(wait)
	request := pullRequest{Batch: f.max, NoWait: true}
	if f.max > pullSmall {
		request.Bytes = pullBytes
	}
	request.Expires = max(wait, fetchSweep)
	ended, err := f.pull(ctx, request, link)
	if ended == pullCrowded && wait > 0 && err == nil {
		// Others wait already for more than is there, so this one queues up
		// behind them for a single message.
		request = pullRequest{Batch: 1, Expires: max(time.Until(deadline), time.Millisecond)}
		ended, err = f.pull(ctx, request, link)
	}
	if ended == pullOpen || err != nil {
		f.retire()
	} else {
		f.p.givePuller(f.puller)
	}
	return f.got, err
}

// How a pull ended.
type pullEnd int

const (
	pullOpen    pullEnd = iota // it may bring more
	pullDone                   // the broker will send no more for it
	pullCrowded                // refused: others wait for more than is there
)

func (f *fetch) pull(ctx context.Context, r pullRequest, link <-chan struct{}) (pullEnd, error) {
	reply := f.puller.reply()
	if err := f.p.pull(f.stream, f.consumer, reply, r); err != nil {
		return pullDone, err
	}
	timer := time.NewTimer(r.Expires + fetchGrace)
	defer timer.Stop()
	most, told := r.Batch, r.Bytes == 0 // what it brings at the most, and whether the broker's word is in
	for n := 0; n < most || !told; {
		select {
		case m := <-f.puller.in:
			if status := statusOf(m); status != "" {
				if m.Subject != reply {
					continue // of an earlier pull; taken for ours, it would leave ours open with nobody to hear it
				}
				left, ended := bounded(status, m)
				if !ended {
					return f.status(status, m)
				}
				most, told = r.Batch-left, true
				timer.Reset(fetchGrace)
				continue
			}
			ours, err := f.take(m)
			if err != nil {
				return pullOpen, err
			}
			if ours {
				n++
				timer.Reset(fetchLull)
			}
		case <-timer.C:
			if len(f.got) == 0 {
				return pullOpen, ErrNoAnswer
			}
			return pullOpen, nil
		case <-link:
			return pullOpen, nil // the broker is away; who asks again waits for it
		case <-ctx.Done():
			return pullOpen, context.Cause(ctx)
		}
	}
	return pullDone, nil
}

// bounded reads the end of a pull that is bounded in bytes: how many messages
// it did not bring. All others are on their way, and of a replicated consumer
// they come after these words, when a quorum knows of them; given up, they
// would be lost until their leases end.
func bounded(status string, m *nats.Msg) (left int, ended bool) {
	if text := m.Header.Get("Description"); status != "409" || text != textComplete && text != textBytes {
		return 0, false
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	return left, err == nil
}

// take keeps a message of this consumer. While the leader of a consumer changes,
// two servers may answer one pull, one of them after its end; what comes of a
// pull of another consumer is given back, since nobody here asked for it.
func (f *fetch) take(m *nats.Msg) (ours bool, err error) {
	a, err := parseAck(m.Reply)
	if err != nil {
		return false, err
	}
	d := deliveryOf(m, a)
	if a.streamName != f.stream || a.consumerName != f.consumer {
		f.p.cfg.Log.Warn("a message of another consumer came and is given back", "consumer", f.consumer, "of", a.consumerName, "subject", d.Subject)
		return false, f.p.nc.Publish(d.Token, bodyNak)
	}
	f.got = append(f.got, d)
	return true, nil
}

func (f *fetch) status(status string, m *nats.Msg) (pullEnd, error) {
	text := m.Header.Get("Description")
	switch {
	case status == "408" && text == "Requests Pending":
		return pullCrowded, nil
	case status == "404" || status == "408", status == "409" && (text == textComplete || text == textBytes):
		return pullDone, nil
	case status == "503":
		return pullDone, fmt.Errorf("%w: no such consumer", messages.ErrNotFound)
	case len(f.got) > 0:
		return pullDone, nil // the next fetch learns of it
	case status == "409" && text == "Consumer Deleted":
		return pullDone, fmt.Errorf("%w: the consumer was deleted", messages.ErrNotFound)
	}
	return pullDone, fmt.Errorf("the broker refused to hand over: %s %s", status, text)
}

func deliveryOf(m *nats.Msg, a ackInfo) messages.Delivery {
	return messages.Delivery{Stored: storedOf(m, a), Delivery: a.delivered, Fetched: time.Now(), Token: m.Reply, More: a.pendingLeft > 0}
}

// puller is a subscription that pulls bring their messages to, one pull at a
// time. It is kept for the next fetch, since making one costs as much as a pull.
//
// Each pull has a reply of its own, so that what the broker says of one is not
// taken for the end of another: a new leader of a consumer also ends pulls that
// were over before. Messages come with their own subjects and cannot be told
// apart like this; one of an earlier pull of the same consumer is as welcome as
// any, and what it leaves of the later pull comes to an idle puller.
type puller struct {
	prefix  string // of the replies
	pulls   uint64 // made so far
	in      chan *nats.Msg
	sub     *nats.Subscription
	wanted  chan struct{} // ends the listening of an idle one
	resting *time.Timer   // begins it
}

// pullerRest is how long a puller may be idle before somebody listens to it. Most
// are wanted again at once, and what came to one meanwhile is no older than this.
const pullerRest = 20 * time.Millisecond

func (pl *puller) reply() string {
	pl.pulls++
	return pl.prefix + strconv.FormatUint(pl.pulls, 36)
}

// pullers are those that no fetch uses now.
type pullers struct {
	mu   sync.Mutex
	idle []*puller
}

func (p *Pool) takePuller() (*puller, error) {
	p.pulls.mu.Lock()
	if n := len(p.pulls.idle); n > 0 {
		pl := p.pulls.idle[n-1]
		p.pulls.idle = p.pulls.idle[:n-1]
		p.pulls.mu.Unlock()
		p.wake(pl)
		return pl, nil
	}
	p.pulls.mu.Unlock()
	pl := &puller{
		prefix: p.nc.NewInbox() + ".",
		in:     make(chan *nats.Msg, fetchMost+16), // larger than any pull can bring, so that nothing is dropped
		wanted: make(chan struct{}),
	}
	var err error
	pl.sub, err = p.nc.ChanSubscribe(pl.prefix+"*", pl.in)
	return pl, err
}

// givePuller keeps an idle puller, and soon listens to it.
func (p *Pool) givePuller(pl *puller) {
	if pl.resting == nil {
		pl.resting = time.AfterFunc(pullerRest, func() { p.giveBackStray(pl, pl.wanted) })
	} else {
		pl.resting.Reset(pullerRest)
	}
	p.pulls.mu.Lock()
	p.pulls.idle = append(p.pulls.idle, pl)
	p.pulls.mu.Unlock()
}

// wake ends the rest of a puller, and gives back what has come meanwhile.
func (p *Pool) wake(pl *puller) {
	if !pl.resting.Stop() {
		select {
		case pl.wanted <- struct{}{}:
		case <-p.closed:
		}
		return
	}
	for {
		select {
		case m := <-pl.in:
			p.giveBack(m)
		default:
			return
		}
	}
}

// giveBackStray gives back, until over or the end of the connection, what comes
// to a puller that nobody waits at: else it would be lost until its lease ends.
// It listens all the time, since a message that came long ago may be in other
// hands, which a NAK would take it from.
func (p *Pool) giveBackStray(pl *puller, over <-chan struct{}) {
	for {
		select {
		case m := <-pl.in:
			p.giveBack(m)
		case <-over:
			return
		case <-p.closed:
			return
		}
	}
}

// giveBack gives back a message that nobody waits for, and drops other news.
func (p *Pool) giveBack(m *nats.Msg) {
	if _, err := parseAck(m.Reply); statusOf(m) != "" || err != nil {
		return
	}
	p.cfg.Log.Debug("a message came that nobody waits for and is given back", "subject", m.Subject)
	_ = p.nc.Publish(m.Reply, bodyNak) // where this fails the lease ends it
}

// retire ends a puller whose pull is still open, or ended in a way that may
// leave another server with a copy of it: the interest goes first, and after a
// round trip everything that the broker had sent is here. What comes later, of
// a broker that is slow to answer, is given back.
func (f *fetch) retire() {
	gone, over := context.WithCancel(context.Background())
	f.puller.sub.SetClosedHandler(func(string) { over() })
	if err := f.puller.sub.Drain(); err != nil {
		return // the connection is gone, and the deliveries with it
	}
	if err := f.p.nc.FlushTimeout(fetchGrace); err != nil {
		go f.p.giveBackStray(f.puller, gone.Done())
		return
	}
	for {
		select {
		case m := <-f.puller.in:
			if statusOf(m) == "" {
				_, _ = f.take(m) // one that cannot be read is none of ours
			}
		default:
			return
		}
	}
}

var (
	bodyAck    = []byte("+ACK")
	bodyNak    = []byte("-NAK")
	bodyExtend = []byte("+WPI")
)

// Ack says that d is dealt with. It is not confirmed and not fenced: it settles
// whatever delivery of the message is under way, so it proves nothing.
func (p *Pool) Ack(ctx context.Context, d messages.Delivery) error {
	return p.settle(ctx, "ack", d, bodyAck)
}

// Nak gives d back at once; the next delivery counts one more. As unfenced as Ack.
func (p *Pool) Nak(ctx context.Context, d messages.Delivery) error {
	return p.settle(ctx, "nak", d, bodyNak)
}

// Extend begins the lease of d anew. As unfenced as Ack.
func (p *Pool) Extend(ctx context.Context, d messages.Delivery) error {
	return p.settle(ctx, "extend", d, bodyExtend)
}

func (p *Pool) settle(_ context.Context, what string, d messages.Delivery, body []byte) error {
	if _, err := parseAck(d.Token); err != nil {
		return fmt.Errorf("%s %s: %w", what, clip(d.Subject), err)
	}
	return translate(what, d.Subject, p.nc.Publish(d.Token, body))
}
