package jetstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// A follower whose consumer is taken away makes another and misses nothing.
func TestFollowOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	got := make(chan messages.Stored, 10)
	background(t, func(ctx context.Context) error {
		return p.Follow(ctx, messages.StreamResults, nil, 1, func(m messages.Stored) { got <- m })
	})
	_, js := raw(t, s)
	for i := range 3 {
		mustPut(t, p, result(p, "r", fmt.Sprint(i)))
		if m := next(t, "a result", got); string(m.Body) != fmt.Sprint(i) {
			t.Fatalf("got %q, want %d", m.Body, i)
		}
		stream, err := js.Stream(t.Context(), "MULLIGAN_RESULTS")
		if err != nil {
			t.Fatal(err)
		}
		for name := range stream.ConsumerNames(t.Context()).Name() {
			if err := stream.DeleteConsumer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A reading leaves no consumer behind.
func TestReadingsRemoveTheirConsumers(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	ready := make(chan struct{})
	stop := background(t, func(ctx context.Context) error {
		return p.Watch(ctx, messages.BucketTools, ">", func() { close(ready) }, func(messages.Entry) {})
	})
	next(t, "ready", ready)
	_, js := raw(t, s)
	count := func() int {
		stream, err := js.Stream(t.Context(), "KV_MULLIGAN_TOOLS")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Consumers
	}
	if n := count(); n != 1 {
		t.Fatalf("%d consumers while it watches", n)
	}
	_ = stop()
	if n := count(); n != 0 {
		t.Errorf("%d consumers afterwards", n)
	}
}

func TestFollowOfNoStream(t *testing.T) {
	t.Parallel()
	p := natstest.Connect(t, natstest.Server(t), jetstream.Config{})
	err := p.Follow(t.Context(), messages.StreamResults, nil, 1, func(messages.Stored) {})
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("got %v", err)
	}
}

// A consumer that falls silent is given up: a broker that sends neither
// messages nor heartbeats is what restarts have been seen to leave behind.
func TestFollowGivesASilentConsumerUp(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	made := make(chan string, 10)
	fake := map[string]nats.MsgHandler{
		"$JS.API.CONSUMER.CREATE.>": func(m *nats.Msg) {
			made <- m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
			_ = m.Respond([]byte(`{"name":"x","num_pending":1}`))
		},
		"$JS.API.CONSUMER.DELETE.>":   func(m *nats.Msg) { _ = m.Respond([]byte(`{"success":true}`)) },
		"$JS.API.CONSUMER.MSG.NEXT.>": func(*nats.Msg) {}, // neither a message nor a heartbeat
	}
	for subject, handle := range fake {
		if _, err := nc.Subscribe(subject, handle); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := jetstream.Connect(t.Context(), jetstream.Config{URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	background(t, func(ctx context.Context) error {
		return p.Follow(ctx, messages.StreamResults, nil, 1, func(messages.Stored) {})
	})
	first := next(t, "the first consumer", made)
	begin := time.Now()
	if second := next(t, "the second consumer", made); second == first {
		t.Error("it is the same consumer")
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("it gave up after %v already", took)
	}
}
