//go:build unix

package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

// Config says what one seed is made of.
type Config struct {
	Seed   uint64
	Nodes  int           // of the broker: 1 or 3
	Calls  int           // submitted in all
	Faults int           // at least so many strike
	Over   time.Duration // the time in which both happen
}

// The processes of a pool, beside the broker.
const (
	coordinators = 2
	reflectors   = 2
	workers      = 4
)

// Kind is what is done to a process.
type Kind string

// The kinds. Kill is -9, and Freeze stops a process without its knowing. The
// next three are done to the connection of a service, the last two to all that
// one broker of a cluster has with the others; its clients still reach it.
const (
	Kill      Kind = "kill"
	Freeze    Kind = "freeze"
	Restart   Kind = "restart" // SIGTERM, then started again
	Cut       Kind = "cut"     // closed and refused
	Stall     Kind = "stall"   // half open: nothing passes and nobody is told
	Slow      Kind = "slow"
	Partition Kind = "partition" // as Stall
	Sever     Kind = "sever"     // as Cut
)

// Fault is one of them.
type Fault struct {
	At     time.Duration
	For    time.Duration // until it is healed: started again, thawed, let through
	Kind   Kind
	Target string // such as worker-0, or [Leader]
}

// Leader is the broker that leads CALLS when the fault strikes.
const Leader = "broker-leader"

func (f Fault) String() string {
	return fmt.Sprintf("%5.1fs %s %s for %s", f.At.Seconds(), f.Kind, f.Target, f.For.Round(time.Millisecond))
}

// Wish is one call with what becomes of it beside.
type Wish struct {
	At       time.Duration // when it is submitted
	Call     messages.Submission
	Deadline time.Duration // from its submission; 0 for none
	Cancel   time.Duration // from its submission; 0 for never
}

// Plan is all that a seed decides.
type Plan struct {
	Config
	Strikes []Fault
	Wishes  []Wish
	// CancelRun is when the run named [cancelledRun] is cancelled.
	CancelRun time.Duration
	// Look is how often it is looked what stands in CALLS; 0 for never.
	Look time.Duration
}

const cancelledRun = "run-0"

// NewPlan makes the plan of a seed. It is the same for the same configuration.
func NewPlan(c Config) Plan {
	p := Plan{Config: c}
	p.strike(rand.New(rand.NewPCG(c.Seed, 1)))
	p.wish(rand.New(rand.NewPCG(c.Seed, 2)))
	return p
}

// strike spreads the faults over time, and never hurts a process that is hurt
// already. Of a cluster one broker at a time is hurt: two of three are a
// majority, and one alone can promise nothing.
func (p *Plan) strike(r *rand.Rand) {
	free := make(map[string]time.Duration)
	for i := 0; len(p.Strikes) < p.Faults; i++ {
		at := time.Duration(float64(p.Over) * (0.08 + 0.84*float64(i)/float64(p.Faults)))
		f := Fault{At: at + time.Duration(r.Int64N(int64(p.Over)/20)), Target: p.target(r), For: between(r, 300*time.Millisecond, 4*time.Second)}
		f.Kind = p.kindFor(r, f.Target)
		if f.Kind == Partition || f.Kind == Sever {
			f.For *= 3 // so that some outlast an election, which takes 4 to 9 s
		}
		whose := f.Target
		if strings.HasPrefix(whose, "broker") {
			whose = "broker"
		}
		if f.At < free[whose] {
			if i > 20*p.Faults {
				return
			}
			if at > p.Over {
				f.At = free[whose]
			} else {
				continue
			}
		}
		free[whose] = f.At + f.For + 2*time.Second
		p.Strikes = append(p.Strikes, f)
	}
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

func (p *Plan) target(r *rand.Rand) string {
	if p.Nodes > 1 && r.IntN(5) == 0 {
		return Leader
	}
	switch n := r.IntN(10); {
	case n < 5:
		return fmt.Sprintf("worker-%d", r.IntN(workers))
	case n < 7:
		return fmt.Sprintf("coordinator-%d", r.IntN(coordinators))
	case n < 8:
		return fmt.Sprintf("reflector-%d", r.IntN(reflectors))
	}
	return fmt.Sprintf("broker-%d", r.IntN(p.Nodes))
}

func (p *Plan) kindFor(r *rand.Rand, target string) Kind {
	kinds := []Kind{Kill, Kill, Freeze, Freeze, Restart, Cut, Stall, Slow}
	if strings.HasPrefix(target, "broker") {
		kinds = []Kind{Kill, Kill, Freeze, Restart}
		if p.Nodes > 1 {
			kinds = append(kinds, Partition, Partition, Sever)
		}
	}
	return kinds[r.IntN(len(kinds))]
}

// Order is the input of every tool of the pool: what it is to do.
type Order struct {
	Ms       int    `json:"ms,omitempty"`       // work before the effect
	Fail     int    `json:"fail,omitempty"`     // so many attempts fail before any effect
	RetryMs  int    `json:"retry_ms,omitempty"` // with Fail: the tool did nothing and says when to come back
	Hopeless bool   `json:"hopeless,omitempty"` // fails, and no repetition helps
	Die      bool   `json:"die,omitempty"`      // takes its worker with it, before the effect
	Lose     bool   `json:"lose,omitempty"`     // the effect happens and its answer is lost
	BusyMs   int    `json:"busy_ms,omitempty"`  // until the call is so old, the tool does nothing and says when to come back
	Bytes    int    `json:"bytes,omitempty"`    // of the output
	Bites    int    `json:"bites,omitempty"`    // not the name of bytes, about which the tool complains after its effect
	Pad      string `json:"pad,omitempty"`      // makes the input large
}

// wish makes the calls: a mix of all that may go well and wrong.
func (p *Plan) wish(r *rand.Rand) {
	for i := range p.Calls {
		w := Wish{At: time.Duration(float64(p.Over) * 0.9 * float64(i) / float64(p.Calls))}
		tool, order := p.order(r)
		input, err := json.Marshal(order)
		if err != nil {
			panic(err) // a struct of numbers
		}
		w.Call = messages.Submission{Ref: fmt.Sprintf("call-%d", i), Tool: tool, Input: input}
		p.surround(r, &w)
		p.Wishes = append(p.Wishes, w)
	}
	p.CancelRun = p.Over / 2
}

func (p *Plan) order(r *rand.Rand) (string, Order) {
	tool := []string{"read", "idem", "idem", "keyed", "unsafe", "unsafe"}[r.IntN(6)]
	o := Order{Ms: 1 + r.IntN(40)}
	switch n := r.IntN(100); {
	case n < 10:
		o.Ms = 2500 + r.IntN(1500) // longer than a lease
	case n < 22:
		o.Fail = 1 + r.IntN(2)
	case n < 28:
		o.Fail, o.RetryMs = 1, 200+r.IntN(2500)
	case n < 32:
		o.Hopeless = true
	case n < 33:
		o.Die = true
	case n < 38:
		o.Lose = true
	case n < 41:
		o.Bytes, o.Pad = 300_000, strings.Repeat("x", 200_000)
	}
	return tool, o
}

func (p *Plan) surround(r *rand.Rand, w *Wish) {
	switch n := r.IntN(100); {
	case n < 20:
		w.Call.Run = fmt.Sprintf("run-%d", r.IntN(5))
	case n < 26:
		w.Deadline = between(r, time.Second, 6*time.Second)
	case n < 30:
		w.Cancel = between(r, 10*time.Millisecond, 3*time.Second)
	case n < 36:
		w.Call.Policy = json.RawMessage(`{"ask_user":"park"}`)
	}
	w.Call.Lane = []messages.Lane{messages.LaneNormal, messages.LaneNormal, messages.LaneHigh, messages.LaneLow}[r.IntN(4)]
}
