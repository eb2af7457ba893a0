package eval

import (
	"context"
	"sync"

	"mulligan/examples/shop/corpus"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Config says what is scored on what.
type Config struct {
	Runs    []corpus.Run
	Schemas *Schemas
	// Shop executes proposals; nil judges none by execution.
	Shop *Shop
	// Reflector is asked concurrently where Parallel is more than 1.
	Reflector recovery.Reflector
	// Policies are those of a pool; what they say of hooks, rules and reflectors
	// is for the caller to put into Reflector. Tools are in the queue "default".
	Policies recovery.Document
	Parallel int
	// Progress is told how many failures are done, now and then, concurrently.
	// It may be nil.
	Progress func(done, of int)
}

// Does is what a decision has done about a failure.
type Does string

// What there is to do, in the order of the columns of the matrix.
const (
	Repeats  Does = "retry as is"
	Corrects Does = "retry corrected"
	Asks     Does = "ask a human"
	GivesUp  Does = "give up"
)

// AllDoes are the columns of the matrix.
func AllDoes() []Does { return []Does{Repeats, Corrects, Asks, GivesUp} }

// Outcome is a failure, what was decided about it, and what that was worth.
type Outcome struct {
	Call     corpus.Call
	Decision messages.Decision
	Does     Does
	Proposal *Proposal // nil where nothing mechanical was proposed
}

// Proposal is a correction that a machine could apply.
type Proposal struct {
	Tool    string
	Input   []byte
	Changes []Change
	Judgement
	// Harms are what it changes that neither the error, the schema nor the input
	// names.
	Harms []string
}

// failure is one failing call and where it stands.
type failure struct {
	run corpus.Run
	at  int // in run
}

func (f failure) call() corpus.Call { return f.run[f.at] }

// Run asks the reflector about every failure. Outcomes are in the order of the
// corpus. Its error is that of a policy or of the context.
func Run(ctx context.Context, c Config) ([]Outcome, error) {
	pol, err := newPolicies(c)
	if err != nil {
		return nil, err
	}
	failures := failuresOf(c.Runs)
	out := make([]Outcome, len(failures))
	var done counter
	share := make(chan int)
	var crew sync.WaitGroup
	for range max(c.Parallel, 1) {
		crew.Go(func() {
			for i := range share {
				out[i] = c.one(ctx, pol, failures[i])
				if n := done.next(); c.Progress != nil {
					c.Progress(n, len(failures))
				}
			}
		})
	}
	for i := range failures {
		if ctx.Err() != nil {
			break
		}
		share <- i
	}
	close(share)
	crew.Wait()
	return out, ctx.Err()
}

func failuresOf(runs []corpus.Run) []failure {
	var out []failure
	for _, run := range runs {
		for i, c := range run {
			if c.IsError {
				out = append(out, failure{run, i})
			}
		}
	}
	return out
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c Config) one(ctx context.Context, pol *policies, f failure) Outcome {
	shown := newCase(f.call(), pol.over(c.Schemas.around(f.call())))
	if effect := pol.of(f.call().Tool).Effect; effect != "" {
		shown.Effect = effect
	}
	o := Outcome{Call: f.call(), Decision: pol.deciders[f.call().Tool].Decide(ctx, shown)}
	o.Proposal = proposalOf(shown, o.Decision)
	if o.Proposal != nil {
		o.Proposal.look(shown)
		o.Proposal.Judgement = judge(f, o.Proposal, c.Shop)
	}
	o.Does = does(o.Decision, o.Proposal)
	return o
}

func does(d messages.Decision, p *Proposal) Does {
	switch {
	case d.Action.Type == messages.ActRetry && p != nil:
		return Corrects
	case d.Action.Type == messages.ActRetry:
		return Repeats
	case d.Action.Type == messages.ActAskUser:
		return Asks
	}
	return GivesUp
}

// proposalOf is what the decision holds that a machine could apply, wherever it
// goes; nil where the call would be the same one.
func proposalOf(c recovery.Case, d messages.Decision) *Proposal {
	if d.Analysis == nil || d.Analysis.Correction == nil {
		return nil
	}
	p := &Proposal{Tool: c.Tool, Input: c.Input}
	switch corr := d.Analysis.Correction; corr.Type {
	case messages.InputFix:
		p.Input = orElse(corr.ModifiedInput, c.Input)
	case messages.ToolChange:
		p.Input = orElse(corr.ModifiedInput, c.Input)
		if corr.AlternativeTool != nil {
			p.Tool = *corr.AlternativeTool
		}
	default:
		return nil
	}
	if recovery.Digest(p.Tool, p.Input) == recovery.Digest(c.Tool, c.Input) {
		return nil
	}
	return p
}

func orElse(input, otherwise []byte) []byte {
	if len(input) == 0 {
		return otherwise
	}
	return input
}
