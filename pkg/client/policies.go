package client

import (
	"context"
	"errors"
	"fmt"

	"mulligan/pkg/messages"
)

// SetPolicies replaces the policies of the pool and gives the revision that
// holds then. A nil error means that they are durable; every part of the pool
// follows within moments. It may be repeated.
func (c *Client) SetPolicies(ctx context.Context, r messages.PolicyRequest) (revision uint64, err error) {
	if r.By == "" {
		r.By = c.cfg.By
	}
	body, err := messages.EncodeService(r)
	if err != nil {
		return 0, err
	}
	err = c.insist(ctx, func(ctx context.Context) error {
		raw, err := c.broker.Request(ctx, messages.EndpointPolicy, body)
		if err != nil {
			return err
		}
		reply, err := messages.DecodeService[messages.PolicyReply](raw)
		if err == nil && reply.Error != "" {
			err = errors.New(reply.Error)
		}
		if err != nil {
			return final(err)
		}
		revision = reply.Revision
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("set the policies: %w", err)
	}
	return revision, nil
}
