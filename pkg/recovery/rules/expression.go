package rules

import (
	"github.com/expr-lang/expr"

	"mulligan/internal/expression"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// maxMatching is what the analysis of one failure may spend on regular
// expressions: a second or so.
const maxMatching = 1 << 28

// facts are what an expression sees of a failure.
type facts struct {
	expression.Functions

	Tool        string         `expr:"tool"`
	Error       string         `expr:"error"`
	Code        string         `expr:"code"`
	Input       map[string]any `expr:"input"` // empty if it is no JSON object or was cut
	Effect      string         `expr:"effect"`
	Attempt     int            `expr:"attempt"`      // from 0
	MaxAttempts int            `expr:"max_attempts"` // retries that are left in all
	Executed    bool           `expr:"executed"`
	Ambiguous   bool           `expr:"ambiguous"`
	Task        string         `expr:"task"`
	Causes      []string       `expr:"causes"`

	work *expression.Work
}

// evaluation is an expression over facts.
type evaluation struct{ *expression.Expression }

func compileExpression(text string, options ...expr.Option) (evaluation, error) {
	e, err := expression.Compile(text, facts{}, options...)
	return evaluation{e}, err
}

// run evaluates for one failure.
func (e evaluation) run(f facts) (any, error) {
	f.Functions = e.Functions(f.work)
	return e.Run(f, f.work)
}

func factsOf(c recovery.Case, input map[string]any) facts {
	f := facts{
		Tool: c.Tool, Error: c.Error, Code: string(c.Code), Effect: string(c.Effect), Attempt: c.Context.Attempt, MaxAttempts: c.Context.MaxAttempts,
		Executed: c.Executed, Ambiguous: c.Ambiguous, Task: c.Context.Task, Causes: c.Context.Causes,
		work: expression.NewWork(maxMatching),
	}
	f.Input, _ = expression.Counted(input).(map[string]any)
	if f.Effect == "" {
		f.Effect = string(messages.Unsafe) // S7.1
	}
	return f
}
