package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/pkg/messages"
)

// serviceQueue is the queue group in which the coordinators share requests.
const serviceQueue = "coordinators"

// Serve answers the requests of an endpoint, shared with everyone else who
// serves it, until ctx is done; ready, which may be nil, is called once when
// they find us. Then it takes no more, waits for those that are
// being handled, and returns the cause of ctx. At most ServeLimit run at once.
// The context of handle outlives ctx by DrainTimeout, so that what was begun
// can end.
func (p *Pool) Serve(ctx context.Context, endpoint string, ready func(), handle func(ctx context.Context, request []byte) (reply []byte)) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(errServed)
	s := service{p: p, handle: handle, ctx: work, slots: make(chan struct{}, p.cfg.ServeLimit)}
	sub, err := p.nc.QueueSubscribe(p.names.ServiceSubject(endpoint), serviceQueue, s.take)
	if err != nil {
		return fmt.Errorf("serve %s: %w", endpoint, err)
	}
	drained := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(drained) })
	// Who is told that the endpoint is served must find it served.
	if err := p.nc.FlushTimeout(p.cfg.Timeout); err != nil && p.nc.IsClosed() {
		return fmt.Errorf("serve %s: %w", endpoint, err)
	}
	if ready != nil {
		ready()
	}
	select {
	case <-ctx.Done():
	case <-p.closed:
		stop(nats.ErrConnectionClosed)
		s.running.Wait()
		return fmt.Errorf("serve %s: %w", endpoint, nats.ErrConnectionClosed)
	}
	late := time.AfterFunc(p.cfg.DrainTimeout, func() { stop(context.Cause(ctx)) })
	defer late.Stop()
	if err := sub.Drain(); err == nil {
		select {
		case <-drained:
		case <-p.closed:
		case <-work.Done():
		}
	}
	s.running.Wait()
	return fmt.Errorf("serve %s: %w", endpoint, context.Cause(ctx))
}

var errServed = errors.New("no longer served")

// service is one call of Serve.
type service struct {
	p       *Pool
	handle  func(context.Context, []byte) []byte
	ctx     context.Context
	slots   chan struct{}
	running sync.WaitGroup
}

// take runs on the subscription's goroutine, and holds it up while all slots
// are in use.
func (s *service) take(m *nats.Msg) {
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		if err := m.Respond(s.handle(s.ctx, m.Data)); err != nil {
			s.p.cfg.Log.Error("a reply was not sent", "subject", m.Subject, "error", err)
		}
	})
}

// Request asks an endpoint and returns its reply. ErrNoResponder: nobody serves
// it. ErrTooLarge: body exceeds what one message may hold. After another error
// it may have been handled.
func (p *Pool) Request(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	m, err := p.askFor(ctx, p.patience(ctx), p.names.ServiceSubject(endpoint), nil, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("request %s: %w", endpoint, messages.ErrNoResponder)
	}
	if err != nil {
		return nil, translate("request", endpoint, err)
	}
	return m.Data, nil
}
