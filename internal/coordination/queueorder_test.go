package coordination

import (
	"testing"

	"mulligan/pkg/messages"
)

// A watch may bring what somebody else said of a queue after this coordinator
// has written something newer, which must not hold a moment less.
func TestALateEntryDoesNotUndoWhatWasWrittenSince(t *testing.T) {
	s := newSettings(nil)
	for _, said := range []struct {
		revision uint64
		paused   bool
	}{{5, true}, {4, false}, {5, true}} {
		b, err := messages.EncodeQueueSettings(messages.QueueSettings{Queue: "q", Paused: said.paused})
		if err != nil {
			t.Fatal(err)
		}
		s.apply(messages.Entry{Key: messages.QueueKey("q"), Value: b, Revision: said.revision})
		if !s.get("q").Paused {
			t.Errorf("revision %d undoes revision 5", said.revision)
		}
	}
}
