package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// Case is one failure as a reflector is shown it (S2.1). Reflectors must not
// change what it holds.
type Case struct {
	Tool   string
	Schema json.RawMessage // of the tool's input; nil when none is known
	Effect messages.Effect // as frozen into the dispatch that failed

	// Input is what the tool was called with, byte for byte, or its beginning
	// if InputCut; then no correction can be built from it.
	Input    []byte
	InputCut bool

	Code  messages.Code
	Error string // the error's text; may be cut

	Executed    bool          // the tool was started
	Ambiguous   bool          // an effect may have happened (S7.3)
	NothingDone bool          // the tool said that it did nothing (S6.2)
	RetryAfter  time.Duration // the tool's own hint; 0 for none
	FreeWaits   int           // dispatches before this one that spent no attempt

	// Tools are the tools that can be called now, for a tool_change. Empty
	// means that they are not known.
	Tools []messages.ToolSpec

	Context messages.ReflectionContext

	// MaxRetries is what the policy grants, for "Attempt: n of m" (S4.5), and Budget
	// what models may take for the calls of the run. A [Decider] fills both in.
	MaxRetries int
	Budget     Budget
	// Spent is what they took so far, read when a model is about to be asked. Nil
	// means that nobody knows, and that no budget is held.
	Spent func(context.Context) (messages.Usage, error)
}

// Budget bounds what models take for the calls of one run; 0 means no bound.
type Budget struct {
	Tokens     int64
	CostMicros int64
}

// Over says which bound is reached, or "".
func (b Budget) Over(spent messages.Usage) string {
	switch {
	case b.Tokens > 0 && spent.Tokens() >= b.Tokens:
		return fmt.Sprintf("the run has used its budget of %d tokens (budget_tokens): %d are spent", b.Tokens, spent.Tokens())
	case b.CostMicros > 0 && spent.CostMicros >= b.CostMicros:
		return fmt.Sprintf("the run has used its budget of %d millionths (budget_cost_micros): %d are spent", b.CostMicros, spent.CostMicros)
	}
	return ""
}

// Lookup finds a tool that can be called now.
func (c Case) Lookup(tool string) (messages.ToolSpec, bool) {
	for _, t := range c.Tools {
		if t.Name == tool {
			return t, true
		}
	}
	return messages.ToolSpec{}, false
}

// FreeWait says that waiting for the tool's own hint spends no attempt (S6.2).
func (c Case) FreeWait() bool {
	return c.NothingDone && c.RetryAfter > 0 && c.FreeWaits < messages.MaxFreeWaits
}
