// Package raw is what the broker gives without Mulligan: a plain work queue
// written with nats.go as its manual says. Benchmarks compare with it, so it
// carries the same messages over streams and consumers of the same settings,
// with the same number of workers, and does nothing else: one publish, one
// delivery, one stored result and one ack a job.
package raw

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"mulligan/pkg/messages"
)

// Config says where the broker is, and which pool is the model.
type Config struct {
	URL, Token string
	// Like is the pool whose streams and lanes lend their settings. It must
	// exist. What the pipeline makes stands beside it and is removed by Close.
	Like  messages.Pool
	Queue string // whose normal lane is the model of the work queue
}

// Pipeline is a submitter and a worker with a connection each. Its methods may
// be called concurrently.
type Pipeline struct {
	like, names messages.Pool
	queue       string
	submitter   link
	worker      link
	results     jetstream.Stream
	work        jetstream.Consumer
}

type link struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// asyncWindow is how many publishes may be under way, as for Mulligan's own.
const asyncWindow = 512

func connect(cfg Config, name string) (link, error) {
	nc, err := nats.Connect(cfg.URL, nats.Token(cfg.Token), nats.Name(name))
	if err != nil {
		return link{}, fmt.Errorf("raw: connect to %s: %w", cfg.URL, err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(asyncWindow))
	return link{nc, js}, err
}

// Open connects and makes the streams. A pipeline that was left behind by a
// process that was killed is made anew.
func Open(ctx context.Context, cfg Config) (p *Pipeline, err error) {
	prefix := cfg.Like.Prefix() + "_raw"
	names, err := messages.NewPool(prefix[max(0, len(prefix)-32):])
	if err != nil {
		return nil, err
	}
	p = &Pipeline{like: cfg.Like, names: names, queue: cfg.Queue}
	if p.submitter, err = connect(cfg, "raw submitter"); err != nil {
		return nil, err
	}
	if p.worker, err = connect(cfg, "raw worker"); err != nil {
		p.submitter.nc.Close()
		return nil, err
	}
	if err := p.provision(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("raw: %w", err), p.Close(ctx))
	}
	return p, nil
}

func streams() []messages.Stream {
	return []messages.Stream{messages.StreamCalls, messages.StreamResults, messages.StreamPayloads}
}

func (p *Pipeline) provision(ctx context.Context) error {
	if err := p.remove(ctx); err != nil {
		return err
	}
	js := p.submitter.js
	for _, s := range streams() {
		model, err := js.Stream(ctx, p.like.StreamName(s))
		if err != nil {
			return fmt.Errorf("settings of %s: %w", s, err)
		}
		made, err := js.CreateStream(ctx, p.copyOf(model.CachedInfo().Config, s))
		if err != nil {
			return fmt.Errorf("stream %s: %w", s, err)
		}
		if s == messages.StreamResults {
			p.results = made
		}
	}
	lane := p.like.LaneConsumer(p.queue, messages.LaneNormal)
	model, err := js.Consumer(ctx, p.like.StreamName(messages.StreamCalls), lane)
	if err != nil {
		return fmt.Errorf("settings of consumer %s: %w", lane, err)
	}
	cfg := model.CachedInfo().Config
	cfg.FilterSubject = p.own(cfg.FilterSubject)
	cfg.Metadata = nil
	p.work, err = p.worker.js.CreateConsumer(ctx, p.names.StreamName(messages.StreamCalls), cfg)
	return err
}

// copyOf gives a stream's settings the names of this pipeline.
func (p *Pipeline) copyOf(cfg jetstream.StreamConfig, s messages.Stream) jetstream.StreamConfig {
	cfg.Name, cfg.Metadata = p.names.StreamName(s), nil
	subjects := make([]string, len(cfg.Subjects))
	for i, subject := range cfg.Subjects {
		subjects[i] = p.own(subject)
	}
	cfg.Subjects = subjects
	if r := cfg.RePublish; r != nil {
		cfg.RePublish = &jetstream.RePublish{Source: p.own(r.Source), Destination: p.own(r.Destination), HeadersOnly: r.HeadersOnly}
	}
	return cfg
}

// own is a subject of the model under the prefix of this pipeline.
func (p *Pipeline) own(subject string) string {
	return p.names.Prefix() + strings.TrimPrefix(subject, p.like.Prefix())
}

func (p *Pipeline) remove(ctx context.Context) error {
	var errs []error
	for _, s := range streams() {
		if err := p.submitter.js.DeleteStream(ctx, p.names.StreamName(s)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close removes the streams and disconnects. What works must have ended.
func (p *Pipeline) Close(ctx context.Context) error {
	err := p.remove(ctx)
	p.submitter.nc.Close()
	p.worker.nc.Close()
	return err
}

// Clear forgets the jobs that are queued, here and in the pool that is the
// model; nobody may be at work on them.
func (p *Pipeline) Clear(ctx context.Context) error {
	for _, names := range []messages.Pool{p.names, p.like} {
		s, err := p.submitter.js.Stream(ctx, names.StreamName(messages.StreamCalls))
		if err != nil {
			return err
		}
		if err := s.Purge(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Batch is jobs that are made ready: the same messages as Mulligan's, under the
// subjects of this pipeline.
type Batch struct {
	p    *Pipeline
	jobs []*nats.Msg
	run  messages.Run
	body []byte // of each job where it goes through the payload stream
}

// Batch takes over the messages of dispatch 0 of calls of one run. A large body
// travels in the payload stream, both ways; else it is nil.
func (p *Pipeline) Batch(run messages.Run, calls []messages.Message, large []byte) *Batch {
	b := &Batch{p: p, run: run, body: large, jobs: make([]*nats.Msg, len(calls))}
	for i, m := range calls {
		b.jobs[i] = &nats.Msg{Subject: p.own(m.Subject), Header: nats.Header(m.Header), Data: m.Body}
	}
	return b
}

// Publish publishes asynchronously and returns when all is stored.
func (b *Batch) Publish(ctx context.Context) error {
	futures := make([]jetstream.PubAckFuture, len(b.jobs))
	for i, m := range b.jobs {
		if b.body != nil {
			ref, err := b.p.putPayload(ctx, b.p.submitter, b.body)
			if err != nil {
				return err
			}
			m = &nats.Msg{Subject: m.Subject, Header: maps.Clone(m.Header), Data: m.Data}
			m.Header.Set(headerPayload, ref)
		}
		var err error
		if futures[i], err = b.p.submitter.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			return fmt.Errorf("raw: publish: %w", err)
		}
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return fmt.Errorf("raw: publish: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Run publishes the jobs and returns when the stored result of each has come
// back; somebody has to Work.
func (b *Batch) Run(ctx context.Context) error {
	done := make(chan error, 1)
	stop, err := b.p.receive(ctx, b.run, len(b.jobs), b.body != nil, done)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.Publish(ctx); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive reads the stored results of a run in order, and tells done at the last.
func (p *Pipeline) receive(ctx context.Context, run messages.Run, n int, large bool, done chan<- error) (stop func(), err error) {
	reader, err := p.results.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{p.names.ResultsFilter(run)}})
	if err != nil {
		return nil, fmt.Errorf("raw: read results: %w", err)
	}
	reading, err := reader.Consume(func(m jetstream.Msg) {
		if large {
			if _, err := p.getPayload(ctx, p.submitter, m.Headers().Get(headerPayload)); err != nil {
				done <- err
				return
			}
		}
		if n--; n == 0 {
			done <- nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("raw: read results: %w", err)
	}
	return reading.Stop, nil
}

// headerPayload names the chunks of a body: an id, and how many they are.
const headerPayload = "Raw-Payload"

func (p *Pipeline) putPayload(ctx context.Context, l link, b []byte) (string, error) {
	var id [32]byte
	_, _ = rand.Read(id[:]) // never fails
	digest := hex.EncodeToString(id[:])
	n := 0
	for ; len(b) > 0; n++ {
		chunk := b[:min(len(b), messages.PayloadChunk)]
		b = b[len(chunk):]
		if _, err := l.js.Publish(ctx, p.names.PayloadSubject(digest, n), chunk); err != nil {
			return "", fmt.Errorf("raw: payload: %w", err)
		}
	}
	return fmt.Sprintf("%s.%d", digest, n), nil
}

func (p *Pipeline) getPayload(ctx context.Context, l link, ref string) ([]byte, error) {
	digest, count, _ := strings.Cut(ref, ".")
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, fmt.Errorf("raw: payload %q: %w", ref, err)
	}
	s, err := l.js.Stream(ctx, p.names.StreamName(messages.StreamPayloads))
	if err != nil {
		return nil, err
	}
	var b []byte
	for i := range n {
		m, err := s.GetLastMsgForSubject(ctx, p.names.PayloadSubject(digest, i))
		if err != nil {
			return nil, fmt.Errorf("raw: payload: %w", err)
		}
		b = append(b, m.Data...)
	}
	return b, nil
}

// pullLost is how long to wait for a job before the client looks again whether it
// is to pull. It looks only when it begins to wait, and not while its last pull
// is being sent; where everything at hand is done before the goroutine that sent
// it goes on, as on a busy machine, it would wait for a job that it never asked for.
const pullLost = 100 * time.Millisecond

// Work runs workers that hold a job each, until ctx is done. The client keeps as
// many jobs more at hand as there are workers, which is how nats.go is meant to
// be used and its fastest way; Mulligan does not (a job at hand has its lease
// running and is out of reach of others), and pays for that here.
func (p *Pipeline) Work(ctx context.Context, workers int) error {
	// With one or two at hand the client often misses to pull, see pullLost.
	jobs, err := p.work.Messages(jetstream.PullMaxMessages(max(workers, 3)))
	if err != nil {
		return fmt.Errorf("raw: consume: %w", err)
	}
	defer context.AfterFunc(ctx, jobs.Stop)()
	g, group := errgroup.WithContext(ctx)
	todo := make(chan jetstream.Msg)
	for range workers {
		g.Go(func() error {
			for m := range todo {
				if err := p.execute(group, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(todo)
		for group.Err() == nil {
			m, err := jobs.Next(jetstream.NextMaxWait(pullLost))
			if ctx.Err() != nil { // that of the caller, which is done before jobs stop and before that of the group is
				return nil
			}
			if errors.Is(err, nats.ErrTimeout) {
				continue
			}
			if err != nil {
				return fmt.Errorf("raw: consume: %w", err)
			}
			select {
			case todo <- m:
			case <-group.Done():
			}
		}
		return nil
	})
	err = g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// execute is a tool that returns its input.
func (p *Pipeline) execute(ctx context.Context, m jetstream.Msg) error {
	h := m.Headers()
	result := &nats.Msg{Subject: p.names.ResultSubject(messages.Run(h.Get(messages.HeaderRun)), h.Get(messages.HeaderCall)), Header: h, Data: m.Data()}
	if ref := h.Get(headerPayload); ref != "" {
		body, err := p.getPayload(ctx, p.worker, ref)
		if err != nil {
			return err
		}
		out, err := p.putPayload(ctx, p.worker, body)
		if err != nil {
			return err
		}
		h.Set(headerPayload, out)
	}
	if _, err := p.worker.js.PublishMsg(ctx, result); err != nil {
		return fmt.Errorf("raw: result: %w", err)
	}
	return m.Ack()
}

// Caller waits for single jobs of one run; its methods may be called concurrently.
type Caller struct {
	p       *Pipeline
	reading jetstream.ConsumeContext

	mu      sync.Mutex
	waiting map[string]chan struct{} // by call
}

// Caller begins to read the stored results of a run. Close it.
func (p *Pipeline) Caller(ctx context.Context, run messages.Run) (*Caller, error) {
	c := &Caller{p: p, waiting: make(map[string]chan struct{})}
	reader, err := p.results.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{p.names.ResultsFilter(run)}})
	if err != nil {
		return nil, fmt.Errorf("raw: read results: %w", err)
	}
	c.reading, err = reader.Consume(func(m jetstream.Msg) {
		call := m.Headers().Get(messages.HeaderCall)
		c.mu.Lock()
		defer c.mu.Unlock()
		if done := c.waiting[call]; done != nil {
			close(done)
			delete(c.waiting, call)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("raw: read results: %w", err)
	}
	return c, nil
}

// Close ends the reading.
func (c *Caller) Close() { c.reading.Stop() }

// Call publishes a job, and returns when it is stored and its stored result is back.
func (c *Caller) Call(ctx context.Context, m messages.Message) error {
	done := make(chan struct{})
	c.mu.Lock()
	c.waiting[m.Header.Get(messages.HeaderCall)] = done
	c.mu.Unlock()
	if _, err := c.p.submitter.js.PublishMsg(ctx, &nats.Msg{Subject: c.p.own(m.Subject), Header: nats.Header(m.Header), Data: m.Body}); err != nil {
		return fmt.Errorf("raw: publish: %w", err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
