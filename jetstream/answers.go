package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/pkg/messages"
)

// answers sends requests and waits for what comes back, any number at a time,
// over one subscription. A request costs one message each way, so callers need
// no batch: 64 goroutines that publish and wait are a pipeline.
type answers struct {
	nc     *nats.Conn
	prefix string

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*question
}

// question is a request whose answer is awaited.
type question struct {
	id      uint64
	subject string
	sent    time.Time
	answer  chan *nats.Msg // capacity 1; nil for one that the server did not let through
}

func newAnswers(nc *nats.Conn) (*answers, error) {
	a := &answers{nc: nc, prefix: nc.NewInbox() + ".", waiting: make(map[uint64]*question)}
	sub, err := nc.Subscribe(a.prefix+"*", a.deliver)
	if err != nil {
		return nil, err
	}
	return a, sub.SetPendingLimits(-1, -1) // bounded by what is being asked
}

func (a *answers) deliver(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(a.prefix):], 36, 64)
	if err != nil {
		return
	}
	a.mu.Lock()
	q := a.waiting[id]
	delete(a.waiting, id)
	a.mu.Unlock()
	if q != nil {
		q.answer <- m
	}
}

// send sends a request and returns what to wait for. An error means that
// nothing left this process.
func (a *answers) send(subject string, h nats.Header, body []byte) (*question, error) {
	q := &question{subject: subject, sent: time.Now(), answer: make(chan *nats.Msg, 1)}
	a.mu.Lock()
	a.last++
	q.id = a.last
	a.waiting[q.id] = q
	a.mu.Unlock()
	var buf [64]byte
	reply := string(strconv.AppendUint(append(buf[:0], a.prefix...), q.id, 36))
	err := a.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: h, Data: body})
	if err != nil {
		a.forget(q)
		return nil, err
	}
	return q, nil
}

// forbid ends the requests to a subject that we may not publish to: the server
// says so to the connection, not to the requester, who would wait for nothing.
func (a *answers) forbid(subject string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, q := range a.waiting {
		if q.subject == subject {
			delete(a.waiting, id)
			q.answer <- nil
		}
	}
}

func (a *answers) forget(q *question) {
	a.mu.Lock()
	delete(a.waiting, q.id)
	a.mu.Unlock()
}

// wait returns the answer. Limit counts from the request, so that waiting for
// many takes no longer than for one. ErrNoResponders of the client: nobody
// listens there. After another error it may have been received.
func (a *answers) wait(ctx context.Context, q *question, limit time.Duration, link <-chan struct{}) (*nats.Msg, error) {
	select {
	case m := <-q.answer:
		return answered(m)
	default:
	}
	timer := time.NewTimer(time.Until(q.sent.Add(limit)))
	defer timer.Stop()
	var err error
	select {
	case m := <-q.answer:
		return answered(m)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = ErrNoAnswer
	case <-link:
		err = errDisconnected
	}
	a.forget(q)
	return nil, err
}

func answered(m *nats.Msg) (*nats.Msg, error) {
	if m == nil {
		return nil, messages.ErrForbidden
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return m, nil
}

// ask is send and wait, for as long as the configured time-out at the most: an
// election loses requests without a word, and whoever has a longer deadline
// gains more by asking again than by waiting for an answer that never comes.
func (p *Pool) ask(ctx context.Context, subject string, h nats.Header, body []byte) (*nats.Msg, error) {
	return p.askFor(ctx, p.limit(ctx), subject, h, body)
}

func (p *Pool) askFor(ctx context.Context, limit time.Duration, subject string, h nats.Header, body []byte) (*nats.Msg, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	link := p.linkUp()
	q, err := p.answers.send(subject, h, body)
	if err != nil {
		return nil, err
	}
	return p.answers.wait(ctx, q, limit, link)
}

// limit is the time-out of a request to the broker.
func (p *Pool) limit(ctx context.Context) time.Duration {
	return min(p.patience(ctx), p.cfg.Timeout)
}

// patience is what ctx allows, or without a deadline of its own the configured
// time-out.
func (p *Pool) patience(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at) + time.Second // ctx itself comes first, and has the better cause
	}
	return p.cfg.Timeout
}

// api makes one request to the JetStream API and decodes the answer into dst,
// unless it is an error.
func (p *Pool) api(ctx context.Context, endpoint string, request, dst any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	m, err := p.ask(ctx, apiPrefix+endpoint, nil, body)
	if err != nil {
		return err
	}
	var failed struct {
		Error *natsjs.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("answer of the broker: %w", err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	if dst == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, dst); err != nil {
		return fmt.Errorf("answer of the broker: %w", err)
	}
	return nil
}

const apiPrefix = "$JS.API."

// readAck reads a stream's answer to a publish: the sequence. It stands on the
// success path, so the plain answer, {"stream":"…","seq":5}, is read without a
// JSON decoder; anything else goes to one.
func readAck(b []byte) (uint64, error) {
	if seq := plainAck(b); seq > 0 {
		return seq, nil
	}
	var ack struct {
		Stream string           `json:"stream"`
		Seq    uint64           `json:"seq"`
		Error  *natsjs.APIError `json:"error"`
	}
	if err := json.Unmarshal(b, &ack); err != nil {
		return 0, fmt.Errorf("answer of the broker: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream == "" || ack.Seq == 0 {
		return 0, fmt.Errorf("answer of the broker is no acknowledgement: %.80q", b)
	}
	return ack.Seq, nil
}

// plainAck is the sequence of an answer that holds a stream and a sequence and
// nothing else, or 0.
func plainAck(b []byte) uint64 {
	rest, ok := bytes.CutPrefix(b, []byte(`{"stream":"`))
	if !ok {
		return 0
	}
	name, digits, ok := bytes.Cut(rest, []byte(`","seq":`))
	digits, closed := bytes.CutSuffix(digits, []byte("}"))
	if !ok || !closed || len(name) == 0 || len(digits) == 0 || len(digits) > 18 || digits[0] == '0' {
		return 0
	}
	if !isPlain(name) {
		return 0
	}
	var seq uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0
		}
		seq = seq*10 + uint64(c-'0')
	}
	return seq
}
