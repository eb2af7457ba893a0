package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// heardMost bounds what was heard and not yet handled, in messages; more is lost.
const heardMost = 4096

// Tell says something to all who hear the topic now, the teller among them.
// Nothing is stored, and what a connection loses is lost without an error.
func (p *Pool) Tell(topic string, body []byte) error {
	return translate("tell", topic, p.nc.Publish(p.names.PeerSubject(topic), body))
}

// Hear calls fn with what is told, one after another, until ctx is done; ready
// is called once when nothing that is told from then on is missed. It returns
// the cause of ctx, or that the connection was closed.
func (p *Pool) Hear(ctx context.Context, topic string, ready func(), fn func(body []byte)) error {
	heard := make(chan *nats.Msg, heardMost)
	sub, err := p.nc.ChanSubscribe(p.names.PeerSubject(topic), heard)
	if err != nil {
		return translate("hear", topic, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // of a closed connection there is nothing to take back
	if err := p.nc.FlushTimeout(p.cfg.Timeout); err != nil && p.nc.IsClosed() {
		return translate("hear", topic, err)
	}
	ready()
	for {
		select {
		case m := <-heard:
			fn(m.Data)
		case <-ctx.Done():
			return fmt.Errorf("hear %s: %w", topic, context.Cause(ctx))
		case <-p.closed:
			return fmt.Errorf("hear %s: %w", topic, nats.ErrConnectionClosed)
		}
	}
}
