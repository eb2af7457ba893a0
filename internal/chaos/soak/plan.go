//go:build linux

package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"mulligan/internal/chaos"
)

// every is how often something is hurt, and how long the plan of a block of calls is.
const every = 10 * time.Second

// spared says whether a process lives through the soak: it is frozen and cut
// off, and never killed or restarted, so that what it keeps has time to show.
func spared(name string) bool { return strings.HasSuffix(name, "-0") || name == "witness" }

// victims are hurt, the spared among them; workers more often, as there are more.
var victims = []string{
	"worker-0", "worker-1", "worker-2", "worker-3", "worker-1", "worker-2",
	"coordinator-0", "coordinator-1", "reflector-0", "reflector-1", "broker-0",
}

// strikes are the faults of a soak: one every ten seconds, and none so late that
// it is healed after the end.
func strikes(seed uint64, over time.Duration) []chaos.Fault {
	r := rand.New(rand.NewPCG(seed, 4))
	var out []chaos.Fault
	for at := every; at <= over-every; at += every {
		f := chaos.Fault{At: at, Target: victims[r.IntN(len(victims))], For: 300*time.Millisecond + time.Duration(r.Int64N(int64(3700*time.Millisecond)))}
		f.Kind = kindFor(r, f.Target)
		out = append(out, f)
	}
	return out
}

func kindFor(r *rand.Rand, target string) chaos.Kind {
	kinds := []chaos.Kind{chaos.Kill, chaos.Restart, chaos.Freeze, chaos.Cut, chaos.Stall, chaos.Slow}
	switch {
	case target == "broker-0": // behind all proxies
		kinds = []chaos.Kind{chaos.Freeze}
	case spared(target):
		kinds = []chaos.Kind{chaos.Freeze, chaos.Cut, chaos.Stall, chaos.Slow}
	}
	return kinds[r.IntN(len(kinds))]
}

// block is the n-th ten seconds of calls: the mix that chaos submits, but for
// calls that kill their worker, since some are to live. Its runs are its own, so
// that their ends are as many as in a life.
func block(seed uint64, n, rate int) ([]chaos.Wish, error) {
	p := chaos.NewPlan(chaos.Config{Seed: seed + uint64(n), Nodes: 1, Calls: rate * int(every/time.Second), Over: every})
	for i := range p.Wishes {
		w := &p.Wishes[i]
		w.Call.Ref = fmt.Sprintf("block-%d-%s", n, w.Call.Ref)
		if w.Call.Run != "" {
			w.Call.Run = runOf(n, w.Call.Run)
		}
		var o chaos.Order
		if err := json.Unmarshal(w.Call.Input, &o); err != nil {
			return nil, err
		}
		o.Die = false
		if o.Pad != "" {
			o.Pad = w.Call.Ref + o.Pad // no two payloads are the same
		}
		var err error
		if w.Call.Input, err = json.Marshal(o); err != nil {
			return nil, err
		}
	}
	return p.Wishes, nil
}

func runOf(n int, run string) string { return fmt.Sprintf("block-%d-%s", n, run) }
