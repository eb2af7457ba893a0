package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"mulligan/internal/lifecycle"
	"mulligan/pkg/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func untilDone(ctx context.Context, started func()) error {
	started()
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestStopEndsAStartedServiceWithoutError(t *testing.T) {
	s := lifecycle.New(untilDone)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Started()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Stopped()
	if err := s.Start(t.Context()); !errors.Is(err, lifecycle.ErrStarted) {
		t.Fatalf("second Start: %v", err)
	}
}

func TestStopBeforeStartMakesStartDoNothing(t *testing.T) {
	ran := false
	s := lifecycle.New(func(context.Context, func()) error { ran = true; return nil })
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Stopped()
	if ran {
		t.Fatal("ran after Stop")
	}
}

func TestRunReturnsTheErrorOfTheService(t *testing.T) {
	boom := errors.New("boom")
	s := lifecycle.New(func(context.Context, func()) error { return boom })
	if err := s.Run(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if err := s.Stop(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("Stop after the end: %v", err)
	}
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	release := make(chan struct{})
	s := lifecycle.New(func(context.Context, func()) error { <-release; return nil })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	why := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := s.Stop(ctx); !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
	close(release)
	<-s.Stopped()
}

func TestConcurrentStartsAndStops(t *testing.T) {
	for range 200 {
		s := lifecycle.New(untilDone)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _ = s.Start(context.WithoutCancel(t.Context())) })
			wg.Go(func() { _ = s.Stop(t.Context()) })
		}
		wg.Wait()
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-s.Stopped()
	}
}

func TestNewNamesAreUniqueAndUsable(t *testing.T) {
	a, b := lifecycle.NewName(), lifecycle.NewName()
	if a == b {
		t.Errorf("two services are called %s", a)
	}
	if err := messages.CheckName("name", a, messages.MaxName); err != nil {
		t.Error(err)
	}
}
