package memory

import (
	"context"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// Limits of the server that the twin keeps.
const (
	maxMessage = 1 << 20
	maxHeaders = 64 << 10
)

const headerMsgID = "Nats-Msg-Id"

// PutOnce writes m where the first write wins. (nil, nil): m is stored.
// (winner, nil): refused, winner is there. An error: not known to be stored.
func (b *Broker) PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error) {
	lost, err := b.enter(ctx, OpPutOnce, m.Subject)
	if err != nil {
		return nil, err
	}
	if _, ok := m.Header[headerMsgID]; ok {
		return nil, fmt.Errorf("put %s: header %s must not be set, its duplicates look like success", m.Subject, headerMsgID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamOf(m.Subject)
	if err != nil {
		return nil, fmt.Errorf("put %w", err)
	}
	if there := s.get(m.Subject); s.once && there != nil {
		if lost {
			return nil, errLostAck
		}
		winner := there.out()
		return &winner, nil
	}
	var ttl time.Duration
	if a, err := b.names.Parse(m.Subject); err == nil && a.Kind == messages.KindStart {
		ttl = b.cfg.ResultsAge
	}
	if err := b.store(s, m, ttl); err != nil {
		return nil, err
	}
	if lost {
		return nil, errLostAck
	}
	return nil, nil
}

// Publish writes a call to CALLS: nil, ErrExists, ErrFull or another error.
func (b *Broker) Publish(ctx context.Context, m messages.Message) error {
	lost, err := b.enter(ctx, OpPublish, m.Subject)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.streamOf(m.Subject)
	if err != nil {
		return fmt.Errorf("publish %w", err)
	}
	if s.once && s.get(m.Subject) != nil {
		err = fmt.Errorf("publish %s: %w", m.Subject, messages.ErrExists)
	} else {
		err = b.store(s, m, 0)
	}
	if lost {
		return errLostAck
	}
	return err
}

// PublishAll is Publish for many: errs[i] belongs to ms[i].
func (b *Broker) PublishAll(ctx context.Context, ms []messages.Message) []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		errs[i] = b.Publish(ctx, m)
	}
	return errs
}

// store checks the limits and adds the message. The caller holds the lock.
func (b *Broker) store(s *stream, m messages.Message, ttl time.Duration) error {
	if h := m.HeaderSize(); h > maxHeaders || len(m.Body)+h > maxMessage {
		return fmt.Errorf("publish %s: %w", m.Subject, messages.ErrTooLarge)
	}
	if s.full {
		return fmt.Errorf("publish %s: %w", m.Subject, messages.ErrFull)
	}
	s.add(m, ttl)
	return nil
}

// Schedule makes d fire as a message on its due subject at d.At, never earlier.
func (b *Broker) Schedule(ctx context.Context, d messages.Due) error {
	subject := b.names.ScheduleSubject(d)
	lost, err := b.enter(ctx, OpSchedule, subject)
	if err != nil {
		return err
	}
	m, err := messages.EncodeStory(subject, d)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", subject, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[string(messages.StreamSchedule)]
	if s.full {
		return fmt.Errorf("schedule %s: %w", subject, messages.ErrFull)
	}
	b.unschedule(s, subject)
	entry := s.add(m, 0)
	due := messages.Message{Subject: b.names.DueSubject(d), Header: m.Header, Body: m.Body}
	b.schedules[subject] = time.AfterFunc(time.Until(d.At), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if entry.gone {
			return
		}
		b.unschedule(s, subject)
		s.add(due, 0)
	})
	if lost {
		return errLostAck
	}
	return nil
}

// unschedule drops the schedule on a subject. The caller holds the lock.
func (p *pool) unschedule(s *stream, subject string) {
	if t := p.schedules[subject]; t != nil {
		t.Stop()
		delete(p.schedules, subject)
	}
	s.remove(s.bySubject[subject])
}
