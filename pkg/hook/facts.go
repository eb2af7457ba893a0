package hook

import (
	"errors"
	"fmt"

	"mulligan/internal/expression"
	"mulligan/pkg/messages"
)

const (
	// MaxInput is the size in bytes of the largest input that expressions look
	// into. A veto that would have to look into a larger one cannot be decided,
	// so the call does not run.
	MaxInput = 1 << 20
	// maxMatching is what all rules of a chain may spend on regular expressions
	// for one call, see [expression.NewWork]: a tenth of a second or so.
	maxMatching = 1 << 24
)

// What the lazy names input and task stand for.
const (
	inputName = "read_input"
	taskName  = "read_task"
)

// facts are what the expression of a veto sees.
type facts struct {
	expression.Functions

	Tool         string            `expr:"tool"`
	OriginalTool string            `expr:"original_tool"`
	Queue        string            `expr:"queue"`
	Run          string            `expr:"run"` // as its submitter named it; empty for none
	Ref          string            `expr:"ref"`
	Lane         string            `expr:"lane"`
	Effect       string            `expr:"effect"`
	Attempt      int               `expr:"attempt"`
	Dispatch     int               `expr:"dispatch"`
	Labels       map[string]string `expr:"labels"`
	Size         int               `expr:"size"`

	ReadInput func() (map[string]any, error) `expr:"read_input"`
	ReadTask  func() (string, error)         `expr:"read_task"`
}

// attemptFacts are what that of a note sees.
type attemptFacts struct {
	facts

	Outcome   string `expr:"outcome"` // succeeded or failed
	Code      string `expr:"code"`
	Error     string `expr:"error"`
	Ambiguous bool   `expr:"ambiguous"`
	Executed  bool   `expr:"executed"`
	Late      bool   `expr:"late"`
	Took      int    `expr:"took_ms"`
	Worker    string `expr:"worker"`
}

func factsOf(c Call) facts {
	effect := c.Effect
	if effect == "" {
		effect = messages.Unsafe // S7.1
	}
	return facts{
		Tool: c.Tool, OriginalTool: c.OriginalTool, Queue: c.Queue, Run: c.Run.Name(), Ref: c.Ref, Lane: string(c.Lane), Effect: string(effect),
		Attempt: c.Attempt, Dispatch: c.Dispatch, Labels: c.Labels, Size: int(c.Size),
		ReadInput: c.input, ReadTask: c.task,
	}
}

func attemptFactsOf(a Attempt) attemptFacts {
	f := attemptFacts{
		facts: factsOf(a.Call), Outcome: string(messages.Succeeded), Code: string(a.Code), Error: a.Error, Ambiguous: a.Ambiguous,
		Executed: a.Executed, Late: a.Late, Took: int(a.Took.Milliseconds()), Worker: a.Worker,
	}
	if !a.Succeeded() {
		f.Outcome = string(messages.Failed)
	}
	return f
}

// reading is what the rules of a chain share: the input as it was read for the
// first that looked into it, and what they may spend.
type reading struct {
	work  *expression.Work
	done  bool
	input map[string]any
	err   error
}

func newReading() *reading { return &reading{work: expression.NewWork(maxMatching)} }

func (c Call) input() (map[string]any, error) {
	if !c.read.done {
		c.read.done = true
		c.read.input, c.read.err = c.decode()
	}
	return c.read.input, c.read.err
}

func (c Call) decode() (map[string]any, error) {
	switch {
	case c.Size > MaxInput:
		return nil, fmt.Errorf("the input is %d bytes long, and expressions look into %d at most", c.Size, MaxInput)
	case c.Input == nil:
		return nil, errors.New("the input is not stored any more")
	}
	m, err := expression.Object(c.Input)
	if err != nil {
		return nil, fmt.Errorf("the input is %w", err)
	}
	return m, nil
}

func (c Call) task() (string, error) {
	if c.TaskApart {
		return "", errors.New("the task is too long to travel with the call, and was not read")
	}
	return c.Task, nil
}
