package coordination_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/coordination"
	"mulligan/pkg/messages"
)

// The broker may fire a schedule a quarter of a second late, so it is told to
// fire so much too early, and the coordinator waits for the rest (ADR 0023).
func TestARetryComesEarlyAndGoesOutAtItsTime(t *testing.T) {
	for name, room := range map[string]int{"room for short waits": 0, "no room": -1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				m := r.coordinator(func(c *coordination.Config) { c.ShortWaits = room })
				r.tool("t", messages.Idempotent)
				c := r.accept()
				r.failAndDecide(c, messages.Retry(2*time.Second))
				synctest.Wait()
				<-time.After(2*time.Second - time.Millisecond)
				synctest.Wait()
				if q, ok := r.queued(c.Run, c.ID); ok || m.Busy() != 1 {
					t.Errorf("before its time: dispatch %d queued %v, %d triggers here", q.Dispatch, ok, m.Busy())
				}
				<-time.After(time.Millisecond)
				synctest.Wait()
				r.wantQueued(c, 1)
				r.wantNoTriggers()
			})
		})
	}
}

func TestWhatCameEarlyIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.coordinator()
		r.tool("t", messages.Idempotent)
		c := r.accept()
		r.failAndDecide(c, messages.Retry(2*time.Second))
		synctest.Wait()
		<-time.After(2*time.Second - 100*time.Millisecond)
		synctest.Wait()
		m.stop()
		r.coordinator()
		<-time.After(99 * time.Millisecond)
		synctest.Wait()
		if _, ok := r.queued(c.Run, c.ID); ok {
			t.Error("it went out before its time")
		}
		<-time.After(time.Millisecond)
		synctest.Wait()
		r.wantQueued(c, 1)
	})
}
