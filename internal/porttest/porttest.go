// Package porttest is the conformance suite of the ports: what coordinator,
// worker, reflector and client rely on, held against the JetStream adapter and
// its twin in memory alike.
package porttest

import (
	"context"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// Broker is everything that the machines' ports are cut out of. It exists for
// the suite; each machine declares the few methods that it needs.
type Broker interface {
	Names() messages.Pool

	PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error)
	Get(ctx context.Context, subject string) (messages.Stored, error)
	Find(ctx context.Context, subject string) (messages.Stored, error)
	Publish(ctx context.Context, m messages.Message) error
	PublishAll(ctx context.Context, ms []messages.Message) []error
	Schedule(ctx context.Context, d messages.Due) error
	Purge(ctx context.Context, filter string) error
	Erase(ctx context.Context, stream messages.Stream, filter string) (int64, error)
	EraseEntries(ctx context.Context, b messages.Bucket, filter string) (int64, error)
	List(ctx context.Context, stream messages.Stream, filters []string, fn func(messages.Stored) bool) error
	ListFrom(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored) bool) error
	Follow(ctx context.Context, stream messages.Stream, filters []string, from uint64, fn func(messages.Stored)) error
	LastSequence(ctx context.Context, stream messages.Stream) (uint64, error)
	Matching(ctx context.Context, stream messages.Stream, filter string) (uint64, error)
	ListHeads(ctx context.Context, stream messages.Stream, filter string, from uint64, fn func(messages.Stored) bool) error

	Fetch(ctx context.Context, stream messages.Stream, consumer string, max int, wait time.Duration) ([]messages.Delivery, error)
	Ack(ctx context.Context, d messages.Delivery) error
	Nak(ctx context.Context, d messages.Delivery) error
	Extend(ctx context.Context, d messages.Delivery) error
	EnsureQueue(ctx context.Context, queue string) error
	SetQueue(ctx context.Context, queue string, inFlight int, paused bool) error
	Backlog(ctx context.Context, stream messages.Stream, consumer string) (waiting, unacked int, err error)

	Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error)
	Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (revision uint64, err error)
	Put(ctx context.Context, b messages.Bucket, key string, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, b messages.Bucket, key string) error
	Entries(ctx context.Context, b messages.Bucket, filter string) ([]messages.Entry, error)
	EachEntry(ctx context.Context, b messages.Bucket, filter string, fn func(messages.Entry) bool) error
	Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error

	PutPayload(ctx context.Context, b []byte) (messages.PayloadRef, error)
	GetPayload(ctx context.Context, r messages.PayloadRef) ([]byte, error)

	Serve(ctx context.Context, endpoint string, ready func(), handle func(ctx context.Context, request []byte) (reply []byte)) error
	Request(ctx context.Context, endpoint string, body []byte) ([]byte, error)
	Tell(topic string, body []byte) error
	Hear(ctx context.Context, topic string, ready func(), fn func(body []byte)) error
}

// Suite is one implementation to hold to the suite.
type Suite struct {
	// Open gives a provisioned broker of its own that ends with the test. The
	// leases of its consumers are [Lease], and the queue "limited" has a limit
	// of four.
	Open func(t *testing.T) Broker
	// Fill makes a stream of a broker from Open refuse everything new, until
	// the function that it returns is called.
	Fill func(t *testing.T, b Broker, s messages.Stream) (release func())
	// Around runs a test, for instance in a bubble of testing/synctest. May be nil.
	Around func(t *testing.T, f func(t *testing.T))
}

// Lease is the lease that the suite expects: longer than a busy machine holds a
// test up, and short enough to be waited for.
const Lease = 3 * time.Second

// patience bounds what must happen soon; a test that waits longer has failed.
const patience = time.Minute

// Case is one test of the suite.
type Case struct {
	Name string
	Run  func(e *Env)
}

// Cases are the tests of the suite that show no single row of the protocol;
// those that do are exported by themselves, to be run under the row's number.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{streamCases(), scheduleCases(), deliveryCases(), bucketCases(), watchCases(), payloadCases(), serviceCases(), peerCases(), queueCases()} {
		all = append(all, group...)
	}
	return all
}

// Run holds an implementation to all cases.
func Run(t *testing.T, s Suite) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { s.One(t, c.Run) })
	}
}

// One runs one test against a broker of its own.
func (s Suite) One(t *testing.T, f func(e *Env)) {
	around := s.Around
	if around == nil {
		around = func(t *testing.T, f func(t *testing.T)) {
			t.Parallel()
			f(t)
		}
	}
	around(t, func(t *testing.T) {
		b := s.Open(t)
		f(&Env{T: t, B: b, Names: b.Names(), Ctx: t.Context(), suite: s})
	})
}

// Env is what a test of the suite works with.
type Env struct {
	*testing.T
	B     Broker
	Names messages.Pool
	Ctx   context.Context
	suite Suite
}

// Fill makes a stream refuse everything new until release is called.
func (e *Env) Fill(s messages.Stream) (release func()) {
	e.Helper()
	return e.suite.Fill(e.T, e.B, s)
}

func (e *Env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// wait reads what a goroutine of the test reports.
func wait[T any](e *Env, what string, c <-chan T) T {
	e.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case v := <-c:
		return v
	case <-timeout.C:
		e.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

// background runs f until the test ends, and waits for it then.
func (e *Env) background(f func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(e.Ctx))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	ended := false
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel(errStopped)
		return wait(e, "the end of a goroutine", done)
	}
	e.Cleanup(func() { _ = stop() })
	return stop
}

// call is a fresh call of a run.
type call struct {
	run messages.Run
	id  string
}

func newCall(run string) call { return call{messages.NamedRun(run), messages.NewCallID()} }

// queued is dispatch n of a call in a queue's normal lane.
func (e *Env) queued(queue string, c call, n int) messages.Message {
	return messages.Message{
		Subject: e.Names.CallSubject(queue, messages.LaneNormal, c.run, c.id, n),
		Header:  messages.Header{messages.HeaderCall: {c.id}},
		Body:    []byte("input of " + c.id),
	}
}

func (e *Env) result(c call, body string) messages.Message {
	return messages.Message{Subject: e.Names.ResultSubject(c.run, c.id), Header: messages.Header{messages.HeaderCall: {c.id}}, Body: []byte(body)}
}

// fetch fetches from a queue's normal lane, and fails the test on an error.
func (e *Env) fetch(queue string, max int, wait time.Duration) []messages.Delivery {
	e.Helper()
	ds, err := e.B.Fetch(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer(queue, messages.LaneNormal), max, wait)
	e.must(err)
	return ds
}

// one fetches exactly one message within the suite's patience.
func (e *Env) one(queue string) messages.Delivery {
	e.Helper()
	ds := e.fetch(queue, 1, patience)
	if len(ds) != 1 {
		e.Fatalf("fetched %d messages, want 1", len(ds))
	}
	return ds[0]
}

// collect fetches exactly n messages, in as many steps as it takes.
func (e *Env) collect(queue string, n int) []messages.Delivery {
	e.Helper()
	var ds []messages.Delivery
	for begin := time.Now(); len(ds) < n && time.Since(begin) < patience; {
		ds = append(ds, e.fetch(queue, n-len(ds), patience)...)
	}
	if len(ds) != n {
		e.Fatalf("fetched %d messages, want %d", len(ds), n)
	}
	return ds
}

func (e *Env) queue(name string) {
	e.Helper()
	e.must(e.B.EnsureQueue(e.Ctx, name))
}
