package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mulligan/internal/lifecycle"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Worker serves tools until it is stopped. Start it once; see
// [lifecycle.Service] for Start, Started, Stop, Stopped and Run. Started means
// that the tools are offered and cancels are heard.
//
// Stop gives back what has not begun, lets running tools end for DrainTimeout,
// stops the rest, publishes what it can within FlushTimeout, and withdraws the
// offer.
type Worker struct {
	*lifecycle.Service

	cfg      Config
	names    messages.Pool
	broker   Broker
	log      *slog.Logger
	serving  atomic.Pointer[served]
	queues   []string
	leases   *leases
	cancels  *cancels
	breakers *breakers
	registry *registry
	choose   func(queues []string) chooser
	counts   counts
	handOns  handOns
	hooks    *hooks
	lobby    chan struct{} // calls of tools that are not here, waiting without a slot
	freed    chan struct{} // a slot became free
	hands    chan *lease   // to goroutines that have no call
	idle     atomic.Int32  // how many these are; at most one for each call that can be here
	short    atomic.Bool   // the last execution was
	storing  atomic.Int32  // calls without a slot whose results are being stored

	handlings sync.WaitGroup
	draining  context.Context // done when nothing may begin any more
	working   context.Context // tools run under it
	flushing  context.Context // outcomes are published under it
}

// lobbySize is how many calls of tools that are not here may wait without a slot.
const lobbySize = 1024

// New makes a worker; it does nothing before Start.
func New(cfg Config) (*Worker, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, names: cfg.Broker.Names(), broker: cfg.Broker, log: cfg.Log.With("worker", cfg.Name),
		cancels: newCancels(), breakers: newBreakers(), registry: newRegistry(cfg.Broker),
		choose: func(queues []string) chooser { return newLanes(queues) },
		lobby:  make(chan struct{}, lobbySize), freed: make(chan struct{}, cfg.Slots),
		hands: make(chan *lease),
	}
	var err error
	if w.hooks, err = newHooks(cfg, w.log); err != nil {
		return nil, err
	}
	w.leases = newLeases(cfg.Broker, cfg.Lease, func(d messages.Delivery, err error) {
		w.log.Warn("a lease was not extended", "subject", d.Subject, "error", err)
	})
	for _, t := range cfg.Tools {
		w.addQueue(t.Spec().Queue)
	}
	if cfg.Live != nil {
		w.addQueue(cfg.Live.Queue())
	}
	w.serving.Store(newServed(cfg.Tools))
	w.Service = lifecycle.New(w.run)
	return w, nil
}

func (w *Worker) addQueue(q string) {
	if !slices.Contains(w.queues, q) {
		w.queues = append(w.queues, q)
	}
}

// Name is what stories and results call this worker.
func (w *Worker) Name() string { return w.cfg.Name }

func (w *Worker) run(ctx context.Context, started func()) error {
	flushing, endFlush := context.WithCancelCause(context.WithoutCancel(ctx))
	working, endWork := context.WithCancelCause(flushing)
	defer endWork(lifecycle.ErrStopping)
	w.draining, w.working, w.flushing = ctx, working, flushing

	var background sync.WaitGroup
	defer background.Wait()
	defer endFlush(lifecycle.ErrStopping) // before the wait
	background.Go(func() { w.leases.keep(flushing) })
	heard := make(chan struct{})
	background.Go(func() { w.listen(flushing, sync.OnceFunc(func() { close(heard) })) })

	offering, err := w.begin(ctx)
	if err != nil {
		return err
	}
	select {
	case <-heard:
	case <-ctx.Done():
		w.withdraw(flushing)
		return context.Cause(ctx)
	}
	background.Go(func() { offering(ctx) })
	background.Go(func() { w.hooks.tell(flushing) })
	started()
	newFetching(w).run(ctx)
	w.drain(endWork, endFlush)
	w.hooks.finish(w.cfg.FlushTimeout)
	w.withdraw(context.WithoutCancel(ctx))
	return context.Cause(ctx)
}

// drain waits for what has begun: first for the tools, then for their outcomes.
func (w *Worker) drain(endWork, endFlush context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		w.handlings.Wait()
		close(done)
	}()
	if !within(done, w.cfg.DrainTimeout) {
		w.log.Warn("the drain ran into its time-out; what still runs is stopped", "after", w.cfg.DrainTimeout)
		endWork(&tool.Stop{Code: messages.CodeDrained, Reason: "was stopped: its worker shut down before it was done"})
		if !within(done, w.cfg.Grace+w.cfg.FlushTimeout) {
			w.log.Error("outcomes were not published in time; their calls are handed out again after their lease")
			endFlush(lifecycle.ErrStopping)
			<-done
		}
	}
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// listen hears of cancels, of breakers and of the pool's hooks, until ctx is done.
func (w *Worker) listen(ctx context.Context, ready func()) {
	hear := func(e messages.Entry) {
		w.cancels.apply(e)
		w.breakers.apply(e)
		w.hooks.apply(e)
	}
	for p := pauses(); ; {
		err := w.broker.Watch(ctx, messages.BucketControl, ">", ready, hear)
		if ctx.Err() != nil {
			return
		}
		w.log.Warn("cancels are not heard; watching again", "error", err)
		if !p.Wait(ctx) {
			return
		}
	}
}
