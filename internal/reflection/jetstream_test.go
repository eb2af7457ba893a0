package reflection_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/natstest"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

var (
	_ reflection.Broker = (*jetstream.Pool)(nil)
	_ reflection.Broker = (*memory.Broker)(nil)
)

// The same as in memory, once on a server: failures come in, each gets one
// decision, and nothing is left to be delivered.
func TestOnJetStream(t *testing.T) {
	const lease = time.Minute // nothing comes twice
	server := natstest.Server(t)
	pool := natstest.Connect(t, server, jetstream.Config{Prefix: "reflect", Lease: lease})
	if err := pool.Provision(t.Context(), jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	decided := make(chan string, 100)
	for _, name := range []string{"a", "b"} {
		s, err := reflection.New(reflection.Config{
			Broker: natstest.Connect(t, server, jetstream.Config{Prefix: "reflect", Lease: lease}), Name: name, Lease: lease,
			Metrics: reflection.Metrics{Decided: func(_, rule string, _ messages.ActionType) { decided <- rule }},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		<-s.Started()
	}
	run := messages.NamedRun("r")
	var calls []string
	for range 50 {
		f := messages.Failure{
			Call:  messages.Call{ID: messages.NewCallID(), Run: run, Tool: "tool", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: "k"},
			Input: messages.Text(`{"a":1}`), Output: messages.Text("HTTP error 503"), Error: "HTTP error 503", Code: messages.CodeToolError, Executed: true, At: time.Now(),
		}
		m, err := pool.Names().EncodeFailure(f)
		if err != nil {
			t.Fatal(err)
		}
		if winner, err := pool.PutOnce(t.Context(), m); err != nil || winner != nil {
			t.Fatal(winner, err)
		}
		calls = append(calls, f.Call.ID)
	}
	for range calls {
		if rule := <-decided; rule != "server-error" {
			t.Errorf("rule %s", rule)
		}
	}
	for _, id := range calls {
		m, err := pool.Get(t.Context(), pool.Names().DecisionSubject(run, id, 0))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := messages.DecodeDecision(m.Body); err != nil || d.Action.Type != messages.ActRetry {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if _, err := pool.Get(t.Context(), pool.Names().DecisionSubject(run, messages.NewCallID(), 0)); !errors.Is(err, messages.ErrNotFound) {
		t.Error(err)
	}
}
