package hook

import (
	"bytes"
	"context"
	"maps"
	"time"

	"mulligan/internal/expression"
	"mulligan/pkg/messages"
)

// Hook is asked before a call runs, told after an attempt, or both. Its
// functions are called concurrently. What they are given is theirs: nobody
// sees what they change in it.
type Hook struct {
	// Name is shown with a veto and counted under. Required, unlike that of any
	// other hook of the chain: letters, digits and . _ -, at most 60.
	Name string
	// Priority orders hooks: the lowest is asked first, equal ones in their order.
	Priority int
	// Before returns why the call must not run, for the caller's model, or "".
	// An error, a panic, or more time than ctx leaves is a veto too. Nil vetoes
	// nothing.
	Before func(ctx context.Context, c Call) (veto string, err error)
	// After is told how an attempt ended, when its outcome is stored. Nil
	// observes nothing.
	After func(ctx context.Context, a Attempt)

	// when is the expression of a rule, which changes nothing that it is given.
	when *expression.Expression
}

// Call is a dispatch that is about to run.
type Call struct {
	ID           string
	Ref          string // the submitter's own id
	Run          messages.Run
	Tool         string
	OriginalTool string // the one first asked for, after a change of tool
	Queue        string
	Lane         messages.Lane
	Effect       messages.Effect
	Attempt      int    // what the budget of retries counts, from 0
	Dispatch     int    // from 0
	Key          string // idempotency key
	Labels       messages.Labels
	// Task is what the caller wants to reach. It is empty, and TaskApart set, where
	// it was too long to travel with the call and was not read.
	Task      string
	TaskApart bool
	// Input is what the tool would be given, byte for byte. It is nil where Size
	// is above 0 if it is not stored any more.
	Input []byte
	Size  int64 // of the input, in bytes

	read *reading // by expressions
}

// CallOf makes the call of a dispatch. input is what its body stands for, nil
// if that is not known.
func CallOf(c messages.Call, input []byte) Call {
	call := Call{
		ID: c.ID, Ref: c.Ref, Run: c.Run, Tool: c.Tool, OriginalTool: c.OriginalTool, Queue: c.Queue, Lane: c.Lane, Effect: c.Effect,
		Attempt: c.Attempt, Dispatch: c.Dispatch, Key: c.Key, Labels: c.Labels, Task: c.Task, TaskApart: c.TaskRef != nil,
		Input: input, Size: int64(len(input)),
	}
	if input == nil && c.Input.Ref != nil {
		call.Size = c.Input.Ref.Size
	}
	return call
}

func (c Call) clone() Call {
	c.Input, c.Labels = bytes.Clone(c.Input), maps.Clone(c.Labels)
	return c
}

// Attempt is how a dispatch ended, as it was stored. One that ran nothing is
// among them, such as a veto: Executed is false then.
type Attempt struct {
	Call

	Code      messages.Code // of the failure; empty for a success
	Error     string        // of the failure, at most [MaxError] bytes of it
	Ambiguous bool          // an effect may have happened although it failed (S7.3)
	Executed  bool          // the tool was started
	// Late: another outcome had been stored before, so that this one changes
	// nothing (S7.5).
	Late   bool
	Took   time.Duration // in the tool
	Worker string        // empty where a coordinator found that nothing can run
	At     time.Time     // when it ended
}

// MaxError is how much of an error an observer sees, in bytes.
const MaxError = 4 << 10

// Succeeded says whether the tool did what it was asked for.
func (a Attempt) Succeeded() bool { return a.Code == "" }

// Attrs are the attempt as the keys and values of a log line.
func (a Attempt) Attrs() []any {
	outcome := "succeeded"
	if !a.Succeeded() {
		outcome = "failed"
	}
	return []any{"call", a.ID, "tool", a.Tool, "dispatch", a.Dispatch, "outcome", outcome, "code", string(a.Code), "took", a.Took}
}

// Failed is the attempt that ended with f.
func Failed(c Call, f messages.Failure) Attempt {
	return Attempt{Call: c, Code: f.Code, Error: cut(f.Error, MaxError), Ambiguous: f.Ambiguous, Executed: f.Executed,
		Took: f.Duration.Duration(), Worker: f.Worker, At: f.At}
}

// Succeeded is the attempt that ended with r.
func Succeeded(c Call, r messages.Result) Attempt {
	return Attempt{Call: c, Executed: true, Took: r.Duration.Duration(), Worker: r.Worker, At: r.Ended}
}
