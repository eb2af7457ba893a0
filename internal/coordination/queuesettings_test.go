package coordination_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func (r *rig) setQueue(change func(*messages.QueueRequest)) messages.QueueReply {
	r.t.Helper()
	req := messages.QueueRequest{Queue: "q", By: "ops"}
	change(&req)
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointQueue, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.QueueReply](raw))
}

func (r *rig) pauseQueue(paused bool) {
	r.t.Helper()
	reply := r.setQueue(func(q *messages.QueueRequest) { q.Pause = &paused })
	if reply.Error != "" || reply.Settings == nil || reply.Settings.Paused != paused {
		r.t.Fatalf("%+v", reply)
	}
}

// handed is how many calls the normal lane of the queue hands over now.
func (r *rig) handed() int {
	r.t.Helper()
	ds, err := r.admin.Fetch(r.t.Context(), messages.StreamCalls, r.names.LaneConsumer("q", messages.LaneNormal), 100, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range ds {
		if err := r.admin.Nak(r.t.Context(), d); err != nil {
			r.t.Fatal(err)
		}
	}
	return len(ds)
}

// A paused queue takes calls in and hands none over, whoever offers tools in it
// meanwhile; what waits is cancelled and expires as ever.
func TestAPausedQueueTakesInAndHandsNothingOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		r.pauseQueue(true)
		stays, cancelled := r.accept(), r.accept()
		late := r.accept(func(s *messages.Submission) { s.Deadline = time.Now().Add(time.Minute) })
		if n := r.handed(); n != 0 {
			t.Errorf("%d calls were handed over", n)
		}
		r.tool("u", messages.ReadOnly) // another worker, in the same queue
		second := r.coordinator(func(*coordination.Config) {})
		r.tool("v", messages.ReadOnly)
		if n := r.handed(); n != 0 {
			t.Errorf("%d calls were handed over after another worker and coordinator came", n)
		}
		r.cancel(messages.CancelRequest{Run: cancelled.Run, Call: cancelled.ID, By: "ops"})
		r.wantResult(cancelled, messages.Cancelled, messages.CodeCancelled)
		pass(2 * time.Minute)
		r.wantResult(late, messages.Expired, messages.CodeDeadline)
		r.pauseQueue(false)
		if n := r.handed(); n != 1 {
			t.Errorf("%d calls were handed over, want the one that is left", n)
		}
		r.wantQueued(stays, 0)
		second.stop()
	})
}

// What an operator said holds also when who heard it could not carry it out.
func TestAPauseIsCarriedOutByOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.coordinator()
		r.tool("t", messages.ReadOnly)
		first.broker.Fail(memory.OpEnsureQueue, ">", -1, errors.New("no answer"))
		r.accept()
		paused := true
		if reply := r.setQueue(func(q *messages.QueueRequest) { q.Pause = &paused }); reply.Code != messages.CodeNotStored {
			t.Fatalf("%+v", reply)
		}
		if r.handed() != 1 {
			t.Fatal("the pause was carried out by nobody, and holds")
		}
		r.coordinator(func(*coordination.Config) {}) // it finds what was said
		if n := r.handed(); n != 0 {
			t.Errorf("%d calls were handed over", n)
		}
		paused = false
		first.broker.Heal()
		r.pauseQueue(false)
		pass(time.Minute) // whatever was tried again is older
		if n := r.handed(); n != 1 {
			t.Errorf("%d calls were handed over after it was resumed", n)
		}
	})
}

func TestLimitsOfAQueueChangeWhileItIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		eight, two, none := 8, 2, 0
		if reply := r.setQueue(func(q *messages.QueueRequest) { q.InFlight, q.MaxQueued = &eight, &two }); reply.Error != "" {
			t.Fatalf("%+v", reply)
		}
		for i := range 3 {
			reply := r.send(messages.Chunk{Calls: []messages.Submission{submission()}})
			if full := len(reply.Refused) == 1 && strings.Contains(reply.Refused[0].Text, "it holds 2 of 2 calls"); full != (i == 2) {
				t.Errorf("call %d: %+v", i, reply)
			}
		}
		pass(2 * time.Second)
		if reply := r.setQueue(func(q *messages.QueueRequest) { q.MaxQueued = &none }); reply.Settings == nil || reply.Settings.InFlight != 8 {
			t.Errorf("what was not named changed: %+v", reply)
		}
		r.accept()
		if n := r.handed(); n != 2 {
			t.Errorf("%d calls of a lane were handed over, want two of eight", n)
		}
		pass(time.Minute)
		if reply := r.setQueue(func(q *messages.QueueRequest) { q.InFlight = &none }); reply.Error != "" {
			t.Fatalf("%+v", reply)
		}
		if n := r.handed(); n != 3 {
			t.Errorf("%d calls were handed over without a limit", n)
		}
	})
}

func TestAChangeOfAQueueIsRefusedWithAWayOut(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.ReadOnly)
		three := 3
		reply := r.setQueue(func(q *messages.QueueRequest) { q.Queue, q.MaxQueued = "elsewhere", &three })
		if want := "no tool of the pool is in queue 'elsewhere'; `mulligan queues`"; reply.Code != messages.CodeNotFound || !strings.Contains(reply.Error, want) {
			t.Errorf("%+v, want %q", reply, want)
		}
	})
}
