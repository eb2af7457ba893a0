package coordination

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/pkg/messages"
)

// Who asks while a read is under way shares the next one: the read that is under
// way may have seen what was there before its question.
func TestReadsOfARunAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		a := newAsking(func(_ context.Context, run messages.Run) (messages.RunEntry, uint64, error) {
			n := reads.Add(1)
			began := time.Now()
			time.Sleep(time.Second)
			return messages.RunEntry{Run: run, Created: began}, 0, map[bool]error{true: errors.New("boom")}[n == 2]
		})
		ask := func(run messages.Run, fails bool) {
			asked := time.Now()
			e, err := a.ask(t.Context(), run)
			if e.Run != run || e.Created.Before(asked) || (err != nil) != fails {
				t.Errorf("asked %s about %s, told of %+v, %v", asked, run, e, err)
			}
		}
		go ask("r", false)
		synctest.Wait()
		for range 100 {
			go ask("r", true)
		}
		synctest.Wait()
		if reads.Load() != 1 {
			t.Errorf("%d reads at a time", reads.Load())
		}
		time.Sleep(3 * time.Second)
		if reads.Load() != 2 || len(a.next) != 0 {
			t.Errorf("%d reads, %d are remembered", reads.Load(), len(a.next))
		}
		ask("r", false) // an error is not kept
		ask("s", false)
	})
}
