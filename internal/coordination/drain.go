package coordination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/internal/pace"
	"mulligan/internal/suggest"
	"mulligan/pkg/messages"
)

// drainMost is how many calls of a queue without workers are looked at in one go.
const drainMost = 256

// drainQueues ends the calls of queues that nobody serves any more, whose tools
// were withdrawn and are not merely late (protocol section 6). Their deadlines
// need nobody: each fires by itself.
func (c *Coordinator) drainQueues(ctx context.Context) {
	for pace.Sleep(ctx, c.cfg.DrainEvery) {
		for _, queue := range c.registry.deserted() {
			for _, lane := range messages.Lanes() {
				if err := c.drainLane(ctx, c.names.LaneConsumer(queue, lane)); err != nil && ctx.Err() == nil {
					c.log.Warn("a queue without workers could not be drained", "queue", queue, "lane", string(lane), "error", err)
				}
			}
		}
	}
}

// drainLane fails the calls of tools that are gone and gives the others back,
// once it has seen what there is, so that it does not get them again at once.
func (c *Coordinator) drainLane(ctx context.Context, consumer string) error {
	ds, err := c.broker.Fetch(ctx, messages.StreamCalls, consumer, drainMost, 0)
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var waiting []messages.Delivery
	for _, d := range ds {
		release := c.leases.Hold(d)
		keep, err := c.drainCall(c.working, d)
		release()
		switch {
		case err != nil:
			c.log.Warn("a call without workers could not be ended yet", "subject", d.Subject, "error", err)
		case keep:
			waiting = append(waiting, d)
		default:
			c.ack(d)
		}
	}
	for _, d := range waiting {
		c.giveBack(d)
	}
	return nil
}

// drainCall follows the steps of a worker that has not got the tool. It says
// whether the call is to stay queued.
func (c *Coordinator) drainCall(ctx context.Context, d messages.Delivery) (keep bool, err error) {
	call, err := c.names.DecodeCall(d.Message)
	if err != nil {
		return true, nil //nolint:nilerr // a worker of another version may read it
	}
	if _, p := c.registry.known(call.Tool); p == lateTool || p == liveTool {
		return true, nil
	}
	repeated := d.Delivery > 1 || call.Dispatch > 0 || call.Repeat
	if repeated {
		settled, err := c.settled(ctx, call)
		if err != nil || settled {
			return false, err
		}
	}
	f := messages.Failure{
		Call: call, Input: call.Input, Code: messages.CodeToolNotFound, Worker: c.cfg.Name, At: time.Now().UTC(),
		Error: suggest.ToolNotFound(call.Tool, c.registry.served()),
	}
	f.Output = messages.Text(f.Error)
	if proceed, err := c.buryCall(ctx, d, call, repeated, &f); err != nil || !proceed {
		return false, err
	}
	return false, wrap("put the failure", c.putFailure(ctx, f))
}

// settled looks for an outcome of a dispatch that may be a repetition (P7.9).
func (c *Coordinator) settled(ctx context.Context, call messages.Call) (bool, error) {
	_, err := c.broker.Get(ctx, c.names.ResultSubject(call.Run, call.ID))
	if err == nil {
		m, err := messages.EncodeStory(c.names.SettledSubject(call.Run, call.ID, call.Dispatch), messages.Settled{By: c.cfg.Name, At: time.Now().UTC()})
		if err != nil {
			return false, err
		}
		_, err = c.broker.PutOnce(ctx, m)
		return true, err
	}
	if !errors.Is(err, messages.ErrNotFound) {
		return false, err
	}
	_, err = c.broker.Get(ctx, c.names.FailureSubject(call.Run, call.ID, call.Dispatch))
	if errors.Is(err, messages.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// buryCall makes sure that the dispatch cannot start any more, and puts into f
// what is known of a start that was there before. False: somebody else sees
// to the call.
func (c *Coordinator) buryCall(ctx context.Context, d messages.Delivery, call messages.Call, repeated bool, f *messages.Failure) (bool, error) {
	epitaph := messages.Tombstone(messages.CodeToolNotFound, f.Error)
	if call.Effect == messages.Unsafe {
		first, err := c.putStart(ctx, c.names.StartSubject(call.Run, call.ID, call.Dispatch), messages.Start{Tombstone: epitaph, Sequence: d.Sequence})
		code, _ := messages.ParseTombstone(first.Tombstone)
		switch {
		case err != nil:
			return false, err
		case code == messages.CodeToolNotFound:
			return true, nil // ours, or of a coordinator that came no further
		case first.Tombstone != "" || first.Sequence != d.Sequence:
			return false, nil // cancelled, or a duplicate message of what another one started
		}
		lost(f, first)
		return true, nil
	}
	if !repeated {
		return true, nil // nobody had it before: there is no start, and there will be none
	}
	for k := 1; k <= messages.MaxMarks; k++ {
		first, err := c.putStart(ctx, c.names.MarkSubject(call.Run, call.ID, call.Dispatch, k), messages.Start{Tombstone: epitaph, Sequence: d.Sequence})
		switch {
		case err != nil:
			return false, err
		case first.Tombstone != "":
			f.Mark = k
			return true, nil
		}
	}
	lost(f, messages.Start{Worker: "unknown"})
	f.Mark, f.Ambiguous = messages.MaxMarks, call.Effect != messages.ReadOnly
	return true, nil
}

// lost turns f into the failure of a worker that began and left no outcome.
func lost(f *messages.Failure, by messages.Start) {
	f.Code, f.Executed, f.Ambiguous = messages.CodeWorkerLost, true, true
	f.Worker, f.Started = by.Worker, by.At
	f.Error = fmt.Sprintf("worker %s was lost while it ran tool %q, and nobody serves the tool any more", by.Worker, f.Call.Tool)
	f.Output = messages.Text(f.Error)
}
