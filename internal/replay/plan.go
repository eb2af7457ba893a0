package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mulligan/internal/schema"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Reason names why a selected call is not replayed. The set is closed.
type Reason string

// The reasons.
const (
	LeftReplayed   Reason = "replayed_before" // S11.5
	LeftNoInput    Reason = "no_input"        // nothing knows what it was called with
	LeftEffect     Reason = "may_have_had_its_effect"
	LeftUnchanged  Reason = "cannot_be_changed" // the patch or expression fails on it
	LeftMisfit     Reason = "does_not_fit"      // the changed input breaks the schema (S11.2)
	LeftNoTool     Reason = "no_such_tool"
	LeftNoProposal Reason = "no_proposal" // the reflector would not try again
	LeftTooLarge   Reason = "too_large"   // with the label of the original
)

// Left is a selected call that is not replayed, and why.
type Left struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
}

// Item is what is planned for one original.
type Item struct {
	Call    string          `json:"call"`
	Ref     string          `json:"ref,omitempty"`
	Tool    string          `json:"tool"`
	Status  messages.Status `json:"status"`
	Code    messages.Code   `json:"code,omitempty"`
	Left    *Left           `json:"left_out,omitempty"`
	Changes []story.Change  `json:"changes,omitempty"`    // of tool and input
	By      string          `json:"changed_by,omitempty"` // who proposed them
	// Submission is what is submitted, without an id; meaningless if Left is set.
	Submission messages.Submission `json:"-"`
}

// Proposal is what a reflector would do now (S9.5): try again, perhaps with
// another tool or input, or not.
type Proposal struct {
	Retry bool
	Tool  string // empty: the same
	Input []byte // nil: the same
	By    string // who proposes
	Why   string // without Retry: why not
}

// Planner plans replays. Its methods may be called by one goroutine at a time.
type Planner struct {
	Run    string // name of the run of the replays
	Lane   messages.Lane
	Policy json.RawMessage // over what the call brought; nil: nothing
	Change Change
	// Tools are those of the pool, by name.
	Tools map[string]messages.ToolSpec
	// Named are the calls that were asked for by id: they may repeat an effect.
	Named map[string]bool
	// Effects: so may all others.
	Effects bool
	// Replayed are calls that were replayed before. Nil where that does not matter.
	Replayed map[string]bool

	schemas schema.Cache
}

// Plan says what is submitted for o, or why nothing is. p is what a reflector
// proposes, nil where none was asked. ctx bounds the changing of an input.
func (pl *Planner) Plan(ctx context.Context, o *Original, p *Proposal) Item {
	it := Item{Call: o.Result.Call, Ref: o.Ref, Tool: o.Asked(), Status: o.Status, Code: o.Code}
	if pl.Replayed[it.Call] {
		return it.leave(LeftReplayed, "it was replayed before; `mulligan explain` names the replay")
	}
	if !o.HasInput {
		return it.leave(LeftNoInput, "what it was called with is not kept: a call that never failed leaves its input only in the file it came from")
	}
	if p != nil && !p.Retry {
		return it.leave(LeftNoProposal, p.Why)
	}
	tool, input, err := pl.changed(ctx, o, p)
	if err != nil {
		return it.leave(LeftUnchanged, err.Error())
	}
	spec, known := pl.Tools[tool]
	if !known {
		return it.leave(LeftNoTool, fmt.Sprintf("tool %q is not there; `mulligan tools` lists those that are", tool))
	}
	if p != nil {
		it.By = p.By
	}
	it.Changes = story.Changes(it.Tool, string(o.Input), tool, string(input))
	if len(it.Changes) > 0 {
		if why := pl.misfit(spec, input); why != "" {
			return it.leave(LeftMisfit, why)
		}
	}
	if o.Effect == "" { // it never failed, so that nothing froze one
		o.Effect = cmp.Or(pl.Tools[o.Tool].Effect, messages.Unsafe)
	}
	key, why := repetition(o, recovery.Digest(tool, input), recovery.Digest(o.Asked(), o.Input))
	if why != "" && !pl.Effects && !pl.Named[it.Call] {
		return it.leave(LeftEffect, why)
	}
	it.Submission = pl.submission(o, tool, input, key)
	check := it.Submission
	check.Call = it.Call // it gets one of its own when it is submitted
	if err := check.Check(); err != nil {
		return it.leave(LeftTooLarge, err.Error())
	}
	return it
}

func (it Item) leave(r Reason, text string) Item {
	it.Left = &Left{r, text}
	return it
}

func (pl *Planner) changed(ctx context.Context, o *Original, p *Proposal) (tool string, input []byte, err error) {
	tool, input = o.Asked(), o.Input
	if p != nil {
		if p.Tool != "" {
			tool = p.Tool
		}
		if p.Input != nil {
			input = p.Input
		}
	}
	if pl.Change.Tool != "" {
		tool = pl.Change.Tool
	}
	input, err = pl.Change.Input(ctx, input)
	return tool, input, err
}

// misfit says why a changed input breaks the schema of the tool that would run.
func (pl *Planner) misfit(spec messages.ToolSpec, input []byte) string {
	s, err := pl.schemas.Compile(spec.Schema)
	if err != nil {
		return fmt.Sprintf("the schema of tool %q cannot be used: %v", spec.Name, err)
	}
	if err := s.Validate(input); err != nil {
		return err.Error()
	}
	return ""
}

// submission is the original as it was submitted, but for its deadline, which
// was of then.
func (pl *Planner) submission(o *Original, tool string, input []byte, key string) messages.Submission {
	labels := maps.Clone(o.Call.Labels)
	if labels == nil {
		labels = make(messages.Labels, 1)
	}
	labels[messages.LabelReplayOf] = o.Result.Call
	policy := o.Call.Policy
	if pl.Policy != nil {
		policy = recovery.Under(policy, pl.Policy)
	}
	return messages.Submission{
		Ref: o.Ref, Run: pl.Run, Tool: tool, Input: slices.Clone(input), Lane: pl.Lane, Timeout: o.Call.Timeout, Task: o.Call.Task,
		Labels: labels, Policy: policy, Key: key,
	}
}
