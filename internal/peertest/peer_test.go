package peertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// node is the path of the interpreter. Where there is none the test fails
// under CI, which must have it, and is skipped elsewhere.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("node is not installed; CI needs Node 20 or later to run examples/peer: %v", err)
	}
	t.Skip("NOT TESTED: node is not installed, so the worker in another language (examples/peer) was not run")
	return ""
}

// pool is a broker with a provisioned pool.
type pool struct {
	*jetstream.Pool
	server *embedded.Server
	ctx    context.Context
}

func startPool(t *testing.T) *pool {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(stop)
	server := natstest.Server(t)
	p := &pool{Pool: natstest.Connect(t, server, jetstream.Config{}), server: server, ctx: ctx}
	if err := p.Provision(ctx, jetstream.TopologyConfig{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// run starts the worker and waits until it says that it serves. The worker is
// told to stop at the end of the test, and must.
func (p *pool) run(t *testing.T) {
	t.Helper()
	address := strings.Replace(p.server.ClientURL(), "nats://", "nats://"+p.server.Token()+"@", 1)
	cmd := exec.Command(node(t), "../../examples/peer/worker.mjs", address)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop the worker: %v", err)
		}
		kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		if said.Len() > 0 {
			t.Errorf("the worker complained:\n%s", said.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "serves words/count") {
		t.Fatalf("the worker said %q, %v, and\n%s", line, err, said.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// offers plays the coordinator's part of a registration.
func (p *pool) offers(t *testing.T) <-chan messages.OfferRequest {
	t.Helper()
	got := make(chan messages.OfferRequest, 100)
	ctx, stop := context.WithCancel(p.ctx)
	served := make(chan error, 1)
	t.Cleanup(func() {
		stop()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("serve offers: %v", err)
		}
	})
	go func() {
		served <- p.Serve(ctx, messages.EndpointOffer, nil, func(ctx context.Context, request []byte) []byte {
			reply := messages.OfferReply{Lease: messages.Millis(30 * time.Second)}
			o, err := messages.DecodeService[messages.OfferRequest](request)
			if err != nil {
				reply.Error = err.Error()
			}
			for _, spec := range o.Tools {
				if err := errors.Join(spec.Validate(), p.EnsureQueue(ctx, spec.Queue)); err != nil {
					reply.Error = err.Error()
				}
			}
			got <- o
			b, err := messages.EncodeService(reply)
			if err != nil {
				t.Errorf("encode: %v", err)
			}
			return b
		})
	}()
	// The endpoint is known to be served when a request finds a responder.
	for {
		_, err := p.Request(p.ctx, messages.EndpointOffer, []byte(`{"version":"1","worker":"probe"}`))
		if err == nil {
			<-got
			return got
		}
		if !errors.Is(err, messages.ErrNoResponder) {
			t.Fatal(err)
		}
	}
}

func newCall(input string) messages.Call {
	id := messages.NewCallID()
	return messages.Call{
		ID: id, Run: messages.NamedRun("a run/1"), Tool: "words/count", Queue: "words", Lane: messages.LaneNormal,
		Effect: messages.Idempotent, Key: id, Ref: "réf \"1\"", Labels: messages.Labels{"k": "日本"}, Task: "count — words", Input: messages.Text(input),
	}
}

// await reads a subject until something stands there.
func (p *pool) await(t *testing.T, subject string) messages.Stored {
	t.Helper()
	found := make(chan messages.Stored, 1)
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	stream, ok := p.Names().StreamOf(subject)
	if !ok {
		t.Fatalf("no stream holds %s", subject)
	}
	go func() {
		_ = p.Follow(ctx, stream, []string{subject}, 1, func(m messages.Stored) {
			select {
			case found <- m:
			default:
			}
		})
	}()
	select {
	case m := <-found:
		return m
	case <-ctx.Done():
		t.Fatalf("nothing came on %s", subject)
		return messages.Stored{}
	}
}

func (p *pool) cancel(t *testing.T, c messages.Call, reason string) {
	t.Helper()
	wish, err := messages.EncodeStory("", messages.Cancel{Status: messages.Cancelled, Code: messages.CodeCancelled, Reason: reason, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(p.ctx, messages.BucketControl, messages.ControlCallKey(c.Run, c.ID), wish.Body, 0); err != nil {
		t.Fatal(err)
	}
}

func (p *pool) publish(t *testing.T, c messages.Call) {
	t.Helper()
	if err := p.Publish(p.ctx, p.Names().EncodeCall(c)); err != nil {
		t.Fatal(err)
	}
}

func (p *pool) result(t *testing.T, c messages.Call) messages.Result {
	t.Helper()
	r, err := p.Names().DecodeResult(p.await(t, p.Names().ResultSubject(c.Run, c.ID)).Message)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// acked waits until nothing of the queue is left.
func (p *pool) acked(t *testing.T) {
	t.Helper()
	for p.ctx.Err() == nil {
		left := 0
		if err := p.List(p.ctx, messages.StreamCalls, []string{p.Names().QueueFilter("words")}, func(messages.Stored) bool { left++; return true }); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			return
		}
	}
	t.Fatal("calls are left in CALLS")
}

// TestPeer hands calls to the worker as a coordinator would, and reads what it
// wrote with the decoders of the Go side.
func TestPeer(t *testing.T) {
	p := startPool(t)
	offers := p.offers(t)
	t.Run("worker", func(t *testing.T) {
		p.run(t)
		if o := <-offers; len(o.Tools) != 1 || o.Tools[0].Name != "words/count" || o.Tools[0].Effect != messages.Idempotent || o.Tools[0].Queue != "words" {
			t.Errorf("offer %+v", o)
		}
		for name, check := range map[string]func(*testing.T, *pool){
			"success": success, "dispatch 2": laterDispatch, "payload": largeInput, "bad arguments": badArguments, "not JSON": notJSON,
			"deadline": deadline, "cancelled": cancelled, "cancelled retry": cancelledRetry, "ended before": endedBefore, "marks used up": marksUsedUp, "tombstone": tombstone,
		} {
			t.Run(name, func(t *testing.T) { check(t, p) })
		}
		p.acked(t)
	})
	for {
		select {
		case o := <-offers:
			if o.Withdraw {
				return
			}
		case <-p.ctx.Done():
			t.Fatal("the worker stopped and did not withdraw its offer")
		}
	}
}

func success(t *testing.T, p *pool) {
	c := newCall(`{"text": "four words of text"}`)
	p.publish(t, c)
	r := p.result(t, c)
	if r.Status != messages.Succeeded || string(r.Output.Inline) != `{"words":4}` || r.IsError || r.Attempts != 1 || r.Dispatch != 0 {
		t.Errorf("result %+v", r)
	}
	if r.Ref != c.Ref || r.Labels["k"] != "日本" || r.Tool != c.Tool || r.Run != c.Run || r.Call != c.ID || !strings.HasPrefix(r.Worker, "peer-") || r.Ended.IsZero() {
		t.Errorf("result %+v does not echo %+v", r, c)
	}
}

func laterDispatch(t *testing.T, p *pool) {
	c := newCall(`{"text": "two words"}`)
	c.Dispatch, c.Attempt, c.RecoveredBy = 2, 1, "input_fix (rules)"
	p.publish(t, c)
	if r := p.result(t, c); r.Status != messages.Succeeded || r.Attempts != 2 || r.Dispatch != 2 || r.RecoveredBy != c.RecoveredBy {
		t.Errorf("result %+v", r)
	}
	mark, err := messages.DecodeStory[messages.Start](p.await(t, p.Names().MarkSubject(c.Run, c.ID, 2, 1)).Body)
	if err != nil || mark.Token == "" || mark.Sequence == 0 || mark.Delivery != 1 {
		t.Errorf("mark %+v, %v", mark, err)
	}
	if _, err := messages.DecodeStory[messages.Settled](p.await(t, p.Names().SettledSubject(c.Run, c.ID, 2)).Body); err != nil {
		t.Error(err)
	}
}

func largeInput(t *testing.T, p *pool) {
	input, err := json.Marshal(map[string]string{"text": strings.Repeat("word ", 250_000)})
	if err != nil {
		t.Fatal(err)
	}
	c := newCall("")
	ref, err := p.PutPayload(p.ctx, input)
	if err != nil {
		t.Fatal(err)
	}
	c.Input = messages.Body{Ref: &ref}
	p.publish(t, c)
	if r := p.result(t, c); string(r.Output.Inline) != `{"words":250000}` {
		t.Errorf("result %+v", r)
	}
}

func (p *pool) failure(t *testing.T, c messages.Call) messages.Failure {
	t.Helper()
	f, err := messages.DecodeFailure(p.await(t, p.Names().FailureSubject(c.Run, c.ID, c.Dispatch)).Body)
	if err != nil {
		t.Fatal(err)
	}
	want := c
	want.Input = messages.Body{}
	if got, wanted := asJSON(t, f.Call), asJSON(t, want); got != wanted {
		t.Errorf("envelope %s\nwant     %s", got, wanted)
	}
	if string(f.Input.Inline) != string(c.Input.Inline) {
		t.Errorf("input %q, want %q", f.Input.Inline, c.Input.Inline)
	}
	return f
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func badArguments(t *testing.T, p *pool) {
	c := newCall(`{"text": 4}`)
	c.Deadline, c.Timeout = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond), messages.Millis(5*time.Second)
	p.publish(t, c)
	if f := p.failure(t, c); f.Code != messages.CodeInvalidArguments || f.Executed || f.Ambiguous || !strings.Contains(f.Error, "text") {
		t.Errorf("failure %+v", f)
	}
}

func notJSON(t *testing.T, p *pool) {
	c := newCall("{'text': \u2028 'x',}")
	p.publish(t, c)
	if f := p.failure(t, c); f.Code != messages.CodeInvalidArguments || f.Executed {
		t.Errorf("failure %+v", f)
	}
}

func deadline(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	c.Deadline = time.Now().Add(-time.Second)
	p.publish(t, c)
	if r := p.result(t, c); r.Status != messages.Expired || r.Code != messages.CodeDeadline || r.Attempts != 0 {
		t.Errorf("result %+v", r)
	}
}

func cancelled(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	p.cancel(t, c, "no longer wanted")
	p.publish(t, c)
	if r := p.result(t, c); r.Status != messages.Cancelled || r.Code != messages.CodeCancelled || string(r.Output.Inline) != "cancelled: no longer wanted" {
		t.Errorf("result %+v", r)
	}
}

// cancelledRetry ends with what the last attempt answered, byte for byte.
func cancelledRetry(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	for n, f := range []messages.Failure{
		{Executed: true, Code: messages.CodeToolError, Output: messages.Text("first\n\"answer\"")},
		{Code: messages.CodeToolNotFound, Output: messages.Text("nobody serves it")},
	} {
		f.Call, f.At = c, time.Now()
		f.Call.Dispatch = n
		m, err := p.Names().EncodeFailure(f)
		if err != nil {
			t.Fatal(err)
		}
		if winner, err := p.PutOnce(p.ctx, m); winner != nil || err != nil {
			t.Fatal(winner, err)
		}
	}
	c.Dispatch, c.Attempt = 2, 1
	p.cancel(t, c, "süd \"1\"")
	p.publish(t, c)
	r := p.result(t, c)
	if r.Status != messages.Cancelled || !r.IsError || string(r.Output.Inline) != "first\n\"answer\"" || r.Reason != "süd \"1\"" || r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	p.await(t, p.Names().SettledSubject(c.Run, c.ID, 2))
}

func endedBefore(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	c.Repeat = true
	ended := messages.Result{Call: c.ID, Run: c.Run, Tool: c.Tool, Status: messages.Succeeded, Attempts: 1, Ended: time.Now(), Output: messages.Text("before")}
	if winner, err := p.PutOnce(p.ctx, p.Names().EncodeResult(ended)); winner != nil || err != nil {
		t.Fatal(winner, err)
	}
	p.publish(t, c)
	p.await(t, p.Names().SettledSubject(c.Run, c.ID, 0))
	if r := p.result(t, c); string(r.Output.Inline) != "before" {
		t.Errorf("result %+v", r)
	}
	if m, err := p.Get(p.ctx, p.Names().MarkSubject(c.Run, c.ID, 0, 1)); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("it was started all the same: %+v, %v", m, err)
	}
}

func (p *pool) mark(t *testing.T, c messages.Call, k int, s messages.Start) {
	t.Helper()
	m, err := messages.EncodeStory(p.Names().MarkSubject(c.Run, c.ID, c.Dispatch, k), s)
	if err != nil {
		t.Fatal(err)
	}
	if winner, err := p.PutOnce(p.ctx, m); winner != nil || err != nil {
		t.Fatal(winner, err)
	}
}

func marksUsedUp(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	c.Dispatch, c.Attempt = 1, 1
	for k := 1; k <= messages.MaxMarks; k++ {
		p.mark(t, c, k, messages.Start{Token: "other", Worker: "gone"})
	}
	p.publish(t, c)
	if f := p.failure(t, c); f.Code != messages.CodeWorkerLost || !f.Executed || !f.Ambiguous {
		t.Errorf("failure %+v", f)
	}
}

func tombstone(t *testing.T, p *pool) {
	c := newCall(`{"text": "x"}`)
	c.Dispatch, c.Attempt = 1, 1
	p.mark(t, c, 1, messages.Start{Token: "c", Worker: "coordinator", Tombstone: "corrected"})
	p.publish(t, c)
	p.acked(t)
	if m, err := p.Get(p.ctx, p.Names().ResultSubject(c.Run, c.ID)); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("it ran over a tombstone: %+v, %v", m, err)
	}
}
