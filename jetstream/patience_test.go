package jetstream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// A service that makes the streams outlasts a broker that goes away while it
// does, and ends with what no waiting mends.
func TestProvisionPatiently(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{Timeout: time.Second})
	s.down()
	done := make(chan error, 1)
	go func() { done <- p.ProvisionPatiently(t.Context(), jetstream.TopologyConfig{}) }()
	s.up()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not go on when the broker is back")
	}
	if _, err := p.LastSequence(t.Context(), messages.StreamSchedule); err != nil {
		t.Error(err)
	}
	s.down()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if err := p.ProvisionPatiently(ctx, jetstream.TopologyConfig{}); !errors.Is(err, errStopped) {
		t.Errorf("stopped while it waits: %v", err)
	}
	s.up()
}

func TestProvisionPatientlyEndsWithWhatStays(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	_, js := raw(t, s)
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "MULLIGAN_CALLS", Subjects: []string{"elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	p := natstest.Connect(t, s, jetstream.Config{})
	if err := p.ProvisionPatiently(t.Context(), jetstream.TopologyConfig{}); !errors.Is(err, jetstream.ErrForeignStream) {
		t.Errorf("on a stream of somebody else: %v", err)
	}
	p.Close()
	if err := p.ProvisionPatiently(t.Context(), jetstream.TopologyConfig{}); err == nil {
		t.Error("it went on with a closed connection")
	}
	if err := p.Over(t.Context()); err == nil {
		t.Error("a closed connection is not over")
	}
}
