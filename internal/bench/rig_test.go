package bench

import (
	"context"
	"os"
	"strings"
	"testing"
)

// Where the raw worker fails a measurement ends with its error: nobody would
// work on the jobs that it waits for.
func TestAFailedRawWorkerEndsTheMeasurement(t *testing.T) {
	t.Setenv(asServer, "1")
	e := &env{o: Options{Server: []string{os.Args[0]}, Short: true}}
	err := e.on(t.Context(), rigConfig{}, func() error {
		_, err := e.lap(t.Context(), 1, func(*lap) (task, error) {
			return func(ctx context.Context) error {
				// Its streams go, and the consumer that it pulls from.
				if err := e.rig.raw.Close(ctx); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			}, nil
		}, false)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "the raw worker failed") {
		t.Errorf("it ended with %v", err)
	}
}
