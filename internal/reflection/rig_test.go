package reflection_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/memory"
	"mulligan/internal/reflection"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 6 * time.Second

// rig is a pool in memory with a clock of its own.
type rig struct {
	*testing.T
	pool  *memory.Broker
	names messages.Pool
	run   messages.Run
}

func bubble(t *testing.T, do func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Lease: lease})
		do(&rig{T: t, pool: b, names: b.Names(), run: messages.NamedRun("r")})
	})
}

// start runs a reflector on a connection of its own, until the test ends.
func (r *rig) start(change func(*reflection.Config)) (*reflection.Reflector, *memory.Broker) {
	r.Helper()
	b := r.pool.Peer()
	cfg := reflection.Config{Broker: b, Name: "reflector-1", Lease: lease, Random: func() float64 { return 0 }}
	if change != nil {
		change(&cfg)
	}
	s, err := reflection.New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	if err := s.Start(context.WithoutCancel(r.Context())); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(r.Context())); err != nil {
			r.Error(err)
		}
	})
	synctest.Wait()
	return s, b
}

// pass lets time go by, a moment more than d, until all stand still.
func (r *rig) pass(d time.Duration) {
	<-time.After(d + time.Millisecond)
	synctest.Wait()
}

// failed stores a failure and returns its call.
func (r *rig) failed(change func(*messages.Failure)) messages.Call {
	r.Helper()
	f := messages.Failure{
		Call:  messages.Call{ID: messages.NewCallID(), Run: r.run, Tool: "tool", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: "k"},
		Input: messages.Text(`{"a":1}`), Output: messages.Text("no"), Error: "no", Code: messages.CodeToolError, Executed: true, At: time.Now(),
	}
	if change != nil {
		change(&f)
	}
	m, err := r.names.EncodeFailure(f)
	if err != nil {
		r.Fatal(err)
	}
	r.put(m)
	return f.Call
}

func (r *rig) put(m messages.Message) {
	r.Helper()
	if winner, err := r.pool.PutOnce(r.Context(), m); err != nil || winner != nil {
		r.Fatal(winner, err)
	}
}

// decision waits until all stand still and reads what was decided.
func (r *rig) decision(c messages.Call) messages.Decision {
	r.Helper()
	d, ok := r.decided(c)
	if !ok {
		r.Fatalf("no decision on dispatch %d of %s", c.Dispatch, c.ID)
	}
	return d
}

func (r *rig) decided(c messages.Call) (messages.Decision, bool) {
	r.Helper()
	synctest.Wait()
	m, err := r.pool.Get(r.Context(), r.names.DecisionSubject(c.Run, c.ID, c.Dispatch))
	if errors.Is(err, messages.ErrNotFound) {
		return messages.Decision{}, false
	}
	if err != nil {
		r.Fatal(err)
	}
	d, err := messages.DecodeDecision(m.Body)
	if err != nil {
		r.Fatal(err)
	}
	return d, true
}

// unacked is how many failures are held by reflectors or have yet to be.
func (r *rig) unacked() int {
	r.Helper()
	synctest.Wait()
	waiting, unacked, err := r.pool.Backlog(r.Context(), messages.StreamRecovery, messages.ConsumerReflector)
	if err != nil {
		r.Fatal(err)
	}
	return waiting + unacked
}

func (r *rig) offer(specs ...messages.ToolSpec) {
	r.Helper()
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		r.save(messages.ToolKey(s.Name), messages.Tool{Spec: s})
	}
	r.save(messages.OfferKey("w"), messages.Offer{Worker: "w", Tools: names})
	synctest.Wait()
}

func (r *rig) save(key string, v any) {
	r.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		r.Fatal(err)
	}
	if err := r.pool.Put(r.Context(), messages.BucketTools, key, b, 0); err != nil {
		r.Fatal(err)
	}
}

// reflector is one made of a function.
type reflector func(ctx context.Context, c recovery.Case) (recovery.Reflection, error)

func (f reflector) Analyse(ctx context.Context, c recovery.Case) (recovery.Reflection, error) {
	return f(ctx, c)
}

func with(f reflector) func(*reflection.Config) {
	return func(c *reflection.Config) { c.Reflector = f }
}

func answer() recovery.Reflection {
	return recovery.Reflection{By: "test", FailureAnalysis: messages.FailureAnalysis{IsRecoverable: true, RootCause: "cause", Severity: messages.Low}}
}
