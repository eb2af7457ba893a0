package dispatch

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// plan is what the next dispatch runs.
type plan struct {
	call    messages.Call
	input   messages.Body
	content []byte // of input
	changed bool   // tool or input differs from the failed dispatch: a new key (S7.2)
	by      string // what the recovery did, for Mulligan-Recovered-By

	application *messages.Application // what became of the correction; nil for none
	refused     string                // the retry makes no sense any more: why
}

// correct applies the correction that came with the decision, or says why not
// (S3). It never touches what happened: only the next dispatch changes (S3.5).
func (j judgement) correct() plan {
	c := proposed(j.d)
	if c == nil {
		return j.unchanged()
	}
	p := correct(c, j.next, j.f)
	p.application.Rule = j.d.Rule
	if p.changed && slices.Contains(j.next.Tried, recovery.Digest(p.call.Tool, p.content)) {
		return j.tried(p)
	}
	if !p.changed {
		p.by = j.bare()
		return p
	}
	p.by = string(c.Type)
	if j.d.By != "" {
		p.by += " (" + strings.TrimSuffix(j.d.By+"/"+j.d.Rule, "/") + ")"
	}
	return p
}

func (j judgement) unchanged() plan {
	p := same(j.next, j.f)
	p.by = j.bare()
	return p
}

func (j judgement) bare() string {
	if j.fl.Code == messages.CodeBreakerOpen {
		return "" // it only waited
	}
	if j.fl.NothingDone && j.fl.RetryAfter > 0 {
		return "retry_after"
	}
	return "retry"
}

// tried refuses a correction that leads back to what failed before (S3.6). At
// severity low a bare retry is what the analysis expects to work, so that one
// remains; else another attempt would be burnt for nothing.
func (j judgement) tried(p plan) plan {
	p.application.Result = messages.CorrectionRejected
	p.application.Reason = "this input was tried in this call already"
	back := j.unchanged()
	back.application = p.application
	if j.d.Analysis.Severity > messages.Low {
		back.refused = "the correction repeats an input that was tried already"
	}
	return back
}

// note keeps what became of the correction with the record.
func (j *judgement) note(p plan) {
	if p.application != nil {
		j.next.Corrections = append(j.next.Corrections, *p.application)
	}
}

func same(r messages.Record, f Facts) plan {
	return plan{call: r.Call, input: r.Input, content: f.Input}
}

// correct makes the plan of a correction, whoever applies it: the machine or a
// human's approval. Its application is always set.
func correct(c *messages.Correction, r messages.Record, f Facts) plan {
	p := same(r, f)
	p.application = &messages.Application{N: r.N, Type: c.Type, Result: messages.CorrectionNotApplicable}
	switch c.Type {
	case messages.InputFix:
		return fixInput(p, c, f)
	case messages.ToolChange:
		return changeTool(p, c, f)
	}
	p.application.Reason = string(c.Type) + " changes nothing by machine; its guidance is kept"
	return p
}

// fixInput replaces the input. One that is no object is dropped and the retry
// runs uncorrected; one that breaks the schema ends the call, since a nonsense
// correction is worse than none (S3.2).
func fixInput(p plan, c *messages.Correction, f Facts) plan {
	if !isObject(c.ModifiedInput) {
		return rejected(p, "modified_input is not a JSON object")
	}
	if tool, ok := lookup(f, p.call.Tool); ok && tool.Validate != nil {
		if err := tool.Validate(c.ModifiedInput); err != nil {
			p = rejected(p, "modified_input does not fit the schema of tool "+quote(p.call.Tool)+": "+err.Error())
			p.refused = "the correction " + p.application.Reason
			return p
		}
	}
	return applied(withInput(p, c.ModifiedInput))
}

// changeTool swaps the tool and keeps the input, unless the correction brings
// one that fits (S3.3). Everything wrong with it drops it.
func changeTool(p plan, c *messages.Correction, f Facts) plan {
	if c.AlternativeTool == nil || *c.AlternativeTool == "" {
		return rejected(p, "no alternative_tool is named")
	}
	name := *c.AlternativeTool
	if name == p.call.Tool {
		return rejected(p, "alternative_tool is the tool that failed")
	}
	tool, ok := lookup(f, name)
	switch {
	case !ok:
		return rejected(p, "tool "+quote(name)+" is not registered")
	case tool.Unusable != "":
		return rejected(p, "tool "+quote(name)+" cannot be used: "+tool.Unusable)
	}
	if isObject(c.ModifiedInput) && fits(tool, c.ModifiedInput) == "" {
		p = withInput(p, c.ModifiedInput)
	} else if why := fits(tool, p.content); why != "" {
		return rejected(p, "the input does not fit tool "+quote(name)+": "+why)
	}
	p.call.OriginalTool = originalTool(p.call)
	p.call.Tool, p.call.Queue, p.call.Effect = name, tool.Spec.Queue, tool.Spec.Effect
	return applied(p)
}

func withInput(p plan, input []byte) plan {
	p.content = bytes.Clone(input)
	p.input = messages.Body{Inline: p.content}
	return p
}

func fits(tool Tool, input []byte) string {
	if !isObject(input) {
		return "it is not a JSON object"
	}
	if tool.Validate == nil {
		return ""
	}
	if err := tool.Validate(input); err != nil {
		return err.Error()
	}
	return ""
}

func lookup(f Facts, name string) (Tool, bool) {
	if f.Tool == nil {
		return Tool{}, false
	}
	return f.Tool(name)
}

func applied(p plan) plan {
	p.changed = true
	p.application.Result = messages.CorrectionApplied
	return p
}

func rejected(p plan, why string) plan {
	p.application.Result, p.application.Reason = messages.CorrectionRejected, excerpt.Head(why, maxDetail)
	return p
}

func quote(name string) string { return "'" + name + "'" }

func isObject(b []byte) bool {
	t := bytes.TrimLeft(b, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && json.Valid(t)
}
