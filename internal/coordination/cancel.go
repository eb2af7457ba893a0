package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/pkg/messages"
)

// cancel answers EndpointCancel. When it says yes the wish is durable: a
// trigger that any coordinator can take up, and an entry in CONTROL that the
// workers see.
func (c *Coordinator) cancel(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.CancelRequest](request)
	if err != nil {
		return encodeReply(messages.CancelReply{Error: err.Error()})
	}
	wish := messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: req.Reason, By: req.By, At: time.Now().UTC()}
	if wish.Reason == "" {
		wish.Reason = "cancelled"
		if req.By != "" {
			wish.Reason += " by " + req.By
		}
	}
	var reply messages.CancelReply
	if req.Call == "" {
		err = c.cancelRun(ctx, req.Run, wish)
	} else {
		reply.Ended, err = c.cancelCall(ctx, req.Run, req.Call, wish)
	}
	if err != nil {
		reply = messages.CancelReply{Error: err.Error()}
		c.log.Warn("a cancellation was refused", "run", string(req.Run), "call", req.Call, "error", err)
	}
	return encodeReply(reply)
}

// cancelRun tells the workers first and then makes the wish durable; what is
// submitted or written after this sees the run ended.
func (c *Coordinator) cancelRun(ctx context.Context, run messages.Run, wish messages.Cancel) error {
	return c.endRun(ctx, run, wish)
}

// cancelCall gives the status of a call that had ended before.
func (c *Coordinator) cancelCall(ctx context.Context, run messages.Run, call string, wish messages.Cancel) (messages.Status, error) {
	m, err := c.broker.Get(ctx, c.names.ResultSubject(run, call))
	if err == nil {
		res, err := c.names.DecodeResult(m.Message)
		return res.Status, err
	}
	if !errors.Is(err, messages.ErrNotFound) {
		return "", fmt.Errorf("the result cannot be read: %w", err)
	}
	known, err := c.knows(ctx, run, call)
	if err != nil {
		return "", err
	}
	if !known {
		return "", fmt.Errorf("no call %s is known in run %s", call, runName(run))
	}
	if err := c.runs.control(ctx, messages.ControlCallKey(run, call), wish); err != nil {
		return "", err
	}
	return "", c.runs.putCancel(ctx, run, call, wish)
}

func runName(run messages.Run) string {
	if run.Named() {
		return "'" + run.Name() + "'"
	}
	return string(run)
}

// knows says whether a call that has not ended is anywhere: queued or running,
// failed at least once, or with a record.
func (c *Coordinator) knows(ctx context.Context, run messages.Run, call string) (bool, error) {
	for _, subject := range []string{c.names.CallFilter(run, call), c.names.FailureSubject(run, call, 0), c.names.ResultSubject(run, call)} {
		_, err := c.broker.Get(ctx, subject)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, messages.ErrNotFound) {
			return false, fmt.Errorf("the call cannot be looked for: %w", err)
		}
	}
	_, err := c.broker.Load(ctx, messages.BucketAttempts, messages.CallKey(run, call))
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
