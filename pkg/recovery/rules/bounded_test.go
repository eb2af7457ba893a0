package rules_test

import (
	"testing"
	"time"
)

// bounded fails when f takes long each time that it is tried: a machine that has
// much else to do may hold it up, but not every time.
func bounded(t *testing.T, name string, f func()) {
	t.Helper()
	const most = 20 * time.Second // far above what the slowest takes
	var took time.Duration
	for range 4 {
		start := time.Now()
		f()
		if took = time.Since(start); took <= most {
			return
		}
	}
	t.Errorf("%s: %v", name, took)
}
