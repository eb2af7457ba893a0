package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

type riverSettings struct {
	server  []string // of postgres
	tuned   bool
	results bool // the worker records an output
}

const (
	riverConnections = 32
	riverChunk       = 1000
	riverTuning      = "River: InsertManyFast (COPY) 1,000 at a time, FetchCooldown 1 ms, 32 connections, no job timeout; a lone job is completed in its own transaction"
)

// postgresTuning are settings that cost no durability.
const postgresTuning = "shared_buffers 1 GB, max_wal_size 8 GB, wal_level minimal, jit off"

func tunedPostgres() []string {
	return []string{
		"-c", "shared_buffers=1GB", "-c", "max_wal_size=8GB", "-c", "checkpoint_timeout=30min",
		"-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "jit=off",
	}
}

func asynchronous() []string { return append(tunedPostgres(), "-c", "synchronous_commit=off") }

// riverArgs is the job; Lone is one whose submitter waits for it.
type riverArgs struct {
	P    string `json:"p"`
	Lone bool   `json:"lone,omitempty"`
}

func (riverArgs) Kind() string { return "noop" }

// riverSession is a PostgreSQL and, in this process, a client that submits and works.
type riverSession struct {
	river.WorkerDefaults[riverArgs]

	settings riverSettings
	postgres *server
	db       *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	started  bool
	events   <-chan *river.Event
	cancel   func() // the events

	mu    sync.Mutex
	ended map[int64]chan struct{} // lone jobs that may have ended before their id was known
}

func openRiver(settings riverSettings) func(context.Context, *site) (session, error) {
	return func(ctx context.Context, at *site) (_ session, err error) {
		s := &riverSession{settings: settings, ended: make(map[int64]chan struct{})}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.close())
			}
		}()
		if err := s.startPostgres(ctx, at); err != nil {
			return nil, err
		}
		return s, s.startRiver(ctx)
	}
}

func (s *riverSession) startPostgres(ctx context.Context, at *site) error {
	path, err := postgresServer.path()
	if err != nil {
		return err
	}
	who, err := unprivileged()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args := append([]string{
		"-D", filepath.Join(at.postgres, "data"), "-c", "port=" + strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=" + at.postgres,
	}, s.settings.server...)
	// SIGINT is its fast shutdown, which does not wait for clients.
	if s.postgres, err = start(path, at.postgres, who, syscall.SIGINT, args...); err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port))
	if err != nil {
		return err
	}
	if s.settings.tuned {
		cfg.MaxConns = riverConnections
	}
	if s.db, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	return s.postgres.ready(ctx, s.db.Ping)
}

func (s *riverSession) startRiver(ctx context.Context) error {
	driver := riverpgxv5.New(s.db)
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, "TRUNCATE river_job"); err != nil { // what an earlier turn has left
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, s)
	cfg := &river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}}, Workers: workers, Logger: quiet}
	if s.settings.tuned {
		cfg.FetchCooldown, cfg.JobTimeout = time.Millisecond, -1
	}
	if s.client, err = river.NewClient(driver, cfg); err != nil {
		return err
	}
	s.events, s.cancel = s.client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 1 << 17, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed},
	})
	if err := s.client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.started = true
	return nil
}

// Work does nothing, but for the output that it records where there is to be one. A lone job of the tuned kind is completed here, in a
// transaction of its own: River's own completion would let it wait for others
// for up to a quarter of a second.
func (s *riverSession) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	if s.settings.results {
		if err := river.RecordOutput(ctx, job.Args); err != nil {
			return err
		}
	}
	if !job.Args.Lone || !s.settings.tuned {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err == nil {
		close(s.end(job.ID))
	}
	return err
}

// end is closed when the lone job of this id has ended.
func (s *riverSession) end(id int64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended[id] == nil {
		s.ended[id] = make(chan struct{})
	}
	return s.ended[id]
}

// args are in JSON what the other systems are given, see input.
func args(lone bool) riverArgs { return riverArgs{P: text(), Lone: lone} }

func (s *riverSession) many(n int) (func(context.Context) error, error) {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = args(false)
	}
	return func(ctx context.Context) error {
		s.drop()
		if err := s.insert(ctx, jobs); err != nil {
			return err
		}
		for range n {
			if _, err := s.event(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (s *riverSession) insert(ctx context.Context, jobs []river.InsertManyParams) error {
	if !s.settings.tuned {
		return inParallel(ctx, jobs, func(ctx context.Context, j river.InsertManyParams) error {
			_, err := s.client.Insert(ctx, j.Args, nil)
			return err
		})
	}
	for chunk := range slices.Chunk(jobs, riverChunk) {
		if _, err := s.client.InsertManyFast(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets the events of lone jobs that nobody waited for.
func (s *riverSession) drop() {
	for {
		select {
		case <-s.events:
		default:
			return
		}
	}
}

// event gives the id of the next job that has ended.
func (s *riverSession) event(ctx context.Context) (int64, error) {
	select {
	case e := <-s.events:
		if e == nil || e.Job.State != rivertype.JobStateCompleted {
			return 0, fmt.Errorf("river: a job did not succeed: %+v", e)
		}
		if out := len(e.Job.Output()); s.settings.results && out < jobBytes {
			return 0, fmt.Errorf("river: job %d has an output of %d bytes", e.Job.ID, out)
		}
		return e.Job.ID, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (s *riverSession) one(ctx context.Context) error {
	inserted, err := s.client.Insert(ctx, args(true), nil)
	if err != nil {
		return err
	}
	id := inserted.Job.ID
	if s.settings.tuned {
		select {
		case <-s.end(id):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		ended, err := s.event(ctx)
		if ended == id || err != nil {
			return err
		}
	}
}

func (s *riverSession) pid() int { return s.postgres.cmd.Process.Pid }

func (s *riverSession) close() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var errs []error
	if s.started {
		errs = append(errs, s.client.Stop(ctx))
	}
	if s.cancel != nil {
		s.cancel()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.end())
	}
	return errors.Join(errs...)
}
