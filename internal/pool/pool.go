package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"mulligan/internal/lifecycle"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// Pool is a running pool. Started means that its tools are offered and can be
// called. Stop drains the workers first, then stops what they need.
type Pool struct {
	*lifecycle.Service

	cfg  Config
	temp bool

	mu     sync.Mutex
	server *embedded.Server // nil before it runs
	parts  []*part
}

// part is one service with its connection.
type part struct {
	what    string
	service running
	broker  *jetstream.Pool
}

// running is what all services are to the pool.
type running interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
	Stopped() <-chan struct{}
	Err() error
}

// New makes a pool, which does nothing before Start.
func New(cfg Config) (*Pool, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := messages.NewPool(cfg.Prefix); err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg}
	p.Service = lifecycle.New(p.run)
	return p, nil
}

// Start makes a pool, starts it and waits until it can be used. The pool does
// not end with ctx, but with Stop.
func Start(ctx context.Context, cfg Config) (*Pool, error) {
	p, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := p.Service.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	select {
	case <-p.Started():
		return p, nil
	case <-p.Stopped():
		if err := p.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("pool: stopped before it had started")
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), p.Stop(context.WithoutCancel(ctx)))
	}
}

func (p *Pool) run(ctx context.Context, started func()) (err error) {
	server, err := p.startServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stopServer(server)) }()
	stopping := context.WithoutCancel(ctx) // a drain outlives the wish to stop
	defer func() { err = errors.Join(err, p.stopParts(stopping)) }()
	if err := p.startParts(ctx); err != nil {
		return err
	}
	if p.cfg.Address {
		if err := server.WriteAddress(); err != nil {
			return err
		}
	}
	started()
	return p.wait(ctx)
}

func (p *Pool) startServer() (*embedded.Server, error) {
	dir := p.cfg.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "mulligan-pool-"); err != nil {
			return nil, fmt.Errorf("pool: %w", err)
		}
		p.temp = true
	}
	s, err := embedded.Start(embedded.Config{
		Dir: dir, Port: p.cfg.Port, StoreLimit: p.cfg.StoreLimit, Durability: p.cfg.Durability, Same: p.cfg.Address,
		Log: p.cfg.Log.With("part", "nats"),
	})
	if err != nil {
		return nil, errors.Join(err, p.removeTemp(dir))
	}
	p.mu.Lock()
	p.server = s
	p.mu.Unlock()
	return s, nil
}

func (p *Pool) stopServer(s *embedded.Server) error {
	return errors.Join(s.Shutdown(), p.removeTemp(s.Dir()))
}

func (p *Pool) removeTemp(dir string) error {
	if !p.temp {
		return nil
	}
	return os.RemoveAll(dir)
}

// Connect opens a connection to the pool, for whoever wants to use it. The
// caller closes it, before the pool is stopped.
func (p *Pool) Connect(ctx context.Context, name string) (*jetstream.Pool, error) {
	cfg, err := p.Connection(name)
	if err != nil {
		return nil, err
	}
	return jetstream.Connect(ctx, cfg)
}

// Connection is how to connect to the pool from this process.
func (p *Pool) Connection(name string) (jetstream.Config, error) {
	p.mu.Lock()
	s := p.server
	p.mu.Unlock()
	if s == nil {
		return jetstream.Config{}, errors.New("pool: not started")
	}
	return jetstream.Config{InProcess: s, Token: s.Token(), Name: name, Prefix: p.cfg.Prefix, Lease: p.cfg.Lease, Log: p.cfg.Log}, nil
}

// URL is where the pool's broker is; Token is what it wants. Both are empty
// before the pool has started.
func (p *Pool) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return ""
	}
	return p.server.ClientURL()
}

// Token is what the broker wants to be shown.
func (p *Pool) Token() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return ""
	}
	return p.server.Token()
}

// Healthy says what is wrong with the pool, if anything is.
func (p *Pool) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return errors.New("the broker is not started")
	}
	if err := p.server.Err(); err != nil {
		return err
	}
	for _, part := range p.parts {
		if !part.broker.Connected() {
			return fmt.Errorf("%s is not connected to the broker", part.what)
		}
	}
	return nil
}

// wait returns when ctx is done, or a part has ended by itself.
func (p *Pool) wait(ctx context.Context) error {
	ended := make(chan error, len(p.parts))
	quit := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(quit)
	for _, part := range p.parts {
		wg.Go(func() {
			select {
			case <-part.service.Stopped():
				ended <- fmt.Errorf("%s has ended: %w", part.what, orStopped(part.service.Err()))
			case <-quit:
			}
		})
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

func orStopped(err error) error {
	if err == nil {
		return errors.New("by itself")
	}
	return err
}
