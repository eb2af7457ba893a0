package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"mulligan/internal/secrets"
	"mulligan/pkg/messages"
)

// Pool is a connection to one pool of Mulligan at a broker. All its methods
// may be called concurrently.
type Pool struct {
	names   messages.Pool
	starts  string // what the subjects of starts begin with
	cfg     Config
	nc      *nats.Conn
	answers *answers
	pulls   pullers

	closed    chan struct{} // by nats.go, when nothing of the connection is left
	closeOnce sync.Once

	mu        sync.Mutex
	link      chan struct{} // closed and replaced at every disconnect
	retention time.Duration // of RESULTS, as read from the broker; 0 not read yet
}

// Connect opens the connection of a pool. It fails at once (ErrUnreachable) when
// no server answers or none lets us in, unless cfg.RetryConnect says otherwise;
// afterwards it reconnects for ever. Nothing that is published while disconnected is kept for later:
// the publisher is told, since an old ack that arrives late does harm.
func Connect(ctx context.Context, cfg Config) (*Pool, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	names, err := messages.NewPool(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	p := &Pool{names: names, starts: names.Prefix() + "." + messages.KindStart + ".", cfg: cfg, closed: make(chan struct{}), link: make(chan struct{})}
	opts, err := p.options()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(max(time.Until(deadline), time.Millisecond)))
	}
	if p.nc, err = nats.Connect(cfg.URL, opts...); err != nil {
		if errors.Is(err, nats.ErrAuthorization) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, fmt.Errorf("connect to %s: %w: %w", secrets.Address(cfg.URL), ErrUnreachable, err)
	}
	if p.answers, err = newAnswers(p.nc); err != nil {
		p.nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", secrets.Address(cfg.URL), err)
	}
	return p, nil
}

// A server that answers none of two pings is left for another one.
const (
	pingInterval = 10 * time.Second
	mostPings    = 2
)

func (p *Pool) options() ([]nats.Option, error) {
	c := p.cfg
	log := c.Log
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(mostPings),
		nats.RetryOnFailedConnect(c.RetryConnect),
		nats.CustomInboxPrefix(c.InboxPrefix),
		nats.DrainTimeout(c.DrainTimeout),
		nats.ClosedHandler(func(*nats.Conn) { close(p.closed) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			p.cutLink()
			if err != nil {
				log.Warn("disconnected from the broker", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			p.cutLink() // what was asked in between is asked again
			log.Info("reconnected to the broker", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if subject := forbiddenSubject(err); subject != "" && p.answers != nil {
				p.answers.forbid(subject)
			}
			if sub != nil {
				log.Error("error of the broker connection", "subject", sub.Subject, "error", err)
				return
			}
			log.Error("error of the broker connection", "error", err)
		}),
	}
	if c.InProcess != nil {
		opts = append(opts, nats.InProcessServer(c.InProcess))
	}
	switch {
	case c.Token != "":
		opts = append(opts, nats.Token(c.Token))
	case c.CredsFile != "":
		opts = append(opts, nats.UserCredentials(c.CredsFile))
	case c.NKeyFile != "":
		nkey, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey file %s: %w", c.NKeyFile, err)
		}
		opts = append(opts, nkey)
	}
	if c.CAFile != "" {
		opts = append(opts, nats.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		opts = append(opts, nats.ClientCert(c.CertFile, c.KeyFile))
	}
	return opts, nil
}

// Of a broker that is away.
const (
	reconnectFirst = time.Second     // until the servers are tried again, at most
	reconnectMost  = 4 * time.Second // the same, after some rounds in vain
)

// reconnectDelay is the wait before all servers are tried for the n-th time,
// counted from 1. Hundreds of clients lose a broker in the same moment: spread
// over most of the step, and slower where it stays away, they do not all come
// back in another one.
func reconnectDelay(n int) time.Duration {
	step := min(reconnectFirst<<min(n-1, 8), reconnectMost)
	return step/4 + rand.N(step*3/4)
}

// Close drains the connection: followers and services must have ended before.
// It returns when nothing of it is left, at the latest after DrainTimeout.
// It may be called often.
func (p *Pool) Close() {
	p.closeOnce.Do(func() {
		if err := p.nc.Drain(); err != nil {
			p.nc.Close()
		}
	})
	select {
	case <-p.closed:
	case <-time.After(p.cfg.DrainTimeout + time.Second):
		p.nc.Close()
		<-p.closed
	}
}

// Names are the names of the pool's subjects, streams and buckets.
func (p *Pool) Names() messages.Pool { return p.names }

// Connected says whether the broker is there now; for health reports only.
func (p *Pool) Connected() bool { return p.nc.IsConnected() }

// Clustered says whether the broker is one of several that elect leaders.
func (p *Pool) Clustered() bool { return p.nc.ConnectedClusterName() != "" }

// Over waits until the connection has ended for good, because of Close or since
// the broker refused to let us in, and says why; or until ctx is done, and
// returns its cause. A broker that is only away does not end it.
func (p *Pool) Over(ctx context.Context) error {
	select {
	case <-p.closed:
		return p.closedBy()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lost is Over for one look: why the connection is over for good, or nil.
func (p *Pool) Lost() error {
	if p.nc.IsClosed() {
		return p.closedBy()
	}
	return nil
}

// closedBy is why a closed connection is closed.
func (p *Pool) closedBy() error {
	if err := p.nc.LastError(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nats.ErrConnectionClosed
}

// linkUp returns a channel that is closed when the connection next breaks, so
// that whatever waits for an answer of the old one asks again.
func (p *Pool) linkUp() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

func (p *Pool) cutLink() {
	p.mu.Lock()
	close(p.link)
	p.link = make(chan struct{})
	p.mu.Unlock()
}
