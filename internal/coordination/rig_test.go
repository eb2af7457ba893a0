package coordination_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"mulligan/internal/coordination"
	"mulligan/internal/memory"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 6 * time.Second

// rig is a pool in memory inside a synctest bubble. The test plays submitter,
// workers and reflector by hand; each coordinator has a connection of its own.
type rig struct {
	t     *testing.T
	admin *memory.Broker
	names messages.Pool
	batch string

	relief func() bool // whether another coordinator is to come

	members []*member // all that were started
}

// bubble runs f with a fresh pool on the fake clock.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Config{Lease: lease})
		f(t, &rig{t: t, admin: b, names: b.Names(), batch: messages.NewCallID()})
	})
}

type member struct {
	*coordination.Coordinator
	broker *memory.Broker
	t      *testing.T
}

func (r *rig) config(name string) coordination.Config {
	return coordination.Config{Broker: r.admin.Peer(), Name: name, Lease: lease, Log: testLog(r.t), Policies: unlooped}
}

// unlooped lets a run submit the same call as often as a test likes.
var unlooped = recovery.Document{Pool: recovery.Values{"loop_warn": json.RawMessage("0"), "loop_stop": json.RawMessage("0")}}

// coordinator starts one that ends with the test.
func (r *rig) coordinator(change ...func(*coordination.Config)) *member {
	r.t.Helper()
	cfg := r.config(fmt.Sprintf("c%d", len(change)))
	for _, f := range change {
		f(&cfg)
	}
	c, err := coordination.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &member{Coordinator: c, t: r.t}
	switch b := cfg.Broker.(type) {
	case *memory.Broker:
		m.broker = b
	case *hooked:
		m.broker = b.Broker
	case *mortal:
		m.broker = b.Broker
	}
	r.members = append(r.members, m)
	if err := c.Start(context.WithoutCancel(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(m.stop)
	<-c.Started()
	synctest.Wait()
	m.broker.ResetCounts()
	return m
}

func (m *member) stop() {
	m.broker.Thaw()
	m.broker.Heal()
	if err := m.Stop(context.WithoutCancel(m.t.Context())); err != nil {
		m.t.Errorf("stop: %v", err)
	}
}

// hooked lets a test step in before an operation of a coordinator.
type hooked struct {
	*memory.Broker
	before func(op memory.Op, on string) error
	behind messages.Bucket // of which no watch sees anything
}

func (h *hooked) PutOnce(ctx context.Context, m messages.Message) (*messages.Stored, error) {
	if err := h.before(memory.OpPutOnce, m.Subject); err != nil {
		return nil, err
	}
	return h.Broker.PutOnce(ctx, m)
}

func (h *hooked) Get(ctx context.Context, subject string) (messages.Stored, error) {
	if err := h.before(memory.OpGet, subject); err != nil {
		return messages.Stored{}, err
	}
	return h.Broker.Get(ctx, subject)
}

func (h *hooked) Load(ctx context.Context, b messages.Bucket, key string) (messages.Entry, error) {
	if err := h.before(memory.OpLoad, string(b)+"."+key); err != nil {
		return messages.Entry{}, err
	}
	return h.Broker.Load(ctx, b, key)
}

func (h *hooked) Publish(ctx context.Context, m messages.Message) error {
	if err := h.before(memory.OpPublish, m.Subject); err != nil {
		return err
	}
	return h.Broker.Publish(ctx, m)
}

func (h *hooked) Schedule(ctx context.Context, d messages.Due) error {
	if err := h.before(memory.OpSchedule, h.Names().ScheduleSubject(d)); err != nil {
		return err
	}
	return h.Broker.Schedule(ctx, d)
}

func (h *hooked) Purge(ctx context.Context, filter string) error {
	if err := h.before(memory.OpPurge, filter); err != nil {
		return err
	}
	return h.Broker.Purge(ctx, filter)
}

func (h *hooked) Save(ctx context.Context, b messages.Bucket, key string, v []byte, expect uint64, ttl time.Duration) (uint64, error) {
	if err := h.before(memory.OpSave, string(b)+"."+key); err != nil {
		return 0, err
	}
	return h.Broker.Save(ctx, b, key, v, expect, ttl)
}

func (h *hooked) Put(ctx context.Context, b messages.Bucket, key string, v []byte, ttl time.Duration) error {
	if b == messages.BucketControl { // nothing is decided by what is put elsewhere
		if err := h.before(memory.OpPut, string(b)+"."+key); err != nil {
			return err
		}
	}
	return h.Broker.Put(ctx, b, key, v, ttl)
}

// Watch shows nothing of a bucket that is behind.
func (h *hooked) Watch(ctx context.Context, b messages.Bucket, filter string, ready func(), fn func(messages.Entry)) error {
	if b == h.behind {
		ready()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return h.Broker.Watch(ctx, b, filter, ready, fn)
}

func (h *hooked) Ack(ctx context.Context, d messages.Delivery) error {
	if err := h.before(memory.OpAck, d.Subject); err != nil {
		return err
	}
	return h.Broker.Ack(ctx, d)
}

// hook gives a coordinator's broker a step before each operation.
func hook(before func(b *memory.Broker, op memory.Op, on string) error) func(*coordination.Config) {
	return func(cfg *coordination.Config) {
		b := cfg.Broker.(*memory.Broker)
		cfg.Broker = &hooked{Broker: b, before: func(op memory.Op, on string) error { return before(b, op, on) }}
	}
}

// tool offers a tool through a coordinator.
func (r *rig) tool(name string, effect messages.Effect, change ...func(*messages.ToolSpec)) {
	r.t.Helper()
	spec := messages.ToolSpec{Name: name, Queue: "q", Effect: effect}
	for _, f := range change {
		f(&spec)
	}
	if reply := r.offer(messages.OfferRequest{Worker: "w-" + messages.Token(name), Tools: []messages.ToolSpec{spec}}); reply.Error != "" {
		r.t.Fatal(reply.Error)
	}
}

func (r *rig) offer(req messages.OfferRequest) messages.OfferReply {
	r.t.Helper()
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointOffer, must(messages.EncodeService(req)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.OfferReply](raw))
}

// idAt is a call id that was made at a time. The usual maker never goes back
// in time, which every bubble does.
func idAt(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id.String()
}

// submission is a call of tool t with a fresh id.
func submission(change ...func(*messages.Submission)) messages.Submission {
	s := messages.Submission{Call: idAt(time.Now()), Tool: "t", Run: "r", Input: []byte(`{"a":1}`)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func (r *rig) send(chunk messages.Chunk) messages.ChunkReply {
	r.t.Helper()
	if chunk.Batch == "" {
		chunk.Batch = r.batch
	}
	raw, err := r.admin.Request(r.t.Context(), messages.EndpointSubmit, must(messages.EncodeChunk(chunk)))
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return must(messages.DecodeService[messages.ChunkReply](raw))
}

// accept submits one call and returns it as it stands in CALLS.
func (r *rig) accept(change ...func(*messages.Submission)) messages.Call {
	r.t.Helper()
	s := submission(change...)
	if reply := r.send(messages.Chunk{Calls: []messages.Submission{s}}); reply.Error != "" || len(reply.Refused) > 0 {
		r.t.Fatalf("refused: %+v", reply)
	}
	run := messages.UnnamedRun(r.batch)
	if s.Run != "" {
		run = messages.NamedRun(s.Run)
	}
	c, ok := r.queued(run, s.Call)
	if !ok {
		r.t.Fatal("accepted, and not in CALLS")
	}
	return c
}

// queued is the dispatch of a call that stands in CALLS.
func (r *rig) queued(run messages.Run, call string) (messages.Call, bool) {
	r.t.Helper()
	m, err := r.admin.Get(r.t.Context(), r.names.CallFilter(run, call))
	if errors.Is(err, messages.ErrNotFound) {
		return messages.Call{}, false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return must(r.names.DecodeCall(m.Message)), true
}

// fail plays the worker that ran a dispatch and failed: outcome, then ack.
func (r *rig) fail(c messages.Call, change ...func(*messages.Failure)) {
	r.t.Helper()
	f := messages.Failure{Call: c, Input: c.Input, Output: messages.Text(fmt.Sprintf("error of %d", c.Dispatch)),
		Code: messages.CodeToolError, Error: "error", Executed: true, At: time.Now()}
	if c.Dispatch > 0 && c.Effect != messages.Unsafe {
		f.Mark = 1
	}
	for _, fn := range change {
		fn(&f)
	}
	r.put(must(r.names.EncodeFailure(f)))
	r.done(c)
}

// done takes a dispatch out of CALLS, as its worker's ack does.
func (r *rig) done(c messages.Call) {
	r.t.Helper()
	if err := r.admin.Purge(r.t.Context(), r.names.CallSubject(c.Queue, c.TravelLane(), c.Run, c.ID, c.Dispatch)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) put(m messages.Message) *messages.Stored {
	r.t.Helper()
	winner, err := r.admin.PutOnce(r.t.Context(), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return winner
}

// decide plays the reflector.
func (r *rig) decide(c messages.Call, action messages.RecoveryAction, change ...func(*messages.Decision)) {
	r.t.Helper()
	d := messages.Decision{Call: c.ID, Run: c.Run, Dispatch: c.Dispatch, Action: action, By: "rules", MaxRetries: 3, Guidance: "guidance",
		Analysis: &messages.FailureAnalysis{IsRecoverable: true, RootCause: "cause", Severity: messages.Medium}}
	for _, f := range change {
		f(&d)
	}
	r.put(must(r.names.EncodeDecision(d)))
}

// failAndDecide is one failed dispatch with its decision.
func (r *rig) failAndDecide(c messages.Call, action messages.RecoveryAction) {
	r.t.Helper()
	r.fail(c)
	r.decide(c, action)
}

func (r *rig) succeed(c messages.Call) {
	r.t.Helper()
	r.put(r.names.EncodeResult(messages.Result{Call: c.ID, Run: c.Run, Tool: c.Tool, Status: messages.Succeeded, Attempts: c.Attempt + 1,
		Dispatch: c.Dispatch, Ended: time.Now(), Output: messages.Text("fine")}))
	r.done(c)
}

// result is how the call ended; nil when it has not.
func (r *rig) result(c messages.Call) *messages.Result {
	r.t.Helper()
	m, err := r.admin.Get(r.t.Context(), r.names.ResultSubject(c.Run, c.ID))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	res := must(r.names.DecodeResult(m.Message))
	return &res
}

func (r *rig) wantResult(c messages.Call, status messages.Status, code messages.Code) messages.Result {
	r.t.Helper()
	res := r.result(c)
	if res == nil {
		r.t.Fatalf("the call has not ended, want %s", status)
	}
	if res.Status != status || res.Code != code {
		r.t.Fatalf("ended %s (%s) %q, want %s (%s)", res.Status, res.Code, res.Reason, status, code)
	}
	return *res
}

// record is the record of the call; nil for none.
func (r *rig) record(c messages.Call) *messages.Record {
	r.t.Helper()
	e, err := r.admin.Load(r.t.Context(), messages.BucketAttempts, messages.CallKey(c.Run, c.ID))
	if errors.Is(err, messages.ErrNotFound) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	rec := must(messages.DecodeRecord(e.Value))
	return &rec
}

// wantQueued waits for nothing: the dispatch stands in CALLS now.
func (r *rig) wantQueued(c messages.Call, n int) messages.Call {
	r.t.Helper()
	q, ok := r.queued(c.Run, c.ID)
	if !ok || q.Dispatch != n {
		r.t.Fatalf("dispatch %d is not in CALLS: found %v %+v, record %+v", n, ok, q, r.record(c))
	}
	return q
}

// triggers are the messages of a consumer that are not acked.
func (r *rig) triggers(stream messages.Stream, consumer string) int {
	r.t.Helper()
	waiting, unacked, err := r.admin.Backlog(r.t.Context(), stream, consumer)
	if err != nil {
		r.t.Fatal(err)
	}
	return waiting + unacked
}

func (r *rig) wantNoTriggers() {
	r.t.Helper()
	for _, c := range []string{messages.ConsumerDecisions, messages.ConsumerAnswers, messages.ConsumerCancels, messages.ConsumerSettled} {
		if n := r.triggers(messages.StreamRecovery, c); n != 0 {
			r.t.Errorf("%d triggers of %s are not acked", n, c)
		}
	}
	if n := r.triggers(messages.StreamSchedule, messages.ConsumerDue); n != 0 {
		r.t.Errorf("%d due messages are not acked", n)
	}
}

// cancel asks until somebody answers: one of several coordinators may stand still.
func (r *rig) cancel(req messages.CancelRequest) messages.CancelReply {
	r.t.Helper()
	for range 3 {
		raw, err := r.admin.Request(r.t.Context(), messages.EndpointCancel, must(messages.EncodeService(req)))
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		synctest.Wait()
		return must(messages.DecodeService[messages.CancelReply](raw))
	}
	r.t.Fatal("nobody answers")
	return messages.CancelReply{}
}

// pass lets time pass, and everything happen that it brings.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(string(b))
	return len(b), nil
}

func input(s string) func(*messages.Submission) {
	return func(sub *messages.Submission) { sub.Input = []byte(s) }
}

func correction(fix string) func(*messages.Decision) {
	return func(d *messages.Decision) {
		d.Analysis.Correction = &messages.Correction{Type: messages.InputFix, Description: "mend it", ModifiedInput: json.RawMessage(fix)}
	}
}

func ambiguous(f *messages.Failure) { f.Ambiguous = true }

func park(d *messages.Decision) { d.Park = true }
