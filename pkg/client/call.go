package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mulligan/pkg/messages"
)

// Call submits one call and waits for its result, whatever its status. When
// ctx is done first it returns the cause, and the call goes on; see Cancel. A
// refusal is a [*RefusedError].
//
// A call that brings its own id is attached to: if it was submitted before, by
// anybody, its result is returned and it does not run again. Without a run it
// is then a batch of its own, named by its id, so that it is found again.
func (c *Client) Call(ctx context.Context, s messages.Submission) (messages.Result, error) {
	batch, attach := c.own, s.Call != ""
	if attach && s.Run == "" {
		if err := messages.CheckCallID(s.Call); err != nil {
			return messages.Result{}, &RefusedError{*refuse(s, messages.CodeBadCall, err.Error())}
		}
		batch = c.newBatch(s.Call, 0)
	}
	p, err := batch.Begin(ctx, s, attach)
	if err != nil {
		return messages.Result{}, err
	}
	defer p.Close()
	return p.Wait(ctx)
}

// Ended gives the result of a call that has ended; ErrNotFound says that it has not.
func (c *Client) Ended(ctx context.Context, run messages.Run, call string) (messages.Result, error) {
	m, err := c.broker.Get(ctx, c.names.ResultSubject(run, call))
	if err != nil {
		return messages.Result{}, fmt.Errorf("result of call %s: %w", call, err)
	}
	return c.names.DecodeResult(m.Message)
}

// Cancel asks that a call, or with an empty call a whole run, be ended. A nil
// error means that the wish is durable; the reply says whether the call had
// ended before. The calls then end as cancelled, or with what they reached
// first.
func (c *Client) Cancel(ctx context.Context, r messages.CancelRequest) (messages.CancelReply, error) {
	r.Version = messages.Version
	if r.By == "" {
		r.By = c.cfg.By
	}
	var reply messages.CancelReply
	body, err := json.Marshal(r)
	if err != nil {
		return reply, fmt.Errorf("cancel: %w", err)
	}
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, messages.EndpointCancel, body)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &reply); err != nil {
			return final(fmt.Errorf("answer of the coordinator: %w", err))
		}
		if reply.Error != "" {
			return final(errors.New(reply.Error))
		}
		return nil
	})
	if err != nil {
		return reply, fmt.Errorf("cancel: %w", err)
	}
	return reply, nil
}
