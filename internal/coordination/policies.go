package coordination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// policy answers EndpointPolicy: it replaces the policies of the pool, as a
// whole and only by what can be used (ADR 0011).
func (c *Coordinator) policy(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.PolicyRequest](request)
	if err == nil {
		err = messages.CheckName("by", req.By, messages.MaxName)
	}
	var reply messages.PolicyReply
	if err == nil {
		reply.Revision, err = c.replacePolicies(ctx, req)
	}
	if err != nil {
		reply.Error = err.Error()
		c.log.Warn("a change of the policies was refused", "by", req.By, "error", err)
	}
	return encodeReply(reply)
}

// replacePolicies gives the revision that holds then. A document that is there
// already is not written again, so that a request can be repeated.
func (c *Coordinator) replacePolicies(ctx context.Context, req messages.PolicyRequest) (uint64, error) {
	next, err := policies.Check(req.Document)
	if err != nil {
		return 0, err
	}
	for {
		was, revision, err := c.loadPolicies(ctx)
		switch {
		case err != nil:
			return 0, err
		case policies.Same(was.Document, req.Document):
			return revision, nil
		case req.Expect != 0 && req.Expect != revision:
			return 0, fmt.Errorf("the policies have changed: revision %d was set by %s, and this change was made for revision %d; look at them and try again",
				revision, cmp.Or(was.By, "nobody"), req.Expect)
		}
		saved, err := c.savePolicies(ctx, req, revision)
		if errors.Is(err, messages.ErrConflict) {
			continue
		}
		if err == nil {
			c.tellPolicies(next, req.By, saved)
		}
		return saved, err
	}
}

// loadPolicies gives revision 0 for a pool that never had any. What cannot be
// read is replaced like anything else.
func (c *Coordinator) loadPolicies(ctx context.Context) (messages.PolicyEntry, uint64, error) {
	e, err := c.broker.Load(ctx, messages.BucketControl, messages.PolicyKey)
	if errors.Is(err, messages.ErrNotFound) {
		return messages.PolicyEntry{}, 0, nil
	}
	if err != nil {
		return messages.PolicyEntry{}, 0, fmt.Errorf("the policies cannot be read: %w", err)
	}
	was, err := messages.DecodePolicies(e.Value)
	if err != nil {
		c.log.Warn("policies that cannot be read are replaced", "revision", e.Revision, "error", err)
	}
	return was, e.Revision, nil
}

// savePolicies writes them for as long as nobody says otherwise; that there are
// none any more is written as well, with who said so.
func (c *Coordinator) savePolicies(ctx context.Context, req messages.PolicyRequest, revision uint64) (uint64, error) {
	b, err := messages.EncodePolicies(messages.PolicyEntry{Document: req.Document, By: req.By, At: time.Now().UTC()})
	if err != nil {
		return 0, err
	}
	saved, err := c.broker.Save(ctx, messages.BucketControl, messages.PolicyKey, b, revision, messages.Forever)
	return saved, wrap("the policies cannot be written", err)
}

// tellPolicies logs who set them, and what they take back of what tools said
// about themselves.
func (c *Coordinator) tellPolicies(d recovery.Document, by string, revision uint64) {
	c.log.Info("policies set", "by", by, "revision", revision)
	for _, t := range c.registry.all() {
		if p, _, err := d.Effective(t.Queue, t.Name, nil); err == nil {
			c.tellWeaker(t, cmp.Or(p.Effect, t.Effect))
		}
	}
}

// tellWeaker logs that a policy demands less care than the tool does: that is
// the operator's word, and nobody checks it. Effects are listed from the safest.
func (c *Coordinator) tellWeaker(t messages.ToolSpec, policy messages.Effect) {
	if slices.Index(messages.Effects(), policy) < slices.Index(messages.Effects(), t.Effect) {
		c.log.Warn("a policy takes a tool for safer than it declares", "tool", t.Name, "declared", string(t.Effect), "policy", string(policy))
	}
}

// placePolicies puts the configured document where it is not there yet. It
// tries until it can, or ctx is done: without it calls would be decided on by
// other rules than the operator's.
func (c *Coordinator) placePolicies(ctx context.Context) error {
	if c.cfg.Document == nil {
		return nil
	}
	var said time.Time
	for p := pauses(); ; {
		revision, err := c.replacePolicies(ctx, messages.PolicyRequest{Document: c.cfg.Document, By: c.cfg.Name})
		if err == nil {
			c.log.Info("the configured policies are those of the pool", "revision", revision)
			return nil
		}
		if ctx.Err() == nil && time.Since(said) >= fullSaid {
			c.log.Warn("the configured policies cannot be set yet", "error", err)
			said = time.Now()
		}
		if !p.Wait(ctx) {
			return context.Cause(ctx)
		}
	}
}
