package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/jetstream"
)

// startParts starts coordinators, reflectors and workers, in this order, since
// workers offer their tools to coordinators.
func (p *Pool) startParts(ctx context.Context) error {
	type kind struct {
		what string
		n    int
		make func(b *jetstream.Pool, name string) (running, error)
	}
	kinds := []kind{
		{"coordinator", p.cfg.Coordinators, p.coordinator},
		{"reflector", p.cfg.Reflectors, p.reflector},
	}
	if len(p.cfg.Tools) > 0 {
		kinds = append(kinds, kind{"worker", p.cfg.Workers, p.worker})
	}
	for _, live := range p.cfg.Live {
		kinds = append(kinds, kind{"worker-" + live.Queue(), 1, p.liveWorker(live)})
	}
	for i, k := range kinds {
		for n := range k.n {
			if err := p.startPart(ctx, k.what, n+1, i == 0 && n == 0, k.make); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeLimit is that of the server that runs. Coordinators keep it; no stream
// has a limit of its own, since the server takes one for a reservation and
// would change nothing any more when it is started with less than that.
func (p *Pool) storeLimit() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.StoreLimit()
}

// lowDisk is why coordinators take nothing in while the disk is nearly full:
// what there is of it is for the ends of what they have.
func (p *Pool) lowDisk() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.Err()
}

func (p *Pool) startPart(ctx context.Context, what string, n int, provision bool, make func(*jetstream.Pool, string) (running, error)) error {
	name := fmt.Sprintf("%s-%d", what, n)
	b, err := p.Connect(ctx, "mulligan "+name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if provision {
		if err := b.Provision(ctx, jetstream.TopologyConfig{}); err != nil {
			b.Close()
			return err
		}
	}
	s, err := make(b, name)
	if err == nil {
		err = s.Start(context.WithoutCancel(ctx))
	}
	if err != nil {
		b.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	p.mu.Lock()
	p.parts = append(p.parts, &part{what: name, service: s, broker: b})
	p.mu.Unlock()
	select {
	case <-s.Started():
		return nil
	case <-s.Stopped():
		return fmt.Errorf("%s: %w", name, orStopped(s.Err()))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopParts stops them in the opposite order: the outcomes of the last tools
// are still taken in and decided on.
func (p *Pool) stopParts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.DrainTimeout+20*time.Second)
	defer cancel()
	var errs []error
	for _, part := range slices.Backward(p.parts) {
		if err := part.service.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", part.what, err))
		}
		part.broker.Close()
	}
	return errors.Join(errs...)
}
