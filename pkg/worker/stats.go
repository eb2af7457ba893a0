package worker

import "sync/atomic"

type counts struct {
	running, held, abandoned         atomic.Int64
	succeeded, failed, stopped, late atomic.Int64
}

// Stats is what a worker does now and has done since it was made. The numbers
// are read one after another and need not fit together.
type Stats struct {
	Slots     int // how many tools may run
	Running   int // deliveries being handled, with Abandoned ones
	Held      int // deliveries that wait for a slot
	Abandoned int // tools that ignore their end and keep a slot

	Succeeded int64 // results written as succeeded, or late
	Failed    int64 // failures written
	Stopped   int64 // calls ended as cancelled or expired without running
	Late      int64 // outcomes that came after another
}

// Stats may be called concurrently and at any time.
func (w *Worker) Stats() Stats {
	c := &w.counts
	return Stats{
		Slots: w.cfg.Slots, Running: int(c.running.Load()), Held: int(c.held.Load()), Abandoned: int(c.abandoned.Load()),
		Succeeded: c.succeeded.Load(), Failed: c.failed.Load(), Stopped: c.stopped.Load(), Late: c.late.Load(),
	}
}
