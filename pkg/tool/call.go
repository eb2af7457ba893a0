package tool

import (
	"context"
	"log/slog"
	"time"

	"mulligan/pkg/messages"
)

// Call is what a tool is told about one execution. It belongs to the tool
// until the tool returns; Input and Labels must not be changed.
type Call struct {
	ID  string       // of the call, the same in all its attempts
	Ref string       // the submitter's own id; empty if there is none
	Run messages.Run // Run.Name is what the submitter called it
	// Key is the idempotency key: the same while tool and input are, new when a
	// correction changed either (S7.2). A tool that is declared keyed hands it
	// to whatever makes its effect happen once.
	Key      string
	Attempt  int // from 0, what the budget counts
	Dispatch int // from 0, one for each publish of the call
	Labels   messages.Labels
	Deadline time.Time // of the whole call; zero for none. The context ends with it
	Input    []byte    // the arguments, byte for byte as submitted or corrected
	// Log carries call, run, dispatch and tool. It is never nil in a running tool.
	Log *slog.Logger
}

type callKey struct{}

// FromContext gives a typed tool the call that it runs for. Outside of an
// execution it is a zero Call whose Log discards.
func FromContext(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c.withLog()
}

func (c Call) withLog() Call {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
