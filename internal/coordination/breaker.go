package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// breaker answers EndpointBreaker: a human opens the breaker of a tool, or
// closes it. When it says yes the change is durable, and every part of the pool
// sees it within moments.
func (c *Coordinator) breaker(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.BreakerRequest](request)
	if err == nil {
		err = c.checkBreaker(ctx, req)
	}
	var reply messages.BreakerReply
	code := messages.CodeBadCall
	if err == nil {
		code = messages.CodeNotStored
		reply.Breaker, err = c.breakers.force(ctx, req)
	}
	if err != nil {
		reply = messages.BreakerReply{Error: err.Error(), Code: code}
		c.log.Warn("a change of a breaker was refused", "tool", req.Tool, "by", req.By, "error", err)
	}
	return encodeReply(reply)
}

// maxForceReason bounds what a human says to it, in bytes: every part of the
// pool keeps it.
const maxForceReason = 1000

// checkBreaker bounds what a human may ask for: who shuts a tool for longer than
// a cancellation is kept takes it away, and says so by a policy or its workers.
func (c *Coordinator) checkBreaker(ctx context.Context, req messages.BreakerRequest) error {
	if err := messages.CheckName("by", req.By, messages.MaxName); err != nil {
		return err
	}
	switch limit := c.cfg.CancelTTL; {
	case req.For < 0 || req.For.Duration() > limit:
		return fmt.Errorf("for_ms %d is not from 0, which means the reset time of the policy, to %d (%s)", req.For.Duration().Milliseconds(), limit.Milliseconds(), limit)
	case req.For > 0 && req.Action != messages.BreakerForceOpen:
		return errors.New("for_ms is given, and a breaker is closed for good; leave it out")
	case len(req.Reason) > maxForceReason:
		return fmt.Errorf("reason is %d bytes long, the limit is %d", len(req.Reason), maxForceReason)
	}
	if _, at := c.registry.find(ctx, req.Tool); at == unknownTool {
		return errors.New(suggest.ToolNotAvailable(req.Tool, c.registry.servedNow(ctx)))
	}
	return nil
}

func (b *breakers) force(ctx context.Context, req messages.BreakerRequest) (*messages.Breaker, error) {
	rules := b.rules(req.Tool)
	var holds messages.Breaker
	err := b.change(ctx, req.Tool, true, func(of messages.Breaker, now time.Time) (messages.Breaker, bool) {
		holds = rules.Close(of, req.By, req.Reason, now)
		if req.Action == messages.BreakerForceOpen {
			holds = rules.Open(of, req.For.Duration(), req.By, req.Reason, now)
		}
		holds.Version, holds.Tool = messages.Version, req.Tool
		return holds, true
	})
	return &holds, err
}
