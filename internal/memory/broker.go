// Package memory is the twin of package jetstream without a broker: the same
// ports, the same meaning, in this process, on the standard clock. It may live
// in a testing/synctest bubble if it is made there. Package porttest holds both
// to the same behaviour.
//
// A Broker is one process's connection. [Broker.Peer] makes another one to the
// same streams; faults and counts belong to a connection, so a test can freeze
// one worker and watch the other.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"mulligan/pkg/messages"
)

// Config mirrors what matters of the topology. Zero fields take the defaults
// of package jetstream.
type Config struct {
	Prefix      string
	Lease       time.Duration // 60 s
	ResultsAge  time.Duration // 3 days
	RecoveryAge time.Duration // 30 days
	RecordTTL   time.Duration // a day more than RecoveryAge, at most twice that
	CancelTTL   time.Duration // ResultsAge
	QueueLimits map[string]int
	Timeout     time.Duration // of a request whose context has no deadline; 5 s
	ServeLimit  int           // 64
}

func (c Config) withDefaults() Config {
	const day = 24 * time.Hour
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.ResultsAge = cmp.Or(c.ResultsAge, 3*day)
	c.RecoveryAge = cmp.Or(c.RecoveryAge, 30*day)
	c.RecordTTL = cmp.Or(c.RecordTTL, c.RecoveryAge+min(day, c.RecoveryAge))
	c.CancelTTL = cmp.Or(c.CancelTTL, c.ResultsAge)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.ServeLimit = cmp.Or(c.ServeLimit, 64)
	return c
}

// Broker is one connection to a pool in memory. All its methods may be called
// concurrently.
type Broker struct {
	*pool
	faults faults
	counts counts
}

// pool is what all connections share.
type pool struct {
	names messages.Pool
	cfg   Config

	mu        sync.Mutex
	streams   map[string]*stream   // by messages.Stream, buckets as bucketStream names them
	consumers map[string]*consumer // by consumerKey
	schedules map[string]*time.Timer
	services  map[string][]*service
	listeners []*listener
}

// New makes a pool with its streams, buckets and shared consumers. It panics
// when the prefix cannot be used, since only tests make one.
func New(cfg Config) *Broker {
	names, err := messages.NewPool(cfg.Prefix)
	if err != nil {
		panic(err)
	}
	cfg = cfg.withDefaults()
	p := &pool{
		names: names, cfg: cfg,
		streams: make(map[string]*stream), consumers: make(map[string]*consumer),
		schedules: make(map[string]*time.Timer), services: make(map[string][]*service),
	}
	add := func(name string, s stream) {
		s.name, s.bySubject, s.before = name, make(map[string]*stored), make(map[string]*stored)
		s.changed = make(chan struct{})
		p.streams[name] = &s
	}
	add(string(messages.StreamCalls), stream{once: true, workQueue: true})
	add(string(messages.StreamResults), stream{once: true, age: cfg.ResultsAge})
	add(string(messages.StreamRecovery), stream{once: true, age: cfg.RecoveryAge})
	add(string(messages.StreamSchedule), stream{workQueue: true})
	add(string(messages.StreamPayloads), stream{once: true, age: cfg.RecordTTL})
	add(bucketStream(messages.BucketAttempts), stream{newest: true, age: cfg.RecordTTL})
	add(bucketStream(messages.BucketRuns), stream{newest: true, age: cfg.RecordTTL})
	add(bucketStream(messages.BucketTools), stream{newest: true})
	add(bucketStream(messages.BucketControl), stream{newest: true, age: cfg.CancelTTL})

	shared := func(s messages.Stream, name, kind string) {
		p.addConsumer(string(s), name, names.Prefix()+"."+kind+".>", 50_000)
	}
	shared(messages.StreamRecovery, messages.ConsumerReflector, messages.KindFailure)
	shared(messages.StreamRecovery, messages.ConsumerDecisions, messages.KindDecision)
	shared(messages.StreamRecovery, messages.ConsumerAnswers, messages.KindAnswer)
	shared(messages.StreamRecovery, messages.ConsumerCancels, messages.KindCancel)
	shared(messages.StreamRecovery, messages.ConsumerSettled, messages.KindSettled)
	shared(messages.StreamSchedule, messages.ConsumerDue, messages.KindDue)
	return newConnection(p)
}

func newConnection(p *pool) *Broker {
	return &Broker{pool: p, counts: counts{n: make(map[counted]int)}}
}

// Peer is another connection to the same pool, without this one's faults and counts.
func (b *Broker) Peer() *Broker { return newConnection(b.pool) }

// Names are the names of the pool's subjects, streams and buckets.
func (b *Broker) Names() messages.Pool { return b.names }

func bucketStream(b messages.Bucket) string { return "KV_" + string(b) }

// streamOf finds the stream of a subject, which may hold wildcards behind its kind.
func (p *pool) streamOf(subject string) (*stream, error) {
	s, ok := p.names.StreamOf(subject)
	if !ok {
		return nil, fmt.Errorf("%s: no stream of pool %s holds this subject", subject, p.names.Prefix())
	}
	return p.streams[string(s)], nil
}

func (p *pool) streamNamed(name string) (*stream, error) {
	s, ok := p.streams[name]
	if !ok {
		return nil, fmt.Errorf("stream %s: %w", name, messages.ErrNotFound)
	}
	return s, nil
}

// bounded gives ctx the configured time-out unless it has a deadline.
func (p *pool) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.cfg.Timeout)
}
