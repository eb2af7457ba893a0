package coordination

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/internal/lease"
	"mulligan/internal/lifecycle"
	"mulligan/internal/metrics"
	"mulligan/internal/policies"
	"mulligan/internal/schema"
	"mulligan/pkg/messages"
)

// Coordinator takes calls in and brings those that fail to their end. Any
// number may work on one pool; none is special. Start it once; see
// [lifecycle.Service] for Start, Started, Stop, Stopped and Run. Started means
// that it answers requests and takes triggers.
//
// Stop takes nothing new, lets what is being handled end for StopTimeout, and
// gives waiting triggers back.
type Coordinator struct {
	*lifecycle.Service

	cfg     Config
	names   messages.Pool
	broker  Broker
	log     *slog.Logger
	metrics *metrics.Coordinator
	limits  dispatch.Limits

	policies *policies.Book
	registry *registry
	runs     *runs
	queues   *queues
	breakers *breakers
	store    *room
	loops    *loops
	settings *settings
	leases   *lease.Keeper
	lists    lists
	room     chan struct{} // short waits
	kept     atomic.Int64  // bytes that they keep
	large    sync.Mutex    // held while a large input is checked

	handlings sync.WaitGroup
	stopping  context.Context // done when nothing new may begin
	working   context.Context // what has begun runs under it
}

// New makes a coordinator; it does nothing before Start.
func New(cfg Config) (*Coordinator, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := cfg.Broker
	c := &Coordinator{
		cfg: cfg, names: b.Names(), broker: b, log: cfg.Log.With("coordinator", cfg.Name), metrics: cfg.Metrics, limits: cfg.limits(),
		room: make(chan struct{}, max(cfg.ShortWaits, 0)),
	}
	notes := &notes{log: c.log, metrics: c.metrics}
	var err error
	if c.policies, err = policies.NewBook(cfg.Policies, notes.noted, c.log); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	c.registry = newRegistry(b, cfg.WithdrawGrace, &schema.Cache{})
	c.runs = newRuns(b, cfg)
	c.breakers = newBreakers(c)
	c.queues = newQueues(b, c.names, cfg.MaxQueued)
	c.store = newRoom(cfg.Store, cfg.StoreLimit, cfg.Shut, c.log)
	c.loops = newLoops()
	c.settings = newSettings(c)
	c.leases = lease.New(b, cfg.Lease, c.log)
	c.Service = lifecycle.New(c.run)
	return c, nil
}

// Busy is how many triggers it holds, being handled or waiting.
func (c *Coordinator) Busy() int { return c.leases.Held() }

func (c *Coordinator) run(ctx context.Context, started func()) error {
	if c.cfg.Prepare != nil {
		if err := c.cfg.Prepare(ctx); err != nil {
			return err
		}
	}
	if err := c.placePolicies(ctx); err != nil {
		return err
	}
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stopping, c.working = ctx, working
	var background, taking sync.WaitGroup
	defer background.Wait()
	defer end(lifecycle.ErrStopping) // before the wait

	background.Go(func() { c.leases.Run(working) })
	if !c.see(ctx, &background) {
		return context.Cause(ctx)
	}
	background.Go(func() { c.settings.follow(working) })
	background.Go(func() { c.listen(working, func() {}) })
	for _, k := range c.kinds() {
		taking.Go(func() { c.consume(ctx, k) })
	}
	c.answer(ctx, &taking)
	taking.Go(func() { c.drainQueues(ctx) })
	taking.Go(func() { c.keepLists(ctx) })
	if ctx.Err() == nil {
		started()
	}
	taking.Wait()
	c.finish(end)
	return context.Cause(ctx)
}

// see starts the watches and returns when they have seen what there is; false
// when ctx was done first. They leave out what no coordinator asks for, which
// they would read at the start and remember for as long as it is kept: what
// batches hold, a key for each chunk, and what workers are told to stop.
func (c *Coordinator) see(ctx context.Context, background *sync.WaitGroup) bool {
	views := []view{
		{messages.BucketTools, ">", c.registry.apply},
		{messages.BucketRuns, messages.RunKey(">"), c.runs.apply},
		{messages.BucketControl, messages.PolicyKey, c.policies.Apply},
		{messages.BucketControl, messages.BreakerPrefix + ">", c.breakers.apply},
		{messages.BucketControl, messages.QueuePrefix + ">", c.settings.apply},
	}
	for _, v := range views {
		seen := make(chan struct{})
		background.Go(func() { c.watch(c.working, v, sync.OnceFunc(func() { close(seen) })) })
		select {
		case <-seen:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

type view struct {
	bucket messages.Bucket
	filter string // over keys
	apply  func(messages.Entry)
}

func (c *Coordinator) watch(ctx context.Context, v view, ready func()) {
	for p := pauses(); ; {
		err := c.broker.Watch(ctx, v.bucket, v.filter, ready, v.apply)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("a watch ended and begins again", "bucket", v.bucket, "error", err)
		if !p.Wait(ctx) {
			return
		}
	}
}

func (c *Coordinator) endpoints() map[string]func(context.Context, []byte) []byte {
	return map[string]func(context.Context, []byte) []byte{
		messages.EndpointSubmit:  c.submit,
		messages.EndpointOffer:   c.offer,
		messages.EndpointCancel:  c.cancel,
		messages.EndpointPolicy:  c.policy,
		messages.EndpointAnswer:  c.answerCall,
		messages.EndpointBreaker: c.breaker,
		messages.EndpointQueue:   c.queue,
		messages.EndpointRun:     c.declaration,
		messages.EndpointDelete:  c.deletion,
	}
}

// answer serves the endpoints and returns when requests to each of them find
// us, or ctx is done: whoever was told that we have started may ask at once.
func (c *Coordinator) answer(ctx context.Context, taking *sync.WaitGroup) {
	var served sync.WaitGroup
	for endpoint, handle := range c.endpoints() {
		served.Add(1)
		ready := sync.OnceFunc(served.Done)
		taking.Go(func() {
			defer ready()
			c.serve(ctx, endpoint, ready, handle)
		})
	}
	served.Wait()
}

func (c *Coordinator) serve(ctx context.Context, endpoint string, ready func(), handle func(context.Context, []byte) []byte) {
	for p := pauses(); ; {
		err := c.broker.Serve(ctx, endpoint, ready, handle)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("an endpoint ended and begins again", "endpoint", endpoint, "error", err)
		if !p.Wait(ctx) {
			return
		}
	}
}

// finish waits for what is being handled.
func (c *Coordinator) finish(end context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		c.noteLists()
		c.handlings.Wait()
		close(done)
	}()
	t := time.NewTimer(c.cfg.StopTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		c.log.Warn("triggers were not done in time; others take them after their lease", "held", c.leases.Held())
		end(lifecycle.ErrStopping)
		<-done
	}
}
