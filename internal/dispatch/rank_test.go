package dispatch

import (
	"testing"

	"pgregory.net/rapid"

	"mulligan/pkg/messages"
)

func TestRanksInOrder(t *testing.T) {
	at := func(n, w int, s messages.State) messages.Record { return messages.Record{N: n, W: w, State: s} }
	order := []messages.Record{
		at(0, 0, messages.Dispatched), at(0, 1, messages.Waiting), at(0, 1, messages.Dispatched), at(0, 0, messages.Parked),
		at(1, 0, messages.Waiting), at(1, 0, messages.Dispatched), at(1, 1, messages.Waiting), at(1, 7, messages.Parked),
		at(2, 0, messages.Waiting), at(0, 0, messages.Ended),
	}
	for i, a := range order {
		for j, b := range order {
			got := Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s against %s: %d", place(a), place(b), got)
			}
		}
	}
}

func TestRanksAreATotalOrder(t *testing.T) {
	record := rapid.Custom(func(t *rapid.T) messages.Record {
		return messages.Record{
			N: rapid.IntRange(0, 3).Draw(t, "n"), W: rapid.IntRange(0, 3).Draw(t, "w"),
			State: rapid.SampledFrom([]messages.State{messages.Dispatched, messages.Waiting, messages.Parked, messages.Ended}).Draw(t, "state"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := record.Draw(t, "a"), record.Draw(t, "b"), record.Draw(t, "c")
		if Compare(a, b) != -Compare(b, a) {
			t.Fatalf("%v and %v are not opposite", a, b)
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			t.Fatalf("%v, %v, %v are in no order", a, b, c)
		}
	})
}

func TestACancellingRecordSendsNothingOut(t *testing.T) {
	r := messages.Record{State: messages.Dispatched, Trigger: messages.Trigger{Kind: messages.TriggerCancel}, Cancelling: &messages.Cancel{}}
	if es := Effects(r); len(es) != 0 {
		t.Fatalf("effects %v", es)
	}
}
