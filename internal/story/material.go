package story

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"mulligan/pkg/messages"
)

// Source is the pool's broker.
type Source interface {
	Names() messages.Pool
	Get(ctx context.Context, subject string) (messages.Stored, error)
	List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error
	Backlog(ctx context.Context, stream messages.Stream, consumer string) (waiting, unacked int, err error)
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
}

// Material is all that a pool holds of one call, decoded.
type Material struct {
	Call   string
	Run    messages.Run
	Queued *InQueue // its message in CALLS, if there is one
	Result *messages.Result
	Record *messages.Record

	Starts    []Mark
	Failures  map[int]messages.Failure
	Decisions map[int]messages.Decision
	Answers   map[int]messages.Answer
	Cancel    *messages.Cancel
	Late      []Late
	Replays   []messages.Replay // of this call
	// Unreadable are the subjects of messages that were written by a version
	// that this one does not read.
	Unreadable []string
}

// InQueue is a call that stands in CALLS: not fetched yet, or fetched and not settled.
type InQueue struct {
	messages.Stored
	Call             messages.Call
	Waiting, Unacked int // of its lane: not fetched by anybody, and in the hands of workers
}

// Mark is a start mark of a dispatch.
type Mark struct {
	N, K int // K is 0 for an unsafe tool's start
	messages.Start
}

// Late is an outcome of dispatch N that came after the end.
type Late struct {
	N int
	messages.Late
}

// Gather reads what the pool holds of a call; ErrNotFound when that is nothing.
func Gather(ctx context.Context, src Source, call string) (*Material, error) {
	if err := messages.CheckCallID(call); err != nil {
		return nil, err
	}
	m := &Material{
		Call: call, Failures: make(map[int]messages.Failure), Decisions: make(map[int]messages.Decision), Answers: make(map[int]messages.Answer),
	}
	g := gatherer{src: src, names: src.Names(), m: m}
	for _, step := range []func(context.Context) error{g.queued, g.record, g.recovery, g.result, g.replays} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("read the story of call %s: %w", call, err)
		}
	}
	if m.Run == "" {
		return nil, fmt.Errorf("call %s: %w; its result may have outlived its retention, or it is of another pool", call, messages.ErrNotFound)
	}
	return m, nil
}

// gatherer reads CALLS first and RESULTS last, the way a call moves, so that
// one that moves meanwhile is seen at least once.
type gatherer struct {
	src   Source
	names messages.Pool
	m     *Material
}

// anyRun stands for the run, which whoever asks does not know.
const anyRun messages.Run = "*"

func (g *gatherer) queued(ctx context.Context) error {
	s, err := g.src.Get(ctx, g.names.CallFilter(anyRun, g.m.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := g.names.DecodeCall(s.Message)
	if err != nil {
		g.unreadable(s)
		return nil
	}
	q := &InQueue{Stored: s, Call: c}
	g.m.Run, g.m.Queued = c.Run, q
	q.Waiting, q.Unacked, err = g.src.Backlog(ctx, messages.StreamCalls, g.names.LaneConsumer(c.Queue, c.TravelLane()))
	if errors.Is(err, messages.ErrNotFound) {
		err = nil
	}
	return err
}

func (g *gatherer) record(ctx context.Context) error {
	entries, err := g.src.Entries(ctx, messages.BucketAttempts, messages.CallKey(anyRun, g.m.Call))
	if err != nil {
		return err
	}
	for _, e := range entries {
		r, err := messages.DecodeRecord(e.Value)
		if err != nil {
			g.m.Unreadable = append(g.m.Unreadable, e.Key)
			continue
		}
		g.m.Run, g.m.Record = r.Call.Run, &r
	}
	return nil
}

func (g *gatherer) replays(ctx context.Context) error {
	entries, err := g.src.Entries(ctx, messages.BucketRuns, messages.ReplayKey(g.m.Call, "*"))
	for _, e := range entries {
		r, err := messages.DecodeReplay(e.Value)
		if err != nil {
			g.m.Unreadable = append(g.m.Unreadable, e.Key)
			continue
		}
		g.m.Replays = append(g.m.Replays, r)
	}
	return err
}

func (g *gatherer) result(ctx context.Context) error {
	s, err := g.src.Get(ctx, g.names.ResultSubject(anyRun, g.m.Call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := g.names.DecodeResult(s.Message)
	if err != nil {
		g.unreadable(s)
		return nil
	}
	g.m.Run, g.m.Result = r.Run, &r
	return nil
}

func (g *gatherer) recovery(ctx context.Context) error {
	err := g.src.List(ctx, messages.StreamRecovery, g.names.StoryFilters(anyRun, g.m.Call), func(s messages.Stored) bool {
		a, err := g.names.Parse(s.Subject)
		if err == nil {
			g.m.Run = a.Run
			err = g.m.add(a, s)
		}
		if err != nil {
			g.unreadable(s)
		}
		return true
	})
	slices.SortFunc(g.m.Starts, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.K, b.K)) })
	return err
}

func (g *gatherer) unreadable(s messages.Stored) {
	g.m.Unreadable = append(g.m.Unreadable, s.Subject)
}

func (m *Material) add(a messages.Address, s messages.Stored) (err error) {
	switch a.Kind {
	case messages.KindFailure:
		var f messages.Failure
		if f, err = messages.DecodeFailure(s.Body); err == nil {
			m.Failures[a.N] = f
		}
	case messages.KindDecision:
		var d messages.Decision
		if d, err = messages.DecodeDecision(s.Body); err == nil {
			m.Decisions[a.N] = d
		}
	case messages.KindAnswer:
		var v messages.Answer
		if v, err = messages.DecodeStory[messages.Answer](s.Body); err == nil {
			m.Answers[a.N] = v
		}
	case messages.KindStart:
		var v messages.Start
		if v, err = messages.DecodeStory[messages.Start](s.Body); err == nil {
			m.Starts = append(m.Starts, Mark{N: a.N, K: a.K, Start: v})
		}
	case messages.KindCancel:
		var v messages.Cancel
		if v, err = messages.DecodeStory[messages.Cancel](s.Body); err == nil {
			m.Cancel = &v
		}
	case messages.KindLate:
		var v messages.Late
		if v, err = messages.DecodeStory[messages.Late](s.Body); err == nil {
			m.Late = append(m.Late, Late{N: a.N, Late: v})
		}
	}
	return err
}
