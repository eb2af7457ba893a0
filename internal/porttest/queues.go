package porttest

import (
	"errors"
	"time"

	"mulligan/pkg/messages"
)

func queueCases() []Case {
	return []Case{
		{"a paused queue hands nothing over, and all of it when it is resumed", queuePaused},
		{"what was handed over before a pause is extended and acked as ever", pausedInHand},
		{"a limit of a queue changes while it is used", limitChanged},
	}
}

// set makes queue p, or changes it.
func (e *Env) set(inFlight int, paused bool) {
	e.Helper()
	e.must(e.B.SetQueue(e.Ctx, "p", inFlight, paused))
}

func queuePaused(e *Env) {
	e.set(0, false)
	idle := make(chan []messages.Delivery, 1)
	e.set(0, true)
	go func() { // a standing request, as of a worker that has nothing to do
		ds, err := e.B.Fetch(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer("p", messages.LaneNormal), 1, patience)
		if err != nil {
			e.Error(err)
		}
		idle <- ds
	}()
	for range 3 {
		e.must(e.B.Publish(e.Ctx, e.queued("p", newCall("r"), 0)))
	}
	if ds := e.fetch("p", 1, 300*time.Millisecond); len(ds) > 0 {
		e.Fatalf("a paused queue handed over %d calls", len(ds))
	}
	waiting, _, err := e.B.Backlog(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer("p", messages.LaneNormal))
	if err != nil || waiting != 3 {
		e.Errorf("%d calls wait, %v", waiting, err)
	}
	e.set(0, false)
	if ds := wait(e, "the standing request", idle); len(ds) != 1 {
		e.Errorf("the standing request got %d calls", len(ds))
	}
	e.collect("p", 2)
}

func pausedInHand(e *Env) {
	e.set(0, false)
	e.must(e.B.Publish(e.Ctx, e.queued("p", newCall("r"), 0)))
	d := e.one("p")
	e.set(0, true)
	for range 4 { // beyond its lease
		pauseFor(Lease / 2)
		e.must(e.B.Extend(e.Ctx, d))
	}
	e.must(e.B.Ack(e.Ctx, d))
	e.set(0, false)
	if ds := e.fetch("p", 1, 300*time.Millisecond); len(ds) > 0 {
		e.Errorf("what was acked is handed over again: %+v", ds[0])
	}
	if _, err := e.B.Get(e.Ctx, d.Subject); !errors.Is(err, messages.ErrNotFound) {
		e.Errorf("what was acked is still there: %v", err)
	}
}

// pauseFor lets time pass, in a bubble as well.
func pauseFor(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

func limitChanged(e *Env) {
	e.set(4, false) // one for each lane
	for range 6 {
		e.must(e.B.Publish(e.Ctx, e.queued("p", newCall("r"), 0)))
	}
	first := e.one("p")
	if more := e.fetch("p", 3, 300*time.Millisecond); len(more) > 0 {
		e.Errorf("a limit of one let %d more through", len(more))
	}
	e.set(12, false) // three for each
	e.collect("p", 2)
	if more := e.fetch("p", 3, 300*time.Millisecond); len(more) > 0 {
		e.Errorf("a limit of three let %d more through", len(more))
	}
	e.set(4, false)
	e.must(e.B.Ack(e.Ctx, first))
	if more := e.fetch("p", 3, 300*time.Millisecond); len(more) > 0 {
		e.Errorf("a limit of one let %d through while two are in hand", len(more))
	}
	e.set(0, false)
	e.collect("p", 3)
}
