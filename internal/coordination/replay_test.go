package coordination_test

import (
	"testing"

	"mulligan/pkg/messages"
)

// A call that replays another is found from there, however often it is
// submitted; a label that holds no call id is only a label.
func TestS11_1_AReplayIsFoundFromItsOriginal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Idempotent)
		original := r.accept()
		replay := submission(func(s *messages.Submission) {
			s.Run, s.Labels = "again", messages.Labels{messages.LabelReplayOf: original.ID}
		})
		other := submission(func(s *messages.Submission) { s.Labels = messages.Labels{messages.LabelReplayOf: "nobody.>"} })
		r.send(messages.Chunk{Calls: []messages.Submission{replay, other}, By: "ann"})
		r.send(messages.Chunk{Calls: []messages.Submission{replay}, By: "ann", Repeat: true})
		found := must(r.admin.Entries(t.Context(), messages.BucketRuns, messages.ReplayKey("*", "*")))
		if len(found) != 1 {
			t.Fatalf("%d entries", len(found))
		}
		got, err := messages.DecodeReplay(found[0].Value)
		if err != nil || found[0].Key != messages.ReplayKey(original.ID, replay.Call) || got.Original != original.ID || got.Call != replay.Call ||
			got.Run != messages.NamedRun("again") || got.By != "ann" {
			t.Errorf("%s: %+v, %v", found[0].Key, got, err)
		}
	})
}

// Its submitter knows which effect a call may repeat, and gives that one's key.
func TestS7_2_ASubmitterMayGiveTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.coordinator()
		r.tool("t", messages.Keyed)
		if c := r.accept(func(s *messages.Submission) { s.Key = "order-7" }); c.Key != "order-7" {
			t.Errorf("key %q", c.Key)
		}
		if c := r.accept(); c.Key != c.ID {
			t.Errorf("key %q of call %s, which brings none", c.Key, c.ID)
		}
		reply := r.send(messages.Chunk{Calls: []messages.Submission{submission(func(s *messages.Submission) { s.Key = "two\nlines" })}})
		if len(reply.Refused) != 1 || reply.Refused[0].Code != messages.CodeBadCall {
			t.Errorf("%+v", reply)
		}
	})
}
