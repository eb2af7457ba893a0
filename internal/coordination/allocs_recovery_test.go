//go:build !race

// The race detector allocates as well.

package coordination

import (
	"context"
	"strings"
	"testing"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// mostRecoveryAllocs is what the first decision on a call of 1 KiB may allocate
// in a coordinator, from the delivery to the next dispatch and the ack, without
// what the broker's connection takes: 108 as measured, and a little for other
// versions of Go.
const mostRecoveryAllocs = 115

// failedOnce is a pool with one call that failed, which takes what is written
// and keeps none of it.
type failedOnce struct {
	*memory.Broker
	failure messages.Message
	saved   int
}

func (f *failedOnce) Find(context.Context, string) (messages.Stored, error) {
	return messages.Stored{Message: f.failure, Sequence: 1, Time: time.Now()}, nil
}

func (f *failedOnce) Get(context.Context, string) (messages.Stored, error) {
	return messages.Stored{}, messages.ErrNotFound
}

func (f *failedOnce) Save(context.Context, messages.Bucket, string, []byte, uint64, time.Duration) (uint64, error) {
	f.saved++
	return 1, nil
}

func (f *failedOnce) Publish(context.Context, messages.Message) error { return nil }
func (f *failedOnce) Ack(context.Context, messages.Delivery) error    { return nil }

func TestAllocationsOfACallThatFailsOnce(t *testing.T) {
	broker := &failedOnce{Broker: memory.New(memory.Config{})}
	c, err := New(Config{Broker: broker, Name: "c", MaxQueued: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-c.Started()
	id := messages.NewCallID()
	call := messages.Call{ID: id, Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Idempotent, Key: id}
	input := []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	broker.failure, err = c.names.EncodeFailure(messages.Failure{Call: call, Input: messages.Body{Inline: input}, Output: messages.Text("error 503"), Error: "error 503",
		Code: messages.CodeToolError, Executed: true, At: time.Now().UTC()})
	if err != nil {
		t.Fatal(err)
	}
	decision, err := c.names.EncodeDecision(messages.Decision{Call: id, Run: call.Run, Action: messages.Retry(0), By: "rules", MaxRetries: 3,
		Analysis: &messages.FailureAnalysis{IsRecoverable: true, RootCause: "the service is away", Severity: messages.Medium}})
	if err != nil {
		t.Fatal(err)
	}
	before := broker.saved
	k := c.kinds()[0]
	n := testing.AllocsPerRun(200, func() {
		k.slots.fresh <- struct{}{}
		c.work(k, messages.Delivery{Stored: messages.Stored{Message: decision, Time: time.Now()}, Delivery: 1, Fetched: time.Now()})
	})
	if broker.saved-before != 201 {
		t.Fatalf("%d records were written", broker.saved-before)
	}
	if n > mostRecoveryAllocs {
		t.Errorf("%.1f allocations a decision, the gate is at %d", n, mostRecoveryAllocs)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
