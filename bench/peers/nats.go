package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mulligan/internal/coordination"
	"mulligan/internal/reflection"
	"mulligan/jetstream"
	"mulligan/jetstream/raw"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

// The two that run on NATS: the plain work queue and Mulligan.

const (
	toolName  = "noop"
	queueName = "default"
)

// rawSession is the plain work queue, on streams with the settings of Mulligan's.
type rawSession struct {
	broker   *server
	pool     *jetstream.Pool
	pipeline *raw.Pipeline
	caller   *raw.Caller
	run      messages.Run // of the caller
	idle     context.CancelFunc
	worked   chan error
}

func openRaw(always bool) func(context.Context, *site) (session, error) {
	return func(ctx context.Context, at *site) (_ session, err error) {
		s := &rawSession{run: messages.UnnamedRun(uuid.NewString())}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.close())
			}
		}()
		var url string
		if s.broker, url, err = at.startBroker(always); err != nil {
			return nil, err
		}
		if s.pool, err = connect(ctx, url); err != nil {
			return nil, err
		}
		if err := s.pool.Provision(ctx, jetstream.TopologyConfig{}); err != nil {
			return nil, err
		}
		if err := s.pool.EnsureQueue(ctx, queueName); err != nil {
			return nil, err
		}
		if s.pipeline, err = raw.Open(ctx, raw.Config{URL: url, Token: brokerToken, Like: s.pool.Names(), Queue: queueName}); err != nil {
			return nil, err
		}
		working, idle := context.WithCancel(context.Background())
		s.idle, s.worked = idle, make(chan error, 1)
		go func() { s.worked <- s.pipeline.Work(working, concurrency) }()
		s.caller, err = s.pipeline.Caller(ctx, s.run)
		return s, err
	}
}

func connect(ctx context.Context, url string) (*jetstream.Pool, error) {
	return jetstream.Connect(ctx, jetstream.Config{URL: url, Token: brokerToken, Name: "peers", Timeout: 30 * time.Second})
}

// job is the message that Mulligan would queue for the same call.
func (s *rawSession) job(run messages.Run) messages.Message {
	id := messages.NewCallID()
	return s.pool.Names().EncodeCall(messages.Call{
		ID: id, Run: run, Tool: toolName, Queue: queueName, Lane: messages.LaneNormal, Effect: messages.ReadOnly,
		Key: id, Input: messages.Body{Inline: input()},
	})
}

func (s *rawSession) many(n int) (func(context.Context) error, error) {
	run := messages.UnnamedRun(uuid.NewString())
	calls := make([]messages.Message, n)
	for i := range calls {
		calls[i] = s.job(run)
	}
	return s.pipeline.Batch(run, calls, nil).Run, nil
}

func (s *rawSession) one(ctx context.Context) error { return s.caller.Call(ctx, s.job(s.run)) }

func (s *rawSession) pid() int { return s.broker.cmd.Process.Pid }

func (s *rawSession) close() error {
	var errs []error
	if s.caller != nil {
		s.caller.Close()
	}
	if s.idle != nil {
		s.idle()
		errs = append(errs, <-s.worked)
	}
	if s.pipeline != nil {
		errs = append(errs, s.pipeline.Close(context.Background()))
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.broker != nil {
		errs = append(errs, s.broker.end())
	}
	return errors.Join(errs...)
}

// mulliganSession is a whole pool: coordinator, reflector, worker and submitter
// in this process, each with a connection of its own.
type mulliganSession struct {
	broker *server
	pools  []*jetstream.Pool
	parts  []service // in the order of their start
	client *client.Client
}

type service interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
	Stopped() <-chan struct{}
	Err() error
}

func openMulligan(always bool) func(context.Context, *site) (session, error) {
	return func(ctx context.Context, at *site) (_ session, err error) {
		s := &mulliganSession{}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.close())
			}
		}()
		var url string
		if s.broker, url, err = at.startBroker(always); err != nil {
			return nil, err
		}
		pool, err := s.connect(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := pool.Provision(ctx, jetstream.TopologyConfig{}); err != nil {
			return nil, err
		}
		for _, part := range []func(*jetstream.Pool) (service, error){coordinator, reflector, worker1} {
			if err := s.start(ctx, url, part); err != nil {
				return nil, err
			}
		}
		s.client, err = client.New(pool, client.Config{RequestTimeout: time.Minute, Patience: 5 * time.Minute})
		return s, err
	}
}

func coordinator(b *jetstream.Pool) (service, error) {
	return coordination.New(coordination.Config{Broker: b, Name: "coordinator"})
}

func reflector(b *jetstream.Pool) (service, error) {
	return reflection.New(reflection.Config{Broker: b, Name: "reflector"})
}

func worker1(b *jetstream.Pool) (service, error) {
	schema := json.RawMessage(`{"type":"object","properties":{"p":{"type":"string"}},"required":["p"],"additionalProperties":false}`)
	noop := tool.Raw(toolName, schema, func(_ context.Context, c tool.Call) (tool.Output, error) {
		return tool.Output{Body: c.Input}, nil
	}, tool.Effect(messages.ReadOnly), tool.Queue(queueName))
	return worker.New(worker.Config{Broker: b, Name: "worker", Tools: []*tool.Tool{noop}, Slots: concurrency})
}

func (s *mulliganSession) connect(ctx context.Context, url string) (*jetstream.Pool, error) {
	p, err := connect(ctx, url)
	if err == nil {
		s.pools = append(s.pools, p)
	}
	return p, err
}

func (s *mulliganSession) start(ctx context.Context, url string, make func(*jetstream.Pool) (service, error)) error {
	pool, err := s.connect(ctx, url)
	if err != nil {
		return err
	}
	part, err := make(pool)
	if err != nil {
		return err
	}
	if err := part.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.parts = append(s.parts, part)
	select {
	case <-part.Started():
		return nil
	case <-part.Stopped():
		return fmt.Errorf("a part of the pool has ended: %w", part.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *mulliganSession) many(n int) (func(context.Context) error, error) {
	batch, err := s.client.OpenBatch(uuid.NewString(), 0)
	if err != nil {
		return nil, err
	}
	calls := make([]messages.Submission, n)
	for i := range calls {
		calls[i] = messages.Submission{Call: messages.NewCallID(), Tool: toolName, Input: input(), IsJSON: true}
	}
	return func(ctx context.Context) error {
		from, err := s.client.Position(ctx)
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- s.await(ctx, batch.Run(""), from, n) }()
		refused, err := batch.Submit(ctx, calls)
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			return fmt.Errorf("%d calls were refused, the first: %s", len(refused), refused[0].Text)
		}
		return <-ended
	}, nil
}

// await reads the results of n calls of a run.
func (s *mulliganSession) await(ctx context.Context, run messages.Run, from uint64, n int) error {
	return s.client.Results(ctx, client.Query{Runs: []messages.Run{run}, From: from}, func(r messages.Result) error {
		if err := succeeded(r); err != nil {
			return err
		}
		if n--; n == 0 {
			return client.ErrStop
		}
		return nil
	})
}

func succeeded(r messages.Result) error {
	if r.Status != messages.Succeeded {
		return fmt.Errorf("call %s ended %s: %s", r.Call, r.Status, r.Reason)
	}
	return nil
}

func (s *mulliganSession) one(ctx context.Context) error {
	r, err := s.client.Call(ctx, messages.Submission{Tool: toolName, Input: input(), IsJSON: true})
	if err != nil {
		return err
	}
	return succeeded(r)
}

func (s *mulliganSession) pid() int { return s.broker.cmd.Process.Pid }

func (s *mulliganSession) close() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var errs []error
	if s.client != nil {
		s.client.Close()
	}
	for i := len(s.parts) - 1; i >= 0; i-- {
		errs = append(errs, s.parts[i].Stop(ctx))
	}
	for _, p := range s.pools {
		p.Close()
	}
	if s.broker != nil {
		errs = append(errs, s.broker.end())
	}
	return errors.Join(errs...)
}
