package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"mulligan/pkg/messages"
)

// service is one call of Serve.
type service struct {
	b       *Broker
	handle  func(context.Context, []byte) []byte
	ctx     context.Context // of the handlers; outlives that of Serve
	slots   chan struct{}
	running sync.WaitGroup // Add only under the pool's lock, while listed
}

// Serve answers the requests of an endpoint until ctx is done, then waits for
// those that are being handled and returns the cause of ctx.
func (b *Broker) Serve(ctx context.Context, endpoint string, ready func(), handle func(ctx context.Context, request []byte) (reply []byte)) error {
	if _, err := b.enter(ctx, OpServe, endpoint); err != nil {
		return err
	}
	s := &service{b: b, handle: handle, ctx: context.WithoutCancel(ctx), slots: make(chan struct{}, b.cfg.ServeLimit)}
	b.mu.Lock()
	b.services[endpoint] = append(b.services[endpoint], s)
	b.mu.Unlock()
	if ready != nil {
		ready()
	}
	<-ctx.Done()
	b.mu.Lock()
	b.services[endpoint] = slices.DeleteFunc(b.services[endpoint], func(o *service) bool { return o == s })
	b.mu.Unlock()
	s.running.Wait()
	return fmt.Errorf("serve %s: %w", endpoint, context.Cause(ctx))
}

// Request asks an endpoint and returns its reply. ErrNoResponder: nobody serves it.
func (b *Broker) Request(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	lost, err := b.enter(ctx, OpRequest, endpoint)
	if err != nil {
		return nil, err
	}
	if len(body) > maxMessage {
		return nil, fmt.Errorf("request %s: %w", endpoint, messages.ErrTooLarge)
	}
	reply := make(chan []byte, 1)
	if !b.ask(endpoint, bytes.Clone(body), reply) {
		return nil, fmt.Errorf("request %s: %w", endpoint, messages.ErrNoResponder)
	}
	select {
	case r := <-reply:
		if lost {
			return nil, errLostAck
		}
		return r, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", endpoint, context.Cause(ctx))
	}
}

// ask gives a request to the services of an endpoint in turn.
func (p *pool) ask(endpoint string, body []byte, reply chan<- []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.services[endpoint]
	if len(list) == 0 {
		return false
	}
	s := list[0]
	p.services[endpoint] = append(list[1:len(list):len(list)], s)
	s.running.Go(func() {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		if s.b.faults.wait(s.ctx) == nil { // a frozen process handles nothing
			reply <- s.handle(s.ctx, body)
		}
	})
	return true
}
