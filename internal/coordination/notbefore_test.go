package coordination_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
)

func later(d time.Duration) func(*messages.Submission) {
	return func(s *messages.Submission) { s.After = messages.Millis(d) }
}

// later submits one call that is to wait, and gives it with its record.
func (r *rig) later(change ...func(*messages.Submission)) (messages.Submission, messages.Call, messages.Record) {
	r.t.Helper()
	s := submission(change...)
	if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); reply.Error != "" || len(reply.Refused) > 0 {
		r.t.Fatalf("%+v", reply)
	}
	c := messages.Call{ID: s.Call, Run: messages.NamedRun("r")}
	return s, c, r.putOff(c)
}

// A call for later is a record and a schedule, and holds nothing; when its time
// has come it goes out as its first dispatch, whoever is there by then.
func TestACallForLaterWaitsHoldingNothing(t *testing.T) {
	for name, change := range map[string]func(*messages.Submission){
		"after_ms":   later(time.Hour),
		"not_before": func(s *messages.Submission) { s.NotBefore = time.Now().Add(time.Hour) },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			m := r.coordinator()
			r.tool("t", messages.Unsafe)
			_, c, rec := r.later(change)
			if rec.N != 0 || rec.Spent != 0 || rec.DueReason != "it was submitted for then" {
				t.Errorf("%s: %+v", name, rec)
			}
			if n := m.Busy(); n != 0 {
				t.Errorf("%s: the coordinator holds %d triggers", name, n)
			}
			pass(59 * time.Minute)
			if _, queued := r.queued(c.Run, c.ID); queued {
				t.Errorf("%s: it went out early", name)
			}
			m.stop()
			r.coordinator()
			pass(2 * time.Minute)
			q := r.wantQueued(c, 0)
			if q.Attempt != 0 || q.TravelLane() != messages.LaneNormal {
				t.Errorf("%s: %+v", name, q)
			}
			r.runSucceeds(q, 0)
			if res := r.wantResult(c, messages.Succeeded, ""); res.Attempts != 1 {
				t.Errorf("%s: %+v", name, res)
			}
			r.wantNoTriggers()
		})
	}
}

// Sent again it is still one call, before and after its time.
func TestP7_11_ACallForLaterSentAgainIsOneCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		s, c, first := r.later(func(s *messages.Submission) { s.NotBefore = time.Now().Add(30 * time.Second) })
		again := messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}
		pass(10 * time.Second)
		r.send(again)
		if rec := r.putOff(c); !rec.DueAt.Equal(first.DueAt) || rec.W != first.W {
			t.Errorf("put off again: %+v", rec)
		}
		pass(25 * time.Second)
		q := r.wantQueued(c, 0)
		r.runSucceeds(q, 0)
		m.broker.ResetCounts()
		r.send(again)
		if n := m.broker.Count(memory.OpPublish, r.names.CallFilter(c.Run, c.ID)); n != 0 {
			t.Errorf("published %d times after its end", n)
		}
		if _, queued := r.queued(c.Run, c.ID); queued {
			t.Error("it is queued after its end")
		}
		r.wantNoTriggers()
	})
}

func TestS5_1_ACallForLaterExpiresOrIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Unsafe)
		_, cancelled, _ := r.later(later(time.Hour))
		r.cancel(messages.CancelRequest{Run: cancelled.Run, Call: cancelled.ID, By: "ops"})
		r.wantResult(cancelled, messages.Cancelled, messages.CodeCancelled)

		// Nobody serves the tool when its time has come, and then its deadline.
		_, late, _ := r.later(later(time.Hour), func(s *messages.Submission) { s.Deadline = time.Now().Add(2 * time.Hour) })
		pass(90 * time.Minute)
		r.wantQueued(late, 0)
		pass(time.Hour)
		r.wantResult(late, messages.Expired, messages.CodeDeadline)
		r.wantNoTriggers()
	})
}

// What could not be scheduled is not accepted, and is when it is sent again.
func TestACallForLaterWithoutItsScheduleIsNotAccepted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		m.broker.Fail(memory.OpSchedule, ">", 1, errors.New("no answer"))
		s := submission(later(time.Minute))
		reply := r.send(messages.Chunk{Calls: []messages.Submission{s}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeNotStored {
			t.Fatalf("%+v", reply)
		}
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}, Repeat: true}); len(reply.Refused) > 0 {
			t.Fatalf("%+v", reply)
		}
		pass(2 * time.Minute)
		r.wantQueued(messages.Call{ID: s.Call, Run: messages.NamedRun("r")}, 0)
	})
}

func TestACallForLaterIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		for want, change := range map[string]func(*messages.Submission){
			"it may wait for 168h0m0s":   later(8 * 24 * time.Hour),
			"it could only expire":       func(s *messages.Submission) { later(time.Hour)(s); s.Deadline = time.Now().Add(time.Hour) },
			"both not_before and after_": func(s *messages.Submission) { later(time.Hour)(s); s.NotBefore = time.Now() },
		} {
			reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(change)}})
			if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeBadCall || !strings.Contains(reply.Refused[0].Text, want) {
				t.Errorf("%s: %+v", want, reply)
			}
		}
		past := submission(func(s *messages.Submission) { s.NotBefore = time.Now().Add(-time.Hour) })
		r.send(messages.Chunk{Calls: []messages.Submission{past}})
		r.wantQueued(messages.Call{ID: past.Call, Run: messages.NamedRun("r")}, 0)
	})
}
