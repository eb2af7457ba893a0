// Package lifecycle gives every long-lived part of Mulligan the same life:
// Start, Started, Stop, Stopped. Embed a *Service, or hold one.
package lifecycle

import (
	"context"
	"errors"
	"sync"
)

// ErrStopping is the cause of the context of a service that was told to stop.
var ErrStopping = errors.New("stopping")

// ErrStarted says that Start was called a second time.
var ErrStarted = errors.New("already started")

// Service runs one function until it is told to stop. All methods may be
// called concurrently and in any order.
type Service struct {
	run func(ctx context.Context, started func()) error

	started chan struct{}
	stopped chan struct{}
	once    sync.Once // closes started

	mu     sync.Mutex
	cancel context.CancelCauseFunc // set by Start
	ended  bool                    // Stop came before Start, or run returned
	err    error                   // of run; set before stopped is closed
}

// New makes a service of run. Run calls started once it does its work, and
// returns after its context is done and everything that it owns has ended.
func New(run func(ctx context.Context, started func()) error) *Service {
	return &Service{run: run, started: make(chan struct{}), stopped: make(chan struct{})}
}

// Start begins to run in a goroutine of its own and returns. The service stops
// when Stop is called or ctx is done. After a Stop it does nothing; a second
// call returns ErrStarted.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return ErrStarted
	}
	if s.ended {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	go func() {
		err := s.run(ctx, s.markStarted)
		cancel(ErrStopping)
		if errors.Is(err, ErrStopping) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil
		}
		s.finish(err)
	}()
	return nil
}

func (s *Service) markStarted() { s.once.Do(func() { close(s.started) }) }

func (s *Service) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.ended = true
	close(s.stopped)
}

// Started is closed when the service does its work. It stays open when the
// service ends before that; wait for Stopped beside it.
func (s *Service) Started() <-chan struct{} { return s.started }

// Stop asks the service to end and waits until it has, or ctx is done; then it
// returns the cause of ctx. It may be called often, and before Start.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	if s.cancel == nil {
		if !s.ended {
			s.ended = true
			close(s.stopped)
		}
		s.mu.Unlock()
		return nil
	}
	s.cancel(ErrStopping)
	s.mu.Unlock()
	select {
	case <-s.stopped:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stopped is closed when the service has ended; then Err says why.
func (s *Service) Stopped() <-chan struct{} { return s.stopped }

// Err is the error that the service ended with; nil before, and after a stop.
func (s *Service) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Run starts the service and waits for its end, by itself or by ctx.
func (s *Service) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	<-s.stopped
	return s.Err()
}
