package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 6 * time.Second

// rig is a pool in memory inside a synctest bubble, with a coordinator that
// only takes offers. Each worker has a connection of its own.
type rig struct {
	t     *testing.T
	admin *memory.Broker
	names messages.Pool
}

// bubble runs f with a fresh rig on the fake clock.
func bubble(t *testing.T, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Lease: lease})
		r := &rig{t: t, admin: b, names: b.Names()}
		go r.takeOffers(t.Context())
		synctest.Wait()
		f(r)
	})
}

func (r *rig) takeOffers(ctx context.Context) {
	err := r.admin.Serve(ctx, messages.EndpointOffer, nil, func(ctx context.Context, request []byte) []byte {
		o, err := messages.DecodeService[messages.OfferRequest](request)
		if err != nil {
			r.t.Error(err)
		}
		r.register(ctx, o)
		return must(messages.EncodeService(messages.OfferReply{Lease: messages.Millis(30 * time.Second)}))
	})
	if err != nil && ctx.Err() == nil {
		r.t.Error(err)
	}
}

func (r *rig) register(ctx context.Context, o messages.OfferRequest) {
	var names []string
	for _, s := range o.Tools {
		names = append(names, s.Name)
		if err := r.admin.EnsureQueue(ctx, s.Queue); err != nil {
			r.t.Error(err)
		}
		b := must(json.Marshal(messages.Tool{Spec: s, Withdrawn: o.Withdraw, Registered: time.Now()}))
		if err := r.admin.Put(ctx, messages.BucketTools, messages.ToolKey(s.Name), b, 0); err != nil {
			r.t.Error(err)
		}
	}
	var err error
	if o.Withdraw {
		err = r.admin.Delete(ctx, messages.BucketTools, messages.OfferKey(o.Worker))
	} else {
		b := must(json.Marshal(messages.Offer{Worker: o.Worker, Tools: names, At: time.Now()}))
		err = r.admin.Put(ctx, messages.BucketTools, messages.OfferKey(o.Worker), b, 30*time.Second)
	}
	if err != nil {
		r.t.Error(err)
	}
}

// member is a running worker and its connection.
type member struct {
	*worker.Worker
	broker *memory.Broker
	t      *testing.T
}

func (r *rig) config(tools ...*tool.Tool) worker.Config {
	return worker.Config{Broker: r.admin.Peer(), Tools: tools, Lease: lease, Name: "w1", Log: testLog(r.t)}
}

// worker starts one that ends with the test.
func (r *rig) worker(tools ...*tool.Tool) *member { return r.start(r.config(tools...)) }

func (r *rig) start(cfg worker.Config) *member {
	r.t.Helper()
	w, err := worker.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &member{Worker: w, t: r.t}
	switch b := cfg.Broker.(type) {
	case *memory.Broker:
		m.broker = b
	case *hooked:
		m.broker = b.Broker
	}
	if err := w.Start(context.WithoutCancel(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(m.stop)
	<-w.Started()
	synctest.Wait()
	m.broker.ResetCounts()
	return m
}

// hooked calls before each look-up of an outcome and each write once, so that
// a test can act while a delivery is in a worker's hands.
type hooked struct {
	*memory.Broker
	beforeGet, beforePut func(subject string)
}

func (h *hooked) Get(ctx context.Context, subject string) (messages.Stored, error) {
	if h.beforeGet != nil {
		h.beforeGet(subject)
	}
	return h.Broker.Get(ctx, subject)
}

func (h *hooked) PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error) {
	if h.beforePut != nil {
		h.beforePut(m.Subject)
	}
	return h.Broker.PutOnce(ctx, m)
}

// freezesAtLook is a worker whose process stands still when it looks for the
// outcome of a call, once.
func (r *rig) freezesAtLook(tools ...*tool.Tool) *member {
	cfg := r.config(tools...)
	h := &hooked{Broker: r.admin.Peer()}
	h.beforeGet = func(string) {
		h.beforeGet = nil
		h.Freeze()
	}
	cfg.Broker = h
	return r.start(cfg)
}

func (m *member) stop() {
	if err := m.Stop(context.WithoutCancel(m.t.Context())); err != nil {
		m.t.Errorf("stop: %v", err)
	}
}

// call makes a call of a tool; each has an id and a run of its own.
func (r *rig) call(name string, change ...func(*messages.Call)) messages.Call {
	id := messages.NewCallID()
	c := messages.Call{
		ID: id, Ref: "r1", Run: messages.UnnamedRun(id), Tool: name, Queue: "default", Lane: messages.LaneNormal,
		Effect: messages.Idempotent, Key: id, Input: messages.Text("{}"),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func (r *rig) publish(c messages.Call) {
	r.t.Helper()
	if err := r.admin.Publish(r.t.Context(), r.names.EncodeCall(c)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(subject string) (messages.Stored, bool) {
	r.t.Helper()
	m, err := r.admin.Get(r.t.Context(), subject)
	if err != nil && !errors.Is(err, messages.ErrNotFound) {
		r.t.Fatal(err)
	}
	return m, err == nil
}

// result is the terminal result of c, or fails the test.
func (r *rig) result(c messages.Call) messages.Result {
	r.t.Helper()
	m, ok := r.get(r.names.ResultSubject(c.Run, c.ID))
	if !ok {
		r.t.Fatal("no result")
	}
	res, err := r.names.DecodeResult(m.Message)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) noResult(c messages.Call) {
	r.t.Helper()
	if m, ok := r.get(r.names.ResultSubject(c.Run, c.ID)); ok {
		r.t.Errorf("a result is there: %v", m.Header)
	}
}

// failure is that of dispatch c.Dispatch, or fails the test.
func (r *rig) failure(c messages.Call) messages.Failure {
	r.t.Helper()
	m, ok := r.get(r.names.FailureSubject(c.Run, c.ID, c.Dispatch))
	if !ok {
		r.t.Fatal("no failure")
	}
	f, err := messages.DecodeFailure(m.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func (r *rig) noFailure(c messages.Call) {
	r.t.Helper()
	if m, ok := r.get(r.names.FailureSubject(c.Run, c.ID, c.Dispatch)); ok {
		r.t.Errorf("a failure is there: %s", m.Body)
	}
}

// left counts what the queue still holds.
func (r *rig) left() (waiting, unacked int) {
	r.t.Helper()
	for _, l := range messages.Lanes() {
		w, u, err := r.admin.Backlog(r.t.Context(), messages.StreamCalls, r.names.LaneConsumer("default", l))
		if err != nil {
			r.t.Fatal(err)
		}
		waiting, unacked = waiting+w, unacked+u
	}
	return waiting, unacked
}

func (r *rig) allAcked() {
	r.t.Helper()
	if w, u := r.left(); w+u != 0 {
		r.t.Errorf("the queue still holds %d waiting and %d un-acked", w, u)
	}
}

// cancel writes the wish to CONTROL, as a coordinator does first, and lets
// workers hear of it.
func (r *rig) cancel(key string, c messages.Cancel) {
	r.t.Helper()
	r.writeCancel(key, c)
	synctest.Wait()
}

func (r *rig) writeCancel(key string, c messages.Cancel) {
	r.t.Helper()
	m := must(messages.EncodeStory("unused", c))
	if err := r.admin.Put(r.t.Context(), messages.BucketControl, key, m.Body, time.Hour); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) putStory(subject string, s messages.Start) {
	r.t.Helper()
	if winner, err := r.admin.PutOnce(r.t.Context(), must(messages.EncodeStory(subject, s))); err != nil || winner != nil {
		r.t.Fatal(winner, err)
	}
}

func (r *rig) marks(c messages.Call) []messages.Start {
	r.t.Helper()
	var out []messages.Start
	for k := 1; k <= messages.MaxMarks+1; k++ {
		if m, ok := r.get(r.names.MarkSubject(c.Run, c.ID, c.Dispatch, k)); ok {
			out = append(out, must(messages.DecodeStory[messages.Start](m.Body)))
		}
	}
	return out
}

// pass lets time go by for everything in the bubble.
func pass(d time.Duration) {
	<-time.After(d) // of the fake clock
	synctest.Wait()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// testLog writes to the test's log.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// bytesTool is a raw tool that counts its executions.
type bytesTool struct {
	*tool.Tool
	times atomic.Int64
}

func (b *bytesTool) ran() int { return int(b.times.Load()) }

func counted(name string, f func(context.Context, tool.Call) ([]byte, error), options ...tool.Option) *bytesTool {
	b := &bytesTool{}
	b.Tool = tool.Raw(name, nil, func(ctx context.Context, c tool.Call) (tool.Output, error) {
		b.times.Add(1)
		out, err := f(ctx, c)
		return tool.Output{Body: out}, err
	}, options...)
	return b
}

func echo(_ context.Context, c tool.Call) ([]byte, error) { return c.Input, nil }
