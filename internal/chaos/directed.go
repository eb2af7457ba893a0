//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// A directed trial is small, has its plan from a hand and not from a seed, and
// would break a promise if one rule were not in the code. internal/mutants
// takes these rules out.
var directed = map[string]func(*Plan){
	// Workers die and freeze while they run unsafe tools.
	"starts": func(p *Plan) {
		p.ask(120, 8*time.Second, Order{Ms: 1200}, "unsafe")
		for i, at := range []float64{1.5, 2.5, 4, 5} {
			kind, length := Freeze, 3500*time.Millisecond
			if i%2 == 1 {
				kind, length = Kill, 500*time.Millisecond
			}
			p.hurt(at, length, kind, fmt.Sprintf("worker-%d", i))
		}
	},
	// Workers die while the broker is too slow to take what they have found out:
	// tools take so long that many end in that time, on a fast machine too.
	"outputs": func(p *Plan) {
		p.ask(240, 9*time.Second, Order{Ms: 700, Bytes: 300_000}, "idem", "keyed")
		for i, at := range []float64{2.5, 6.5} {
			p.hurt(at, 2*time.Second, Freeze, "broker-0")
			p.hurt(at+1, 500*time.Millisecond, Kill, fmt.Sprintf("worker-%d", 2*i))
			p.hurt(at+1, 500*time.Millisecond, Kill, fmt.Sprintf("worker-%d", 2*i+1))
		}
	},
	// Coordinators freeze in the middle of their work, which others do then.
	"records": func(p *Plan) {
		p.ask(1200, 12*time.Second, Order{Ms: 1, Fail: 2}, "idem", "keyed", "unsafe")
		for i := range 4 {
			p.hurt(1.5+3.2*float64(i), 2700*time.Millisecond, Freeze, fmt.Sprintf("coordinator-%d", i%coordinators))
		}
	},
	// RESULTS has no room for some time.
	"room": func(p *Plan) {
		p.ask(160, 6*time.Second, Order{Ms: 20}, "read", "idem", "keyed", "unsafe")
		p.hurt(2, 3*time.Second, Full, string(messages.StreamResults))
	},
	// Effects happen and nobody is told so, or is told what seems to be mendable.
	"answers": func(p *Plan) {
		p.ask(60, 3*time.Second, Order{Ms: 5, Lose: true}, "unsafe", "idem", "keyed")
		p.ask(40, 3*time.Second, Order{Ms: 5, Bites: 10}, "idem", "keyed")
	},
	// Tools do nothing for now and say when to come back, while others work.
	"waits": func(p *Plan) {
		p.Look = 250 * time.Millisecond
		p.ask(40, time.Second, Order{Ms: 1, BusyMs: 9000}, "read", "idem", "keyed", "unsafe")
		p.ask(40, 4*time.Second, Order{Ms: 1}, "read", "idem", "keyed", "unsafe")
	},
}

// DirectedNames are those of the directed trials.
func DirectedNames() []string { return slices.Sorted(maps.Keys(directed)) }

// NewDirected makes the plan of a directed trial.
func NewDirected(name string) (Plan, error) {
	shape, ok := directed[name]
	if !ok {
		return Plan{}, fmt.Errorf("directed trial %q is not known: give one of %s", name, strings.Join(DirectedNames(), ", "))
	}
	p := Plan{Config: Config{Nodes: 1, Over: 2 * time.Second}}
	p.CancelRun = p.Over
	shape(&p)
	p.Calls, p.Faults = len(p.Wishes), len(p.Strikes)
	return p, nil
}

// ask adds n calls of the same order, spread over a time and over tools.
func (p *Plan) ask(n int, over time.Duration, o Order, tools ...string) {
	input, err := json.Marshal(o)
	if err != nil {
		panic(err) // a struct of numbers
	}
	for i := range n {
		p.Wishes = append(p.Wishes, Wish{
			At:   over * time.Duration(i) / time.Duration(n),
			Call: messages.Submission{Ref: fmt.Sprintf("call-%d", len(p.Wishes)), Tool: tools[i%len(tools)], Input: input, Lane: messages.LaneNormal},
		})
	}
}

func (p *Plan) hurt(at float64, length time.Duration, kind Kind, target string) {
	p.Strikes = append(p.Strikes, Fault{At: time.Duration(at * float64(time.Second)), For: length, Kind: kind, Target: target})
}

// rashPolicy is an operator's who does not know better: whatever was lost is
// tried again, and nothing stops a tool that keeps failing.
const rashPolicy = `pool:
  breaker: "off"
rules:
  - name: rash
    when: error contains "the answer was lost"
    recoverable: true
    severity: low
`

// Directed runs directed trials.
type Directed struct {
	// Services is the program that plays the parts of the services, one that
	// calls [Role]; empty is this one.
	Services string
	// Keep is an empty folder in which logs and stores stay; empty keeps none.
	Keep string
	Out  io.Writer
}

// Run runs trials, all of them without names, prints a line for each and a last
// line that counts, and gives how many promises were broken.
func (d Directed) Run(ctx context.Context, names ...string) (violations int, err error) {
	if len(names) == 0 {
		names = DirectedNames()
	}
	dir := d.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "mulligan-chaos-"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	server, err := BuildNatsServer(ctx, dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		r, err := d.trial(ctx, filepath.Join(dir, name), server, name)
		if err != nil {
			return violations, fmt.Errorf("directed trial %s: %w", name, err)
		}
		d.print(name, r)
		violations += len(r.Violations)
	}
	fmt.Fprintf(d.Out, "chaos: %d directed trials, %d violations\n", len(names), violations)
	return violations, context.Cause(ctx)
}

func (d Directed) trial(ctx context.Context, at, server, name string) (Report, error) {
	p, err := NewDirected(name)
	if err != nil {
		return Report{}, err
	}
	policy := filepath.Join(at, "policy.yaml")
	if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(policy, []byte(rashPolicy), 0o600)); err != nil {
		return Report{}, err
	}
	h, err := runIn(ctx, p, at, server, Setup{Nodes: p.Nodes, Services: d.Services, Args: func(service string) []string {
		if strings.HasPrefix(service, "coordinator") {
			return []string{"--policy", policy}
		}
		return nil
	}})
	return Check(h), err
}

func (d Directed) print(name string, r Report) {
	fmt.Fprintf(d.Out, "%s: %d calls, %d faults %v, ends %v, %d recovered, %d repeated, %s, %d violations\n",
		name, r.Calls, r.Struck, r.Faults, r.Ends, r.Recovered, r.Repeated, r.Took.Round(100*time.Millisecond), len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintln(d.Out, "  VIOLATION:", v)
	}
}

// Full makes a stream refuse everything, as one that has reached its limit does.
const Full Kind = "full"

// fill takes the room from a stream, and gives it back after the fault's time.
func (t *trial) fill(ctx context.Context, f Fault) error {
	if f.Target != string(messages.StreamResults) {
		return fmt.Errorf("%s: only %s can be filled", f, messages.StreamResults)
	}
	plain := jetstream.TopologyConfig{Replicas: t.plan.Nodes}
	full := plain
	full.ResultsBytes = 1
	if err := t.cluster.pool.ProvisionPatiently(ctx, full); err != nil {
		return err
	}
	select {
	case <-time.After(f.For):
	case <-ctx.Done():
	}
	return t.cluster.pool.ProvisionPatiently(ctx, plain)
}

// watchPlaces finds out for how long calls stand in CALLS without a break.
func (t *trial) watchPlaces(ctx context.Context) {
	since := make(map[string]time.Time) // of those that stood there when it was last looked
	for {
		select {
		case <-time.After(t.plan.Look):
		case <-ctx.Done():
			return
		}
		now, there := time.Now(), make(map[string]bool)
		err := t.cluster.pool.List(ctx, messages.StreamCalls, nil, func(m messages.Stored) bool {
			if a, err := t.history.Names.Parse(m.Subject); err == nil {
				there[a.Call] = true
			}
			return true
		})
		if err != nil {
			continue // looked at again in a moment
		}
		maps.DeleteFunc(since, func(call string, _ time.Time) bool { return !there[call] })
		for call := range there {
			if _, ok := since[call]; !ok {
				since[call] = now
			}
			t.history.Stood[call] = max(t.history.Stood[call], now.Sub(since[call]))
		}
	}
}

// place: a call that waits holds no place in its queue, where it would keep
// others from running.
func (k *checker) place(w Wish, told Told) {
	var o Order
	if err := json.Unmarshal(w.Call.Input, &o); err != nil || o.BusyMs == 0 {
		return
	}
	wait := time.Duration(o.BusyMs) * time.Millisecond
	if stood := k.h.Stood[told.Call]; stood >= wait*3/4 {
		k.violation("call %s was told to come back later, and stood in its queue for %s of %s", told.Call, stood.Round(100*time.Millisecond), wait)
	}
}

// certain: after an effect that may have happened no machine makes a second,
// neither by repeating an unsafe tool (S7.3) nor by a correction, which has a
// key of its own (S7.6).
func (k *checker) certain(w Wish, told Told) {
	if k.answered[told.Call] {
		return
	}
	effects := k.effects[told.Call]
	if w.Call.Tool == "unsafe" {
		for _, f := range k.failures[told.Call] {
			if i := slices.IndexFunc(effects, func(e Effect) bool { return f.Ambiguous && e.Dispatch > f.Call.Dispatch }); i >= 0 {
				k.violation("call %s of an unsafe tool took effect in dispatch %d, after dispatch %d may have had its effect", told.Call, effects[i].Dispatch, f.Call.Dispatch)
			}
		}
	}
	for _, e := range effects {
		if e.Key != effects[0].Key {
			k.violation("call %s took effect under two keys, %s and %s", told.Call, effects[0].Key, e.Key)
			return
		}
	}
}
