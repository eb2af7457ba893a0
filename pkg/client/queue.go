package client

import (
	"context"
	"errors"
	"fmt"

	"mulligan/pkg/messages"
)

// QueueError says that the coordinators refused a change of a queue: there is
// none of that name, or a value that they do not take.
type QueueError struct {
	Code messages.Code // CodeBadCall or CodeNotFound
	Text string
}

func (e *QueueError) Error() string { return e.Text }

// SetQueue pauses or resumes a queue, or changes its limits, and gives what
// holds then. A nil error means that it is durable and that the broker keeps to
// it; calls that workers have already go on. It may be repeated.
//
// What the coordinators refuse is a *QueueError.
func (c *Client) SetQueue(ctx context.Context, r messages.QueueRequest) (messages.QueueSettings, error) {
	if r.By == "" {
		r.By = c.cfg.By
	}
	body, err := messages.EncodeService(r)
	if err != nil {
		return messages.QueueSettings{}, fmt.Errorf("set the queue: %w", &QueueError{Code: messages.CodeBadCall, Text: err.Error()})
	}
	var reply messages.QueueReply
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, messages.EndpointQueue, body)
		if err != nil {
			return err
		}
		reply, err = messages.DecodeService[messages.QueueReply](raw)
		switch {
		case err != nil:
			return final(fmt.Errorf("answer of the coordinator: %w", err))
		case reply.Code == messages.CodeNotStored:
			return errors.New(reply.Error)
		case reply.Error != "":
			return final(&QueueError{Code: reply.Code, Text: reply.Error})
		case reply.Settings == nil:
			return final(errors.New("answer of the coordinator: no settings are in it"))
		}
		return nil
	})
	if err != nil {
		return messages.QueueSettings{}, fmt.Errorf("set the queue: %w", err)
	}
	return *reply.Settings, nil
}
