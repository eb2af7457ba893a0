package eval

import (
	"encoding/json"
	"fmt"

	"mulligan/examples/shop/corpus"
	"mulligan/internal/form"
	"mulligan/pkg/recovery"
)

// Verdict is what a proposal turned out to be.
type Verdict string

// The verdicts. Nothing says anything about one that is unjudged.
const (
	Right    Verdict = "right"
	Wrong    Verdict = "wrong"
	Unjudged Verdict = "unjudged"
)

// Judgement is a verdict, and by what.
type Judgement struct {
	Verdict Verdict
	Why     string
}

// judge holds a proposal against what is known. The record comes first: what
// the agent did by itself, and what then succeeded. The real tool comes next,
// and last another correction in the record, since there may be more than one
// that is right.
func judge(f failure, p *Proposal, shop *Shop) Judgement {
	c := f.call()
	if asRecorded(c, p) {
		return Judgement{Right, "as the agent corrected it"}
	}
	answer, why := shop.try(f, p)
	switch {
	case why == "" && !answer.IsError:
		return Judgement{Right, "the real tool accepts it"}
	case why == "":
		return Judgement{Wrong, "the real tool refuses it: " + answer.Output}
	}
	if other := correctedAlone(c); other != nil && !isCut(other.Input) {
		return Judgement{Wrong, fmt.Sprintf("the agent corrected it otherwise: %s %s", other.Tool, other.Input)}
	}
	return Judgement{Unjudged, why + laterOn(f, p)}
}

// laterOn tells how the same call went when the agent made it later. That is no
// verdict: somebody may have spoken, and what failed then may be the next fault.
func laterOn(f failure, p *Proposal) string {
	for _, c := range f.run[f.at+1:] {
		if c.Tool != p.Tool || recovery.Digest(c.Tool, c.Input) != recovery.Digest(p.Tool, p.Input) {
			continue
		}
		if c.IsError {
			return fmt.Sprintf("; the agent made this call later (%s), and it failed: %s", c.Ref(), c.Want())
		}
		return fmt.Sprintf("; the agent made this call later (%s), and it succeeded", c.Ref())
	}
	return ""
}

// asRecorded: the next call, or the first later success of the tool, was this
// one, succeeded, and nobody had spoken.
func asRecorded(c corpus.Call, p *Proposal) bool {
	for _, later := range []*corpus.Later{c.Next, c.FixedBy} {
		if later != nil && !later.IsError && !later.UserSpoke && recovery.Digest(later.Tool, later.Input) == recovery.Digest(p.Tool, p.Input) {
			return true
		}
	}
	return false
}

// correctedAlone is the correction that the agent made at once and by itself;
// nil if it made none. What succeeded later still may be about something else.
func correctedAlone(c corpus.Call) *corpus.Later {
	if c.Did != corpus.CorrectedAlone || c.Next == nil || c.Next.IsError {
		return nil
	}
	return c.Next
}

// isCut says whether a text of the input was recorded by its beginning only.
func isCut(input json.RawMessage) bool {
	v, err := form.Decode(input)
	if err != nil {
		return true
	}
	found := false
	eachLeaf(v, func(leaf any) {
		s, ok := leaf.(string)
		_, is := corpus.IsCut(s)
		found = found || ok && is
	})
	return found
}
