package coordination

import (
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

// lead is how much too early the schedule of a retry is told to fire. The broker
// looks four times a second what is due, so that it fires up to as much later;
// the rest of the wait passes here (ADR 0023).
const lead = 250 * time.Millisecond

func ahead(d messages.Due) messages.Due {
	if d.Kind == messages.DueRetry {
		d.NotBefore, d.At = d.At, d.At.Add(-lead)
	}
	return d
}

// untilDue lets pass what is left of the wait of a trigger that came early,
// beside the un-acked trigger as other short waits; nothing was read yet (P7.13).
// Where there is no room for one more it keeps its slot. However the clocks
// differ, it waits for no longer than the broker was told to be early. False
// when this coordinator was stopped.
func (h *handling) untilDue() (waited bool) {
	left := min(time.Until(h.t.early), lead)
	if left <= 0 {
		return true
	}
	wait := func() { waited = pace.Sleep(h.c.stopping, left) }
	select {
	case h.c.room <- struct{}{}:
		h.c.metrics.Waiting(1)
		h.seat.away(wait)
		h.c.metrics.Waiting(-1)
		<-h.c.room
	default:
		wait()
	}
	return waited
}
