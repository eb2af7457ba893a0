package coordination_test

import (
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// A repetition that comes too late ends as its first copy would, which may
// still be on its way; to refuse it would deny a call that gets a result.
func TestP7_11_ARepetitionThatComesTooLateIsNotRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		ended := r.accept()
		r.exhaust(ended)
		late := submission(func(s *messages.Submission) { s.Deadline = time.Now().Add(-time.Second); s.Run = "another" })
		over := submission(func(s *messages.Submission) { s.Run = ended.Run.Name() })
		if reply := r.send(messages.Chunk{Calls: []messages.Submission{late, over}}); len(reply.Refused) != 2 {
			t.Fatalf("first copies that come too late: %+v", reply.Refused)
		}
		if reply := r.send(messages.Chunk{Repeat: true, Calls: []messages.Submission{late, over}}); len(reply.Refused) > 0 {
			t.Fatalf("repetitions that come too late: %+v", reply.Refused)
		}
		pass(time.Minute)
		r.wantResult(messages.Call{ID: late.Call, Run: messages.NamedRun("another")}, messages.Expired, messages.CodeDeadline)
		r.wantResult(messages.Call{ID: over.Call, Run: ended.Run}, messages.Cancelled, messages.CodeRunEnded)
	})
}
