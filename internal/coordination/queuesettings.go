package coordination

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// settings are what operators say of queues (ADR 0022). CONTROL holds them; the
// consumers of the lanes carry them out, so workers need not know.
type settings struct {
	c *Coordinator

	mu     sync.Mutex
	of     map[string]setting
	behind map[string]bool // queues whose consumers are not as they are to be
	told   chan struct{}   // holds one token when something is behind

	applying sync.Mutex // so that what was read last is what is written last
}

// setting is what holds of a queue, as of a revision of CONTROL.
type setting struct {
	messages.QueueSettings
	revision uint64
}

func newSettings(c *Coordinator) *settings {
	return &settings{c: c, of: make(map[string]setting), behind: make(map[string]bool), told: make(chan struct{}, 1)}
}

// get gives what holds of a queue.
func (s *settings) get(queue string) messages.QueueSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[queue].QueueSettings
}

// apply takes an entry of CONTROL, as the watch brings it or as it was written
// here, which may be before the watch brings what was there until then.
func (s *settings) apply(e messages.Entry) {
	if e.Deleted || !strings.HasPrefix(e.Key, messages.QueuePrefix) {
		return // nobody deletes them
	}
	next, err := messages.DecodeQueueSettings(e.Value)
	if err != nil {
		s.c.log.Error("the settings of a queue cannot be read; what held before still holds", "key", e.Key, "error", err)
		return
	}
	s.mu.Lock()
	late := e.Revision < s.of[next.Queue].revision
	if !late {
		s.of[next.Queue], s.behind[next.Queue] = setting{next, e.Revision}, true
	}
	s.mu.Unlock()
	if late {
		return
	}
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// ensure makes the consumers of a queue, or brings them to its settings.
func (s *settings) ensure(ctx context.Context, queue string) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	now := s.get(queue)
	return s.c.broker.SetQueue(ctx, queue, now.InFlight, now.Paused)
}

// follow brings queues to what was said of them until ctx is done. Every
// coordinator does, also what another one has done: whoever wrote old settings
// late is followed by somebody with the new ones, itself at the latest.
func (s *settings) follow(ctx context.Context) {
	for p := pauses(); ; {
		select {
		case <-s.told:
		case <-ctx.Done():
			return
		}
		if err := s.catchUp(ctx); err == nil {
			p = pauses()
			continue
		} else if ctx.Err() == nil {
			s.c.log.Warn("a queue could not be brought to its settings yet", "error", err)
		}
		if !p.Wait(ctx) {
			return
		}
		select {
		case s.told <- struct{}{}:
		default:
		}
	}
}

func (s *settings) catchUp(ctx context.Context) error {
	s.mu.Lock()
	var behind []string
	for queue := range s.behind {
		behind = append(behind, queue)
	}
	clear(s.behind)
	s.mu.Unlock()
	var errs []error
	for _, queue := range behind {
		if err := s.ensure(ctx, queue); err != nil {
			errs = append(errs, err)
			s.mu.Lock()
			s.behind[queue] = true
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// queue answers EndpointQueue. When it says yes, the change is durable, and the
// broker hands calls over as it says.
func (c *Coordinator) queue(ctx context.Context, request []byte) []byte {
	req, err := messages.DecodeService[messages.QueueRequest](request)
	code := messages.CodeBadCall
	if err == nil && !c.registry.hasQueue(req.Queue) {
		code = messages.CodeNotFound
		err = fmt.Errorf("no tool of the pool is in queue '%s'; `mulligan queues` lists those that there are", req.Queue)
	}
	var reply messages.QueueReply
	if err == nil {
		code = messages.CodeNotStored
		reply.Settings, err = c.settings.change(ctx, req)
	}
	if err != nil {
		reply = messages.QueueReply{Error: err.Error(), Code: code}
		c.log.Warn("a change of a queue was refused", "queue", req.Queue, "by", req.By, "error", err)
	}
	return encodeReply(reply)
}

// change writes what is new by compare-and-set, then carries it out.
func (s *settings) change(ctx context.Context, req messages.QueueRequest) (*messages.QueueSettings, error) {
	key := messages.QueueKey(req.Queue)
	for {
		var next messages.QueueSettings
		var revision uint64
		e, err := s.c.broker.Load(ctx, messages.BucketControl, key)
		switch {
		case err == nil:
			if next, err = messages.DecodeQueueSettings(e.Value); err != nil {
				return nil, err
			}
			revision = e.Revision
		case !errors.Is(err, messages.ErrNotFound):
			return nil, fmt.Errorf("the settings of the queue cannot be read: %w", err)
		}
		next.Queue, next.Reason, next.By, next.At = req.Queue, req.Reason, req.By, time.Now().UTC()
		if req.Pause != nil {
			next.Paused = *req.Pause
		}
		if req.InFlight != nil {
			next.InFlight = *req.InFlight
		}
		if req.MaxQueued != nil {
			next.MaxQueued = *req.MaxQueued
		}
		b, err := messages.EncodeQueueSettings(next)
		if err != nil {
			return nil, err
		}
		switch revision, err = s.c.broker.Save(ctx, messages.BucketControl, key, b, revision, messages.Forever); {
		case errors.Is(err, messages.ErrConflict):
			continue
		case err != nil:
			return nil, fmt.Errorf("the settings of the queue cannot be written: %w", err)
		}
		s.c.log.Info("queue set", "queue", next.Queue, "by", next.By, "paused", next.Paused, "in_flight", next.InFlight, "max_queued", next.MaxQueued)
		s.apply(messages.Entry{Key: key, Value: b, Revision: revision})
		return &next, wrap("the settings are written, and carried out as soon as the broker takes them", s.ensure(ctx, next.Queue))
	}
}
