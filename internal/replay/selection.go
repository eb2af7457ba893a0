package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"

	"mulligan/internal/expression"
	"mulligan/pkg/messages"
)

// Selection says which calls are meant: those of which all that is set holds.
// The zero Selection means every call that failed, was exhausted or is unknown.
type Selection struct {
	Calls    []string // ids; any of them
	Statuses []messages.Status
	Runs     []messages.Run
	Tools    []string // first asked for, or ran last
	Codes    []messages.Code
	Labels   map[string]string
	Queues   []string
	// By are reflectors ("rules"), or rules of them ("rules/json-type"), that
	// decided last.
	By []string
	// Text is found in what the tool said, or in the reason.
	Text *regexp.Regexp
	// Since and Until bound when a call ended; zero: no bound.
	Since, Until time.Time

	where                  *expression.Expression
	whereStory, whereInput bool
}

// Failures are the statuses of a Selection that names none.
func Failures() []messages.Status {
	return []messages.Status{messages.Failed, messages.Exhausted, messages.StatusUnknown}
}

// environment is what a condition of the operator sees.
type environment struct {
	expression.Functions
	Call         string                         `expr:"call"`
	Run          string                         `expr:"run"`
	Ref          string                         `expr:"ref"`
	Tool         string                         `expr:"tool"`
	OriginalTool string                         `expr:"original_tool"`
	Status       string                         `expr:"status"`
	Code         string                         `expr:"code"`
	Attempts     int                            `expr:"attempts"`
	Text         string                         `expr:"text"`
	Reason       string                         `expr:"reason"`
	RecoveredBy  string                         `expr:"recovered_by"`
	Duration     int                            `expr:"duration_ms"`
	Labels       map[string]string              `expr:"labels"`
	Queue        string                         `expr:"queue"`
	Effect       string                         `expr:"effect"`
	By           string                         `expr:"by"`
	Rule         string                         `expr:"rule"`
	Ambiguous    bool                           `expr:"ambiguous"`
	Read         func() (map[string]any, error) `expr:"read_input"`
}

// ofStory are the names that the result of a call does not tell.
func ofStory() []string {
	return []string{"queue", "effect", "by", "rule", "ambiguous"}
}

// Where adds a condition in the language of package expression.
func (s *Selection) Where(text string) error {
	e, err := expression.Compile(text, environment{}, expression.Lazy("input", "read_input"), expr.AsBool())
	if err != nil {
		return err
	}
	s.where = e
	s.whereInput = e.Uses("input") || e.Uses("read_input")
	s.whereStory = s.whereInput || slices.ContainsFunc(ofStory(), e.Uses)
	return nil
}

// NeedsStory says that results alone do not tell what is meant.
func (s *Selection) NeedsStory() bool {
	return len(s.Queues) > 0 || len(s.By) > 0 || s.where != nil && s.whereStory
}

// NeedsInput says that the condition looks into inputs.
func (s *Selection) NeedsInput() bool { return s.whereInput }

// Result says whether a call may be meant, as far as its result tells. An error
// is that of the condition.
func (s *Selection) Result(o *Original, w *expression.Work) (bool, error) {
	r := &o.Result
	switch {
	case len(s.Statuses) > 0 && !slices.Contains(s.Statuses, r.Status),
		len(s.Statuses) == 0 && len(s.Calls) == 0 && !slices.Contains(Failures(), r.Status),
		len(s.Calls) > 0 && !slices.Contains(s.Calls, r.Call),
		len(s.Runs) > 0 && !slices.Contains(s.Runs, r.Run),
		len(s.Tools) > 0 && !slices.Contains(s.Tools, r.Tool) && !slices.Contains(s.Tools, o.Asked()),
		len(s.Codes) > 0 && !slices.Contains(s.Codes, r.Code),
		!s.Since.IsZero() && r.Ended.Before(s.Since),
		!s.Until.IsZero() && !r.Ended.Before(s.Until):
		return false, nil
	}
	for k, v := range s.Labels {
		if got, ok := r.Labels[k]; !ok || got != v {
			return false, nil
		}
	}
	if s.Text != nil && !s.Text.MatchString(o.Text) && !s.Text.MatchString(r.Reason) {
		return false, nil
	}
	if s.where == nil || s.whereStory {
		return true, nil
	}
	return s.holds(o, w)
}

// Story says whether a call is meant that [Selection.Result] let pass.
func (s *Selection) Story(o *Original, w *expression.Work) (bool, error) {
	if len(s.Queues) > 0 && !slices.Contains(s.Queues, o.Queue) {
		return false, nil
	}
	if len(s.By) > 0 && !slices.Contains(s.By, o.By) && !slices.Contains(s.By, o.By+"/"+o.Rule) {
		return false, nil
	}
	if s.where == nil || !s.whereStory {
		return true, nil
	}
	return s.holds(o, w)
}

func (s *Selection) holds(o *Original, w *expression.Work) (bool, error) {
	env := environment{
		Functions: s.where.Functions(w), Call: o.Result.Call, Run: o.Run.Name(), Ref: o.Ref, Tool: o.Tool, OriginalTool: o.Asked(), Status: string(o.Status),
		Code: string(o.Code), Attempts: o.Attempts, Text: o.Text, Reason: o.Reason, RecoveredBy: o.RecoveredBy, Duration: int(o.Duration.Duration().Milliseconds()),
		Labels: o.Labels, Queue: o.Queue, Effect: string(o.Effect), By: o.By, Rule: o.Rule, Ambiguous: o.ambiguous(),
		Read: func() (map[string]any, error) {
			if !o.HasInput {
				return nil, fmt.Errorf("the input of call %s is not known", o.Result.Call)
			}
			return expression.Object(o.Input)
		},
	}
	v, err := s.where.Run(env, w)
	if err != nil {
		return false, fmt.Errorf("the condition cannot be evaluated for call %s: %w", o.Result.Call, err)
	}
	yes, _ := v.(bool) // the compiler saw to it
	return yes, nil
}

// keptText is how much of what a tool said is kept once it was looked at, in bytes.
const keptText = 1 << 10

// FromResult makes an original of a result. text is what the tool said, if it
// is kept in the result itself.
func FromResult(r messages.Result, position uint64) *Original {
	o := &Original{Result: r, Text: string(r.Output.Inline), Position: position}
	o.Output = messages.Body{}
	return o
}

// Shorten cuts the texts that were only wanted for the selection, so that many
// originals fit into memory.
func (o *Original) Shorten() {
	if len(o.Text) > keptText {
		o.Text = o.Text[:keptText]
	}
	o.Text = strings.Clone(o.Text) // and lets go of the message that it was part of
	o.Guidance = ""
}

// Forget lets go of the input, which can be read again.
func (o *Original) Forget() { o.Call, o.Input, o.HasInput = messages.Call{}, nil, false }
