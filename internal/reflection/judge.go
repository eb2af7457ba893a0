package reflection

import (
	"context"
	"fmt"
	"strings"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// Judge decides on failures that were recorded as a reflector of the pool would
// decide now on a first attempt with a retry left: with the policies and rules that hold, within the
// bounds that hold every decision (S3.7, S9.5). It reads and writes nothing.
type Judge struct {
	deciders *deciders
	tools    []messages.ToolSpec // that can be called, with the effects that policies say
}

// NewJudge makes a judge of the reflectors, model and log of cfg, which needs no
// broker, the policies of the pool as CONTROL holds them, and its tools.
func NewJudge(cfg Config, policies messages.Entry, tools []messages.ToolSpec) (*Judge, error) {
	d, err := newDeciders(cfg.WithDefaults())
	if err != nil {
		return nil, err
	}
	d.book.Apply(policies)
	if policies.Revision != d.book.Revision() { // which the book has logged
		return nil, fmt.Errorf("the policies of the pool (revision %d) cannot be read by this version", policies.Revision)
	}
	return &Judge{deciders: d, tools: tools}, nil
}

// Decide gives the decision on a failure whose input is given beside it.
func (j *Judge) Decide(ctx context.Context, f messages.Failure, input []byte) (messages.Decision, error) {
	p := j.deciders.book.For(f.Call.Queue, f.Call.Tool, f.Call.Policy)
	if p.Retries() == 0 { // that of a storm: what is asked for is one more try
		p.MaxRetries = new(1)
	}
	decider, err := j.deciders.with(p)
	if err != nil {
		return messages.Decision{}, err
	}
	c := recovery.Case{
		Tool: f.Call.Tool, Effect: f.Call.Effect, Code: f.Code, Error: excerpt.Of(f.Error, maxText), Input: input,
		Executed: f.Executed, Ambiguous: f.Ambiguous, NothingDone: f.NothingDone, RetryAfter: f.RetryAfter.Duration(), Tools: j.tools,
		Context: messages.ReflectionContext{Task: excerpt.Of(f.Call.Task, maxText), MaxAttempts: messages.MaxRetries},
	}
	if len(input) > maxInput {
		c.Input, c.InputCut = input[:maxInput], true
	}
	if c.Error == "" {
		c.Error = strings.ToValidUTF8(excerpt.Of(string(f.Output.Inline), maxText), "\uFFFD")
	}
	if spec, ok := c.Lookup(f.Call.Tool); ok && f.Code != messages.CodeToolNotFound {
		c.Schema = spec.Schema
	}
	return decider.Decide(ctx, c), nil
}
