package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

type asynqSettings struct {
	server  []string // of redis-server
	tuned   bool
	results bool // of the measurement of throughput, too
}

const asynqTuning = "asynq: TaskCheckInterval 1 ms, 128 connections"

// appending are the settings of a Redis that logs what it is told before it answers.
func appending(sync string) []string {
	return []string{"--save", "", "--appendonly", "yes", "--appendfsync", sync}
}

// asynqSession is a Redis and, in this process, a submitter and a worker.
type asynqSession struct {
	settings  asynqSettings
	redis     *server
	client    *asynq.Client
	inspector *asynq.Inspector
	worker    *asynq.Server
	handled   atomic.Int64
	all       atomic.Int64  // how many are to be handled
	done      chan struct{} // gets a word at the last of them
}

// The tasks: one whose result nobody keeps, and one whose submitter waits for it.
const (
	taskQuiet  = "quiet"
	taskAsking = "asking"
)

const asynqQueue = "default"

func openAsynq(settings asynqSettings) func(context.Context, *site) (session, error) {
	return func(ctx context.Context, at *site) (_ session, err error) {
		s := &asynqSession{settings: settings, done: make(chan struct{}, 1)}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.close())
			}
		}()
		port, err := s.startRedis(at, settings.server)
		if err != nil {
			return nil, err
		}
		opt := asynq.RedisClientOpt{Addr: "127.0.0.1:" + strconv.Itoa(port)}
		cfg := asynq.Config{Concurrency: concurrency, LogLevel: asynq.FatalLevel}
		if settings.tuned {
			opt.PoolSize, cfg.TaskCheckInterval = 2*concurrency, time.Millisecond
		}
		s.client, s.inspector = asynq.NewClient(opt), asynq.NewInspector(opt)
		if err := s.redis.ready(ctx, func(context.Context) error { return s.client.Ping() }); err != nil {
			return nil, err
		}
		worker := asynq.NewServer(opt, cfg)
		if err := worker.Start(asynq.HandlerFunc(s.handle)); err != nil {
			return nil, err
		}
		s.worker = worker
		return s, nil
	}
}

func (s *asynqSession) startRedis(at *site, settings []string) (port int, err error) {
	path, err := redisServer.path()
	if err != nil {
		return 0, err
	}
	dir, err := at.fresh("redis")
	if err != nil {
		return 0, err
	}
	if port, err = freePort(); err != nil {
		return 0, err
	}
	args := append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir}, settings...)
	s.redis, err = start(path, dir, nil, syscall.SIGTERM, args...)
	return port, err
}

func (s *asynqSession) handle(_ context.Context, t *asynq.Task) error {
	if t.Type() == taskAsking {
		if _, err := t.ResultWriter().Write(t.Payload()); err != nil {
			return err
		}
	}
	if s.handled.Add(1) == s.all.Load() {
		s.done <- struct{}{}
	}
	return nil
}

func (s *asynqSession) many(n int) (func(context.Context) error, error) {
	if _, err := s.inspector.DeleteAllCompletedTasks(asynqQueue); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, err
	}
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask(taskQuiet, input())
		if s.settings.results {
			tasks[i] = asynq.NewTask(taskAsking, input(), kept)
		}
	}
	return func(ctx context.Context) error {
		s.handled.Store(0)
		s.all.Store(int64(n))
		if err := inParallel(ctx, tasks, func(ctx context.Context, t *asynq.Task) error {
			_, err := s.client.EnqueueContext(ctx, t)
			return err
		}); err != nil {
			return err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.empty(ctx); err != nil || !s.settings.results {
			return err
		}
		return s.fetch(n)
	}, nil
}

// kept is for how long the result of a task is kept.
var kept = asynq.Retention(time.Hour)

// fetch reads the results of n tasks.
func (s *asynqSession) fetch(n int) error {
	const page = 1000
	for i := 1; n > 0; i++ {
		tasks, err := s.inspector.ListCompletedTasks(asynqQueue, asynq.Page(i), asynq.PageSize(page))
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return fmt.Errorf("asynq: %d results are missing", n)
		}
		for _, t := range tasks {
			if err := whole(t); err != nil {
				return err
			}
		}
		n -= len(tasks)
	}
	return nil
}

func whole(t *asynq.TaskInfo) error {
	if len(t.Result) != jobBytes {
		return fmt.Errorf("asynq: task %s has a result of %d bytes", t.ID, len(t.Result))
	}
	return nil
}

// inParallel does something with each, as many at a time as jobs run, for
// systems that take jobs in one by one.
func inParallel[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range concurrency {
		g.Go(func() error {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				if err := do(ctx, all[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// empty waits until the last tasks are marked as done.
func (s *asynqSession) empty(ctx context.Context) error {
	for {
		q, err := s.inspector.GetQueueInfo(asynqQueue)
		switch {
		case err != nil:
			return err
		case q.Retry+q.Archived > 0:
			return fmt.Errorf("asynq: %d tasks failed", q.Retry+q.Archived)
		case q.Active+q.Pending == 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

func (s *asynqSession) one(ctx context.Context) error {
	t, err := s.client.EnqueueContext(ctx, asynq.NewTask(taskAsking, input(), kept))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		now, err := s.inspector.GetTaskInfo(asynqQueue, t.ID)
		if err != nil {
			return err
		}
		switch now.State { //nolint:exhaustive // the others are on the way
		case asynq.TaskStateCompleted:
			return whole(now)
		case asynq.TaskStateRetry, asynq.TaskStateArchived:
			return fmt.Errorf("asynq: task %s failed: %s", t.ID, now.LastErr)
		default:
		}
	}
	return context.Cause(ctx)
}

func (s *asynqSession) pid() int { return s.redis.cmd.Process.Pid }

func (s *asynqSession) close() error {
	var errs []error
	if s.worker != nil {
		s.worker.Shutdown()
	}
	if s.client != nil {
		errs = append(errs, s.client.Close(), s.inspector.Close())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.end())
	}
	return errors.Join(errs...)
}
