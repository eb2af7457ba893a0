package coordination_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

// many accepts n calls, in chunks.
func (r *rig) many(n int) []messages.Call {
	r.t.Helper()
	var calls []messages.Call
	for i := 0; n > 0; i++ {
		chunk := messages.Chunk{Index: i}
		for range min(n, messages.MaxChunkCalls) {
			chunk.Calls = append(chunk.Calls, submission())
		}
		n -= len(chunk.Calls)
		if reply := r.send(chunk); reply.Error != "" || len(reply.Refused) > 0 {
			r.t.Fatalf("refused: %+v", reply)
		}
		for _, s := range chunk.Calls {
			calls = append(calls, messages.Call{ID: s.Call, Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal,
				Effect: messages.Idempotent, Key: s.Call, Input: messages.Body{Inline: s.Input}})
		}
	}
	return calls
}

func TestManyShortWaitsDoNotHoldUpOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		waiting := r.many(2000)
		for _, c := range waiting {
			r.failAndDecide(c, messages.Retry(900*time.Millisecond))
		}
		synctest.Wait()
		if m.Busy() != 2000 {
			t.Fatalf("%d triggers wait", m.Busy())
		}
		other := r.accept()
		r.failAndDecide(other, messages.Fail("no"))
		synctest.Wait() // no time passes
		r.wantResult(other, messages.Failed, messages.CodeRecoveryGaveUp)
		pass(time.Second)
		for _, c := range waiting {
			r.wantQueued(c, 1)
		}
		r.wantNoTriggers()
	})
}

func TestShortWaitsBeyondTheRoomSpillToTheSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(func(c *coordination.Config) { c.ShortWaits = 10 })
		r.tool("t", messages.Idempotent)
		calls := r.many(25)
		for n := range 2 { // the room of the first waits is there for the second
			spilled := 0
			for i, c := range calls {
				calls[i] = r.wantQueued(c, n)
				r.failAndDecide(calls[i], messages.Retry(900*time.Millisecond))
			}
			synctest.Wait()
			for _, c := range calls {
				if rec := r.record(c); rec != nil && rec.State == messages.Waiting {
					spilled++
				}
			}
			if m.Busy() != 10 || spilled != 15 {
				t.Fatalf("%d wait beside their triggers, %d in the schedule", m.Busy(), spilled)
			}
			pass(time.Second)
		}
		for _, c := range calls {
			r.wantQueued(c, 2)
		}
		r.wantNoTriggers()
	})
}

func TestLongWaitsHoldNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		calls := r.many(300)
		for _, c := range calls {
			r.failAndDecide(c, messages.Retry(time.Minute))
		}
		synctest.Wait()
		if m.Busy() != 0 {
			t.Fatalf("%d triggers are held", m.Busy())
		}
		r.wantNoTriggers()
	})
}

func TestLeaseIsExtendedWhileATriggerIsTried(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator(func(c *coordination.Config) { c.Patience = time.Hour })
		r.tool("t", messages.Idempotent)
		c := r.accept()
		m.broker.Fail(memory.OpSave, ">", -1, fmt.Errorf("the broker is not there"))
		r.failAndDecide(c, messages.Retry(0))
		pass(10 * lease)
		if n := m.broker.Count(memory.OpDelivery, "RECOVERY"); n != 1 {
			t.Fatalf("the trigger was delivered %d times: its lease was not kept", n)
		}
		m.broker.Heal()
		pass(5 * time.Second)
		r.wantQueued(c, 1)
	})
}

func TestTriggerIsLetGoWhenTheBrokerFailsForLong(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		m.broker.Fail(memory.OpSave, ">", -1, fmt.Errorf("the broker is not there"))
		r.failAndDecide(c, messages.Retry(0))
		pass(2 * time.Minute)
		if n := m.broker.Count(memory.OpDelivery, "RECOVERY"); n < 3 {
			t.Fatalf("delivered %d times", n)
		}
		if n := m.broker.Count(memory.OpAck, ">"); n != 0 {
			t.Fatal("acked without effect")
		}
		m.broker.Heal()
		pass(time.Minute)
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestTriggersThatCannotEndDoNotHoldUpOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator(func(c *coordination.Config) { c.Concurrency = 2 })
		r.tool("t", messages.Idempotent)
		stuck := r.many(20)
		r.admin.SetFull(messages.StreamResults, true)
		for _, c := range stuck {
			r.failAndDecide(c, messages.Fail("no"))
		}
		synctest.Wait()
		c := r.accept()
		r.failAndDecide(c, messages.Retry(0))
		pass(500 * time.Millisecond)
		r.wantQueued(c, 1)
		r.admin.SetFull(messages.StreamResults, false)
		pass(time.Minute)
		for _, c := range stuck {
			r.wantResult(c, messages.Failed, messages.CodeRecoveryGaveUp)
		}
		r.wantNoTriggers()
	})
}

func TestStopGivesWaitingTriggersBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(900*time.Millisecond))
		synctest.Wait()
		first.stop()
		r.coordinator()
		pass(time.Second) // less than a lease
		r.wantQueued(c, 1)
		r.wantNoTriggers()
	})
}

func TestStopBeforeStartAndTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := must(coordination.New(r.config("c")))
		for range 2 {
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		m := r.coordinator()
		m.stop()
		m.stop()
	})
}

func TestUnreadableTriggers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		c, d := r.accept(), r.accept()
		r.fail(c)
		r.put(messages.Message{Subject: r.names.DecisionSubject(c.Run, c.ID, 0), Body: []byte(`{"version":"9"}`)})
		r.put(messages.Message{Subject: r.names.FailureSubject(d.Run, d.ID, 0), Body: []byte(`{"version":"9"}`)})
		r.decide(d, messages.Retry(0))
		pass(3 * lease)
		if r.result(c) != nil || r.result(d) != nil {
			t.Fatal("a coordinator of a newer version was not waited for")
		}
		pass(time.Minute)
		r.wantResult(c, messages.Failed, messages.CodeNotAnalysed)
		r.wantResult(d, messages.StatusUnknown, messages.CodeAmbiguous) // nothing can be said of it
		r.wantNoTriggers()
	})
}
