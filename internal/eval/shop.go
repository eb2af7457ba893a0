package eval

import (
	"fmt"
	"os"

	"mulligan/examples/shop/corpus"
	"mulligan/examples/shop/store"
	"mulligan/examples/shop/tools"
)

// Shop executes proposals with the tools that the recorded calls went to. A nil
// one executes none. It may be used concurrently.
type Shop struct {
	db      *store.Database
	effects map[string]string // by full name
}

// OpenShop reads the tables in a folder.
func OpenShop(folder string) (*Shop, error) {
	db, err := store.Load(os.DirFS(folder))
	if err != nil {
		return nil, fmt.Errorf("database of the shop %s: %w", folder, err)
	}
	s := &Shop{db: db, effects: make(map[string]string)}
	for _, spec := range tools.Tools() {
		s.effects[spec.Name] = spec.Effect
	}
	return s, nil
}

// try executes a proposal in the state in which the call failed: fresh tables,
// then the run's earlier calls as recorded. why says what stands against that;
// the answer then says nothing.
func (s *Shop) try(f failure, p *Proposal) (answer tools.Answer, why string) {
	c := f.call()
	if s == nil {
		return answer, "there is no database to execute it on"
	}
	proposed := c
	proposed.Tool, proposed.Input = p.Tool, p.Input
	if !c.InShop() || s.effects[proposed.FullTool()] == "" {
		return answer, "the tool is not at hand"
	}
	shop := tools.New(store.NewRuns(s.db, 1), nil)
	for i, before := range f.run[:f.at] {
		if before.Seq+1 != f.run[i+1].Seq {
			return answer, fmt.Sprintf("the state is not known: the run has no call between %d and %d", before.Seq, f.run[i+1].Seq)
		}
		if !s.relive(shop, before) {
			return answer, fmt.Sprintf("the state is not known: %s, %s, did something else when it was recorded", before.Ref(), before.Tool)
		}
	}
	if now := do(shop, c); !now.IsError {
		return answer, "the state is not known: the call does not fail on it"
	}
	return do(shop, proposed), ""
}

// relive makes a recorded call again, and says whether the state is now what it
// was then. Calls that only read do not matter to that.
func (s *Shop) relive(shop *tools.Shop, c corpus.Call) bool {
	effect, known := s.effects[c.FullTool()]
	if effect == tools.ReadOnly {
		return true
	}
	if !known || c.InputCut {
		return c.IsError // what failed has changed nothing
	}
	return do(shop, c).IsError == c.IsError
}

func do(shop *tools.Shop, c corpus.Call) tools.Answer {
	output, isError := shop.Call(c.Run, c.FullTool(), c.Input)
	return tools.Answer{Output: output, IsError: isError}
}
