package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"mulligan/pkg/messages"
)

// RunError says that a declaration, or the closing of a run, was refused. Field
// is that of the spec which is to blame, empty for none.
type RunError struct {
	Run   messages.Run
	Code  messages.Code
	Field string
	Text  string
}

func (e *RunError) Error() string { return e.Text }

// Unwrap makes a run that nobody declared [messages.ErrNotFound].
func (e *RunError) Unwrap() error {
	if e.Code == messages.CodeNotFound {
		return messages.ErrNotFound
	}
	return nil
}

// DeclareRun declares a run before its calls are submitted. A nil error means
// that it is durable, and holds for whatever this client submits to the run from
// now on. The same may be declared again, as by a submitter that goes on after a
// crash; another spec for a run that was declared is a [*RunError] with
// CodeRunDiffers and the first field that differs.
func (c *Client) DeclareRun(ctx context.Context, run messages.Run, spec messages.RunSpec) (messages.RunEntry, error) {
	return c.changeRun(ctx, messages.RunRequest{Run: run, Action: messages.RunDeclare, Spec: &spec, By: c.cfg.By})
}

// CloseRun says that no call comes into a declared run any more: then it is over
// once all have ended. calls is how many were accepted; below 0 where that is not
// known. It may be repeated.
func (c *Client) CloseRun(ctx context.Context, run messages.Run, calls int64) (messages.RunEntry, error) {
	r := messages.RunRequest{Run: run, Action: messages.RunClose, By: c.cfg.By}
	if calls >= 0 {
		r.Calls = &calls
	}
	return c.changeRun(ctx, r)
}

// DeleteRun has everything of a run deleted (S12.1), which the coordinators do
// after a lease; a nil error means that they will. It may be repeated, and tells
// how far they are: [messages.RunEntry.Gone]. A run of which a call has not ended
// is a [*RunError] with CodeRunNotOver.
func (c *Client) DeleteRun(ctx context.Context, run messages.Run) (messages.RunEntry, error) {
	return c.changeRun(ctx, messages.RunRequest{Run: run, Action: messages.RunErase, By: c.cfg.By})
}

func (c *Client) changeRun(ctx context.Context, r messages.RunRequest) (messages.RunEntry, error) {
	endpoint := messages.EndpointRun
	if r.Action == messages.RunErase {
		endpoint = messages.EndpointDelete
	}
	if r.By == "" {
		r.By = "unknown"
	}
	body, err := messages.EncodeService(r)
	if err != nil {
		return messages.RunEntry{}, &RunError{Run: r.Run, Code: messages.CodeBadRun, Text: err.Error()}
	}
	var reply messages.RunReply
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, endpoint, body)
		if err != nil {
			return err
		}
		reply, err = messages.DecodeService[messages.RunReply](raw)
		switch {
		case err != nil:
			return final(fmt.Errorf("answer of the coordinator: %w", err))
		case reply.Code == messages.CodeNotStored:
			return errors.New(reply.Error)
		case reply.Error != "":
			return final(&RunError{Run: r.Run, Code: reply.Code, Field: reply.Field, Text: reply.Error})
		case reply.Entry == nil:
			return final(errors.New("answer of the coordinator: no run is in it"))
		}
		return nil
	})
	if err != nil {
		return messages.RunEntry{}, fmt.Errorf("run: %w", err)
	}
	raise(&c.runs, reply.Revision)
	return *reply.Entry, nil
}

// raise sets a to v where that is more.
func raise(a *atomic.Uint64, v uint64) {
	for {
		was := a.Load()
		if v <= was || a.CompareAndSwap(was, v) {
			return
		}
	}
}
