package reflection

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"mulligan/internal/lease"
	"mulligan/internal/lifecycle"
	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// Reflector is one reflector of a pool. Its methods are those of its lifecycle.
type Reflector struct {
	*lifecycle.Service
	cfg      Config
	log      *slog.Logger
	names    messages.Pool
	deciders *deciders
	registry registry
	ledger   *ledger
	leases   *lease.Keeper

	// working is the context of what is being handled: it outlives that of
	// fetching by StopTimeout. Set by run before anything is handled.
	working   context.Context
	handlings sync.WaitGroup
}

// New checks the configuration, after filling its defaults.
func New(cfg Config) (*Reflector, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deciders, err := newDeciders(cfg)
	if err != nil {
		return nil, fmt.Errorf("reflector: %w", err)
	}
	r := &Reflector{cfg: cfg, log: cfg.Log, names: cfg.Broker.Names(), deciders: deciders, ledger: newLedger(cfg.Broker), leases: lease.New(cfg.Broker, cfg.Lease, cfg.Log)}
	r.Service = lifecycle.New(r.run)
	return r, nil
}

const fetchWait = 5 * time.Second

// run watches the tools and handles failures until ctx is done, then lets what
// it began end.
func (r *Reflector) run(ctx context.Context, started func()) error {
	working, release := context.WithCancelCause(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer release(lifecycle.ErrStopping) // before the wait
	r.working = working
	background.Go(func() { r.leases.Run(working) })

	var watches sync.WaitGroup
	if r.see(ctx, &watches) {
		r.tell()
		started()
		r.consume(ctx)
	}
	giveUp := time.AfterFunc(r.cfg.StopTimeout, func() { release(lifecycle.ErrStopping) })
	r.handlings.Wait()
	giveUp.Stop()
	watches.Wait()
	return context.Cause(ctx)
}

// tell says by which policy failures are decided where no queue, tool or call
// has one of its own (S2.2).
func (r *Reflector) tell() {
	p := r.deciders.book.For("", "", nil)
	r.log.Info("failures are decided by the policies of the pool", "revision", r.deciders.book.Revision(), "reflectors", p.Reflectors, "strategy", string(p.Strategy),
		"max_retries", p.Retries(), "initial_backoff", p.InitialBackoff.Duration(), "max_backoff", p.MaxBackoff.Duration(), "jitter", p.Jitter)
}

// see starts the watches of tools and policies and returns when all of both is
// known, since without it decisions would be wrong; false when ctx was done first.
func (r *Reflector) see(ctx context.Context, watches *sync.WaitGroup) bool {
	for bucket, apply := range map[messages.Bucket]func(messages.Entry){
		messages.BucketTools: r.registry.apply, messages.BucketControl: r.deciders.book.Apply,
	} {
		seen := make(chan struct{})
		watches.Go(func() { r.watch(ctx, bucket, sync.OnceFunc(func() { close(seen) }), apply) })
		select {
		case <-seen:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// watch follows a bucket until ctx is done. It waits for a coordinator that
// makes the streams.
func (r *Reflector) watch(ctx context.Context, bucket messages.Bucket, ready func(), apply func(messages.Entry)) {
	var said time.Time
	for p := pauses(); ; {
		err := r.cfg.Broker.Watch(ctx, bucket, watched(bucket), ready, apply)
		if ctx.Err() != nil {
			return
		}
		if time.Since(said) >= waitingSaid {
			r.log.Warn("a bucket cannot be watched yet; waiting for the pool", "bucket", bucket, "error", err)
			said = time.Now()
		}
		if !p.Wait(ctx) {
			return
		}
	}
}

// watched is what counts of a bucket: CONTROL holds cancellations too.
func watched(bucket messages.Bucket) string {
	if bucket == messages.BucketControl {
		return messages.PolicyKey
	}
	return ">"
}

const waitingSaid = 10 * time.Second

// consume hands failures to handlers until ctx is done, and never fetches more
// than can be handled at once.
func (r *Reflector) consume(ctx context.Context) {
	slots := make(chan struct{}, r.cfg.Concurrency)
	p := pauses()
	for {
		n := take(ctx, slots)
		if n == 0 {
			return
		}
		ds, err := r.cfg.Broker.Fetch(ctx, messages.StreamRecovery, messages.ConsumerReflector, n, fetchWait)
		for range n - len(ds) {
			<-slots
		}
		for _, d := range ds {
			r.handlings.Go(func() {
				defer func() { <-slots }()
				r.handle(d)
			})
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("failures cannot be fetched", "error", err)
			r.cfg.Metrics.Trouble()
			if !p.Wait(ctx) {
				return
			}
		default:
			p = pauses()
		}
	}
}

// take waits for a free slot and takes all that are free; 0 when ctx is done.
func take(ctx context.Context, slots chan struct{}) int {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1
	for {
		select {
		case slots <- struct{}{}:
			n++
		default:
			return n
		}
	}
}

// handle brings one delivery to its decision and acks it. A delivery that
// comes to nothing is given back; whatever happens to it, the others go on.
func (r *Reflector) handle(d messages.Delivery) {
	defer r.leases.Hold(d)()
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("a failure made the reflector panic", "subject", d.Subject, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if r.decide(d) {
		if err := r.cfg.Broker.Ack(r.working, d); err != nil {
			r.log.Warn("a failure was not acked and comes again", "subject", d.Subject, "error", err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.working), time.Second)
	defer cancel()
	if err := r.cfg.Broker.Nak(ctx, d); err != nil {
		r.log.Warn("a failure was not given back and comes again after its lease", "subject", d.Subject, "error", err)
	}
}

// pauses are those between tries of what a reflector does not give up.
func pauses() *pace.Pauses { return pace.New(100*time.Millisecond, 5*time.Second) }
