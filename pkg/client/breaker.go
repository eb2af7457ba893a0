package client

import (
	"context"
	"errors"
	"fmt"

	"mulligan/pkg/messages"
)

// SetBreaker opens or closes the breaker of a tool and gives what holds then. A
// nil error means that it is durable; every part of the pool follows within
// moments. It may be repeated; an open one is then open for as long again.
//
// What the coordinators refuse is a *BreakerError.
func (c *Client) SetBreaker(ctx context.Context, r messages.BreakerRequest) (messages.Breaker, error) {
	if r.By == "" {
		r.By = c.cfg.By
	}
	body, err := messages.EncodeService(r)
	if err != nil {
		return messages.Breaker{}, fmt.Errorf("set the breaker: %w", err)
	}
	var reply messages.BreakerReply
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, messages.EndpointBreaker, body)
		if err != nil {
			return err
		}
		reply, err = messages.DecodeService[messages.BreakerReply](raw)
		switch {
		case err != nil:
			return final(fmt.Errorf("answer of the coordinator: %w", err))
		case reply.Code == messages.CodeNotStored:
			return errors.New(reply.Error)
		case reply.Error != "":
			return final(&BreakerError{Code: reply.Code, Text: reply.Error})
		case reply.Breaker == nil:
			return final(errors.New("answer of the coordinator: no breaker is in it"))
		}
		return nil
	})
	if err != nil {
		return messages.Breaker{}, fmt.Errorf("set the breaker: %w", err)
	}
	return *reply.Breaker, nil
}
