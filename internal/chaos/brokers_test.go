//go:build unix

package chaos

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// A leader that is cut off from the others is replaced by them, so that no
// route leads past the proxies; whoever asks it still gets an answer, and is not
// told that a call is there which was never stored.
func TestALeaderThatIsCutOffIsReplaced(t *testing.T) {
	dir := t.TempDir()
	server, err := BuildNatsServer(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(t.Context(), dir, server, Setup{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	calls := c.pool.Names().StreamName(messages.StreamCalls)
	for _, kind := range []Kind{Stall, Cut} {
		old, err := c.leader(t.Context(), calls)
		if err != nil {
			t.Fatal(err)
		}
		p := c.processes[old]
		pool := connectTo(t, c, old)
		call := messages.Message{Subject: pool.Names().CallSubject("default", messages.LaneNormal, messages.NamedRun("r"), messages.NewCallID(), 0)}
		p.hurt(kind)
		for copies := range 2 {
			if err := pool.Publish(t.Context(), call); err == nil || errors.Is(err, messages.ErrExists) {
				t.Errorf("%s: copy %d, which no other broker knows of: %v", kind, copies, err)
			}
		}
		await(t, old+" is replaced", func(ctx context.Context) bool {
			for i, m := range c.monitors {
				if s, ok := streamBy(ctx, m, calls); brokerName(i) != old && ok && s.Cluster.Leader != "" && s.Cluster.Leader != old {
					return true
				}
			}
			return false
		})
		await(t, old+" still answers", func(ctx context.Context) bool {
			at := slices.Index([]string{brokerName(0), brokerName(1), brokerName(2)}, old)
			_, ok := streamBy(ctx, c.monitors[at], calls)
			return ok
		})
		p.hurt("")
		await(t, "all agree again", func(ctx context.Context) bool {
			return !slices.ContainsFunc(c.monitors, func(m string) bool { return !healthy(ctx, m) })
		})
	}
}

// connectTo reaches one broker alone, and waits for it only shortly: its leaders
// step down after ten seconds.
func connectTo(t *testing.T, c *cluster, broker string) *jetstream.Pool {
	t.Helper()
	at := slices.Index([]string{brokerName(0), brokerName(1), brokerName(2)}, broker)
	pool, err := jetstream.Connect(t.Context(), jetstream.Config{URL: c.urls(c.clients[at : at+1]), Token: token, Lease: lease, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func await(t *testing.T, what string, come func(context.Context) bool) {
	t.Helper()
	for began := time.Now(); !come(t.Context()); pause(t.Context(), 100*time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
