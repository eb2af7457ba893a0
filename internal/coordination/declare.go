package coordination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// declaration answers EndpointRun. What it says holds is durable; whoever submits to the
// run after that finds it known to every coordinator, by the revision.
func (c *Coordinator) declaration(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.RunRequest](request)
	var reply messages.RunReply
	if err == nil {
		reply, err = c.changeRun(ctx, req)
	} else {
		err = &runError{messages.CodeBadRun, err}
	}
	if err != nil {
		return c.refused(req, err)
	}
	return encodeReply(reply)
}

// refused answers what is asked about a run and cannot be done.
func (c *Coordinator) refused(req messages.RunRequest, err error) []byte {
	reply := messages.RunReply{Error: err.Error(), Code: messages.CodeNotStored}
	var re *runError
	if errors.As(err, &re) {
		reply.Code = re.code
	}
	var fe *messages.FieldError
	if errors.As(err, &fe) {
		reply.Field = fe.Field
	}
	c.log.Warn("a request about a run was refused", "run", string(req.Run), "action", string(req.Action), "by", req.By, "error", err)
	return encodeReply(reply)
}

// runError is a refusal for good.
type runError struct {
	code messages.Code
	err  error
}

func (e *runError) Error() string { return e.err.Error() }

func (e *runError) Unwrap() error { return e.err }

func (c *Coordinator) changeRun(ctx context.Context, req messages.RunRequest) (messages.RunReply, error) {
	if req.Action == messages.RunErase {
		return messages.RunReply{}, &runError{messages.CodeBadRun, fmt.Errorf("action %q is asked for at %s", req.Action, c.names.ServiceSubject(messages.EndpointDelete))}
	}
	if req.Action == messages.RunClose {
		return c.closeRun(ctx, req)
	}
	return c.declare(ctx, req)
}

// declare writes the spec of a run, once.
func (c *Coordinator) declare(ctx context.Context, req messages.RunRequest) (messages.RunReply, error) {
	spec := *req.Spec
	if err := c.checkSpec(spec); err != nil {
		return messages.RunReply{}, &runError{messages.CodeBadRun, err}
	}
	for {
		entry, rev, err := c.runs.load(ctx, req.Run)
		if err != nil {
			return messages.RunReply{}, err
		}
		if entry.Gone() { // what is left of it is replaced
			entry = messages.RunEntry{Run: req.Run, Created: time.Now().UTC()}
		}
		if entry.Delete != nil || entry.Import != nil {
			return messages.RunReply{}, &runError{messages.CodeRunIsOver, fmt.Errorf("run %s is being deleted or brought in; wait for that, or take another name", runName(req.Run))}
		}
		if entry.Spec != nil {
			if field, was, is := entry.Spec.Differs(&spec); field != "" {
				return messages.RunReply{}, &runError{messages.CodeRunDiffers, &messages.FieldError{Field: field, Err: fmt.Errorf(
					"run %s was declared with %s on %s by %s, and is declared with %s now; take another name for another run, or say the same",
					runName(req.Run), cmp.Or(was, "none"), entry.Created.Format(time.RFC3339), entry.By, cmp.Or(is, "none"))}}
			}
			return messages.RunReply{Revision: rev, Entry: &entry}, c.scheduleEnd(ctx, entry)
		}
		if entry.Ended != nil {
			return messages.RunReply{}, &runError{messages.CodeRunIsOver, fmt.Errorf("run %s is over: %s", runName(req.Run), entry.Ended.Reason)}
		}
		if err := c.comes(spec); err != nil {
			return messages.RunReply{}, &runError{messages.CodeBadRun, err}
		}
		if entry.From, err = c.broker.LastSequence(ctx, messages.StreamResults); err != nil {
			return messages.RunReply{}, err
		}
		entry.From++
		entry.Spec, entry.By = &spec, req.By
		rev, err = c.runs.save(ctx, entry, rev)
		if errors.Is(err, messages.ErrConflict) {
			continue
		}
		if err != nil {
			return messages.RunReply{}, fmt.Errorf("run %s cannot be written: %w", runName(req.Run), err)
		}
		c.log.Info("run declared", "run", string(req.Run), "by", req.By)
		return messages.RunReply{Revision: rev, Entry: &entry}, c.scheduleEnd(ctx, entry)
	}
}

// scheduleEnd has the deadline of a declared run fire. Whoever could not do so
// after it wrote the run is asked again, and finds the run.
func (c *Coordinator) scheduleEnd(ctx context.Context, entry messages.RunEntry) error {
	if entry.Spec.Deadline.IsZero() || entry.Over != nil || entry.Ended != nil {
		return nil
	}
	return wrap("the deadline cannot be scheduled",
		c.broker.Schedule(ctx, messages.Due{Kind: messages.DueDeadline, Run: entry.Run, At: entry.Spec.Deadline.UTC()}))
}

// checkSpec names the field that cannot be used, and the way out.
func (c *Coordinator) checkSpec(s messages.RunSpec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Webhook != "" && c.cfg.Notify == nil {
		return &messages.FieldError{Field: "webhook", Err: errors.New("the coordinators of this pool tell no webhooks; leave it out, or start them (`coordinator` or `mulligan up`) with --webhooks")}
	}
	if keep := s.Keep.Duration(); keep >= c.cfg.RecordTTL {
		return &messages.FieldError{Field: "keep_ms", Err: fmt.Errorf("%s is too long: the pool keeps nothing of a run for longer than %s; give less, or leave it out", keep, c.cfg.RecordTTL)}
	}
	if _, err := recovery.CallValues(s.Policy); err != nil {
		return &messages.FieldError{Field: "policy", Err: err}
	}
	if n := len(runPolicy(s)); n > messages.MaxPolicy {
		return &messages.FieldError{Field: "policy", Err: fmt.Errorf("is %d bytes long with the budgets, the limit is %d", n, messages.MaxPolicy)}
	}
	return nil
}

// comes holds the deadline of a new run against the clock.
func (c *Coordinator) comes(s messages.RunSpec) error {
	switch left := time.Until(s.Deadline); {
	case s.Deadline.IsZero():
		return nil
	case left <= 0:
		return &messages.FieldError{Field: "deadline", Err: fmt.Errorf("%s has passed", s.Deadline.UTC().Format(time.RFC3339))}
	case left > c.cfg.DeadlineLimit:
		return &messages.FieldError{Field: "deadline", Err: fmt.Errorf("%s is too far ahead; it may lie %s ahead, or leave it out",
			s.Deadline.UTC().Format(time.RFC3339), c.cfg.DeadlineLimit)}
	}
	return nil
}

// closeRun says that no call comes any more. The first word stays, but that the
// number of calls may be told later.
func (c *Coordinator) closeRun(ctx context.Context, req messages.RunRequest) (messages.RunReply, error) {
	for {
		entry, rev, err := c.runs.load(ctx, req.Run)
		if err != nil {
			return messages.RunReply{}, err
		}
		if rev == 0 || entry.Gone() {
			return messages.RunReply{}, &runError{messages.CodeNotFound, fmt.Errorf("run %s was not declared, so that there is nothing to close", runName(req.Run))}
		}
		if entry.Over == nil && (entry.Closed == nil || entry.Closed.Calls == nil && req.Calls != nil) {
			entry.Closed = &messages.RunClosed{At: time.Now().UTC(), By: req.By, Calls: req.Calls}
			rev, err = c.runs.save(ctx, entry, rev)
			if errors.Is(err, messages.ErrConflict) {
				continue
			}
			if err != nil {
				return messages.RunReply{}, fmt.Errorf("run %s cannot be written: %w", runName(req.Run), err)
			}
		}
		return messages.RunReply{Revision: rev, Entry: &entry}, c.watchEnd(ctx, entry)
	}
}

// watchEnd has it looked whether the run is over. Said twice, it is looked once.
func (c *Coordinator) watchEnd(ctx context.Context, entry messages.RunEntry) error {
	if entry.Over != nil {
		return nil
	}
	return wrap("the end of the run cannot be looked for",
		c.broker.Schedule(ctx, messages.Due{Kind: messages.DueRunOver, Run: entry.Run, At: time.Now().Add(firstLook).UTC()}))
}

// firstLook is after what time it is looked for the first time whether a closed
// run is over.
const firstLook = 500 * time.Millisecond
