package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mulligan/internal/freeport"
	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// clustered gives a pool with three copies of everything, on three brokers.
func clustered(t *testing.T) *jetstream.Pool {
	t.Helper()
	var routes, urls []string
	ports := make([]int, 3)
	for i := range ports {
		ports[i] = freeport.Get(t)
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	for i, port := range ports {
		s := natstest.ServerWith(t, embedded.Config{Name: fmt.Sprintf("n%d", i), Token: "t", RoutePort: port, Routes: routes})
		urls = append(urls, s.ClientURL())
	}
	connect := func(request time.Duration) *jetstream.Pool {
		p, err := jetstream.Connect(t.Context(), jetstream.Config{URL: strings.Join(urls, ","), Token: "t", Lease: time.Hour, Timeout: request})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	first := connect(time.Second) // without a leader a request has no answer
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	if err := first.ProvisionPatiently(ctx, jetstream.TopologyConfig{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	p := connect(10 * time.Second)
	for again := time.Tick(100 * time.Millisecond); ; <-again { // a leader may change meanwhile
		err := p.EnsureQueue(ctx, "q")
		if err == nil {
			return p
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// A replicated consumer hands over after a quorum, and may have said before
// that the pull is complete: what comes then is not lost. Leases last an hour
// here, so that nothing lost comes again.
func TestFetchFromAReplicatedConsumerLosesNothing(t *testing.T) {
	t.Parallel()
	p := clustered(t)
	const calls = 640
	ms := make([]messages.Message, calls)
	run := messages.UnnamedRun("00000000-0000-7000-8000-000000000000")
	for i := range ms {
		ms[i] = messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, run, messages.NewCallID(), 0)}
	}
	if err := errors.Join(p.PublishAll(t.Context(), ms)...); err != nil {
		t.Fatal(err)
	}
	lane, got := p.Names().LaneConsumer("q", messages.LaneNormal), 0
	for empty := 0; got < calls && empty < 20; {
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 64, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			empty++
		}
		for _, d := range ds {
			got++
			if err := p.Ack(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got != calls {
		waiting, unacked, err := p.Backlog(t.Context(), messages.StreamCalls, lane)
		t.Errorf("%d of %d came; %d wait, %d are in nobody's hands, %v", got, calls, waiting, unacked, err)
	}
}
