package porttest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/memory"
	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

var (
	_ Broker = (*jetstream.Pool)(nil)
	_ Broker = (*memory.Broker)(nil)
)

// controlAge is that of CONTROL, short enough to be waited for.
const controlAge = time.Second

func inMemory() Suite {
	return Suite{
		Open: func(*testing.T) Broker {
			return memory.New(memory.Config{Lease: Lease, QueueLimits: map[string]int{"limited": 4}, CancelTTL: controlAge})
		},
		Fill: func(_ *testing.T, b Broker, s messages.Stream) func() {
			m := b.(*memory.Broker)
			m.SetFull(s, true)
			return func() { m.SetFull(s, false) }
		},
		Around: synctest.Test,
	}
}

// onJetStream runs on one server, with a pool of its own for each test whose
// streams are small enough to be filled.
func onJetStream(t *testing.T) Suite {
	server := natstest.Server(t)
	var pools atomic.Int32
	return Suite{
		Open: func(t *testing.T) Broker {
			p := natstest.Connect(t, server, jetstream.Config{
				Prefix: fmt.Sprintf("p%d", pools.Add(1)), Lease: Lease, QueueLimits: map[string]int{"limited": 4},
			})
			cfg := jetstream.TopologyConfig{CallsBytes: 8 << 20, ResultsBytes: 8 << 20, DeadlineLimit: controlAge, CancelTTL: controlAge}
			if err := p.Provision(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			return p
		},
		Fill: fillWithLargeMessages,
	}
}

// fillWithLargeMessages publishes to another run until the stream refuses
// even a small message.
func fillWithLargeMessages(t *testing.T, b Broker, s messages.Stream) (release func()) {
	n := b.Names()
	run := messages.NamedRun("filler")
	subject, filter := n.ResultSubject, n.ResultsFilter(run)
	if s == messages.StreamCalls {
		subject = func(r messages.Run, call string) string { return n.CallSubject("q-fill", messages.LaneLow, r, call, 0) }
		filter = n.RunCallsFilter(run)
	}
	size := 512 << 10
	for i := 0; size > 0; i++ {
		m := messages.Message{Subject: subject(run, fmt.Sprintf("filler-%d", i)), Body: make([]byte, size)}
		if err := b.Publish(t.Context(), m); err != nil {
			size /= 2
		}
	}
	return func() {
		if err := b.Purge(t.Context(), filter); err != nil {
			t.Error(err)
		}
	}
}

func TestMemory(t *testing.T)    { Run(t, inMemory()) }
func TestJetStream(t *testing.T) { Run(t, onJetStream(t)) }

// onBoth runs one test of a protocol row on both brokers.
func onBoth(t *testing.T, f func(e *Env)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { inMemory().One(t, f) })
	t.Run("jetstream", func(t *testing.T) { onJetStream(t).One(t, f) })
}

func TestP7_03_ScheduleNamesDispatchAndWait(t *testing.T) { onBoth(t, ScheduleOfItsOwn) }

func TestP7_04_FullStreamIsNotAWinner(t *testing.T) { onBoth(t, PutOnceFull) }

func TestP7_06_FullQueueIsNotAlreadyThere(t *testing.T) { onBoth(t, PublishFull) }

func TestP7_14_SecondStartIsRefusedNotSwallowed(t *testing.T) { onBoth(t, PutOnceWithoutMsgID) }

func TestP7_24_RecordEndsByItself(t *testing.T) { onBoth(t, TTLOnExistingKey) }
