package cli

import (
	"context"
	"errors"
	"runtime/metrics"
	"time"
)

const (
	// changeRoom is how many bytes the change of one input may take beside twice
	// what the heap held before: garbage that nobody collected yet counts too.
	changeRoom = 256 << 20
	roomLook   = 2 * time.Millisecond
)

var errLargeChange = errors.New("it takes more than 256 MiB of memory")

// withRoom gives a context that ends with errLargeChange once the heap has
// outgrown room. What takes its memory in one step, such as a long string, is
// seen after that step. The end has to be called; the watch is over then.
func withRoom(ctx context.Context, room uint64) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	most := 2*heap() + room
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		look := time.NewTicker(roomLook)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if heap() > most {
					cancel(errLargeChange)
				}
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-gone
	}
}

// heap is how many bytes live objects take, and dead ones that were not
// collected yet.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
