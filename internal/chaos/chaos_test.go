//go:build unix

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if Role() {
		return
	}
	os.Exit(m.Run())
}

// TestSeeds runs three fixed seeds, one on a cluster of three. `make chaos` runs
// as many as are wanted.
func TestSeeds(t *testing.T) {
	for nodes, seeds := range map[int][]uint64{1: {1, 2}, 3: {1}} {
		t.Run(fmt.Sprintf("%d brokers", nodes), func(t *testing.T) {
			t.Parallel()
			keeps(t, Trials{Seeds: seeds, Base: Config{Nodes: nodes, Calls: 300, Faults: 10, Over: 12 * time.Second}})
		})
	}
}

// TestKilledBrokers is a small trial of those that `make kills` makes.
func TestKilledBrokers(t *testing.T) {
	t.Parallel()
	keeps(t, Trials{Seeds: []uint64{1}, Base: Config{Nodes: 1}, Kill: &KillConfig{
		Kills: 3, Queued: 200, Delayed: 20, Work: 600 * time.Millisecond, Delay: 4 * time.Second,
	}})
}

// keeps runs trials, which are to break no promise.
func keeps(t *testing.T, trials Trials) {
	t.Helper()
	var out bytes.Buffer
	trials.Out = &out
	violations, err := trials.Run(t.Context())
	t.Log(out.String())
	if err != nil || violations > 0 {
		t.Errorf("%d promises were broken, %v", violations, err)
	}
}
