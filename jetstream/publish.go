package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// Headers of the server that we write ourselves.
const (
	headerMsgID     = "Nats-Msg-Id"
	headerTTL       = "Nats-TTL"
	headerExpectSeq = "Nats-Expected-Last-Subject-Sequence"
	headerSchedule  = "Nats-Schedule"
	headerTarget    = "Nats-Schedule-Target"
)

// window is how many publishes of one PublishAll are under way at a time.
const window = 512

// PutOnce writes m where the first write wins: a subject of RESULTS, RECOVERY
// or PAYLOADS. (nil, nil) means that m is stored. (winner, nil) means that it
// was refused since winner is there. An error, ErrFull among them, means that
// m is not known to be stored: keep the trigger and its lease, wait, try again.
//
// It sends no Nats-Msg-Id, whose answer to a duplicate looks like success
// (P7.14), and takes no refusal at its word: error 10077 also means a full
// stream, so the winner is read from the leader (P7.4).
func (p *Pool) PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error) {
	h, err := p.putOnceHeader(ctx, m)
	if err != nil {
		return nil, err
	}
	_, err = p.store(ctx, m.Subject, h, m.Body)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, messages.ErrExists) && !errors.Is(err, messages.ErrFull) {
		return nil, err
	}
	winner, readErr := p.Get(ctx, m.Subject)
	switch {
	case readErr == nil:
		return &winner, nil
	case !errors.Is(readErr, messages.ErrNotFound):
		return nil, fmt.Errorf("put %s: refused, and reading the winner failed: %w", clip(m.Subject), readErr)
	case errors.Is(err, messages.ErrFull):
		return nil, err
	}
	return nil, fmt.Errorf("put %s: refused by a message that has gone since; try again", clip(m.Subject))
}

// putOnceHeader checks the headers, and gives a start the life of RESULTS: as
// long as that a second start must be refused.
func (p *Pool) putOnceHeader(ctx context.Context, m messages.Message) (nats.Header, error) {
	if _, ok := m.Header[headerMsgID]; ok {
		return nil, fmt.Errorf("put %s: header %s must not be set, its duplicates look like success", clip(m.Subject), headerMsgID)
	}
	if !strings.HasPrefix(m.Subject, p.names.Prefix()+"."+messages.KindStart+".") {
		return nats.Header(m.Header), nil
	}
	keep, err := p.resultsRetention(ctx)
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", clip(m.Subject), err)
	}
	if keep == 0 {
		return nats.Header(m.Header), nil
	}
	h := maps.Clone(nats.Header(m.Header))
	if h == nil {
		h = make(nats.Header, 1)
	}
	h[headerTTL] = []string{formatTTL(keep)}
	return h, nil
}

// Publish writes a call to CALLS. ErrExists means that a message with this
// subject is still there, which is as good; ErrFull that nothing was stored.
// After any other error it may be there, or not.
func (p *Pool) Publish(ctx context.Context, m messages.Message) error {
	_, err := p.store(ctx, m.Subject, nats.Header(m.Header), m.Body)
	return p.refusal(ctx, m.Subject, err)
}

// PublishAll is Publish for many: errs[i] belongs to ms[i]. The messages are
// stored in their order and their answers awaited together.
func (p *Pool) PublishAll(ctx context.Context, ms []messages.Message) []error {
	errs := make([]error, len(ms))
	sent := make([]*question, len(ms))
	link, limit := p.linkUp(), p.limit(ctx)
	settle := func(i int) {
		if sent[i] == nil {
			return
		}
		m, err := p.answers.wait(ctx, sent[i], limit, link)
		if err == nil {
			_, err = readAck(m.Data)
		}
		errs[i] = p.refusal(ctx, ms[i].Subject, translate("publish", ms[i].Subject, err))
	}
	for i, m := range ms {
		if i >= window {
			settle(i - window)
		}
		var err error
		if sent[i], err = p.answers.send(m.Subject, nats.Header(m.Header), m.Body); err != nil {
			errs[i] = translate("publish", m.Subject, err)
		}
	}
	for i := max(0, len(ms)-window); i < len(ms); i++ {
		settle(i)
	}
	return errs
}

// refusal takes no refusal at its word (P7.4, ADR 0013). A stream that is full
// refuses also what it holds already. A leader whom the others cannot hear
// refuses for the sake of an earlier copy that is on its way, and forgets both
// when it is replaced. What counts is what the leader has stored.
func (p *Pool) refusal(ctx context.Context, subject string, err error) error {
	full := errors.Is(err, messages.ErrFull)
	if !full && !errors.Is(err, messages.ErrExists) {
		return err
	}
	_, readErr := p.Get(ctx, subject)
	switch {
	case readErr == nil:
		return fmt.Errorf("publish %s: %w", clip(subject), messages.ErrExists)
	case full:
		return err
	case !errors.Is(readErr, messages.ErrNotFound):
		return fmt.Errorf("publish %s: refused, and reading what is there failed: %w", clip(subject), readErr)
	}
	return fmt.Errorf("publish %s: refused by a message that has gone since, or is not there yet; try again", clip(subject))
}

// Schedule makes the broker publish d to its due subject at d.At, not earlier
// and usually less than 250 ms later; a time that has passed fires at once.
// The same d again replaces its schedule, another n or w is another (P7.3).
func (p *Pool) Schedule(ctx context.Context, d messages.Due) error {
	subject, target := p.names.ScheduleSubject(d), p.names.DueSubject(d)
	m, err := messages.EncodeStory(subject, d)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", clip(subject), err)
	}
	h := nats.Header(m.Header)
	// The client's own option cuts the time to whole seconds and so fires early.
	h[headerSchedule] = []string{"@at " + d.At.UTC().Format(time.RFC3339Nano)}
	h[headerTarget] = []string{target}
	_, err = p.store(ctx, subject, h, m.Body)
	return err
}

// store publishes to a stream and returns the sequence.
func (p *Pool) store(ctx context.Context, subject string, h nats.Header, body []byte) (uint64, error) {
	m, err := p.ask(ctx, subject, h, body)
	if err != nil {
		return 0, translate("publish", subject, err)
	}
	seq, err := readAck(m.Data)
	return seq, translate("publish", subject, err)
}

// formatTTL writes whole seconds, rounded up, at least one: the server refuses
// less. What is negative never expires.
func formatTTL(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	s := (d + time.Second - 1) / time.Second
	return strconv.FormatInt(int64(max(s, 1)), 10)
}
