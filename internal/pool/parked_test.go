package pool

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mulligan/internal/coordination"
	"mulligan/internal/inbox"
	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// patience bounds what must come to an end, with 10,000 calls on a busy machine.
const patience = 10 * time.Minute

// howMany is how many calls are parked; `make parked` takes 10,000.
func howMany(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("MULLIGAN_PARKED"))
	if os.Getenv("MULLIGAN_PARKED") == "" {
		return 300
	}
	if err != nil || n < 3 {
		t.Fatalf("MULLIGAN_PARKED is %q: give 3 or more", os.Getenv("MULLIGAN_PARKED"))
	}
	return n
}

type refund struct {
	Order string `json:"order"`
}

// refunds is an unsafe tool that does not know a first order as it is written,
// and what it should have been; it counts what it was asked, by call.
func refunds(asked *sync.Map) *tool.Tool {
	return tool.New("refund", func(ctx context.Context, in refund) (string, error) {
		c := tool.FromContext(ctx)
		n, _ := asked.LoadOrStore(c.ID, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		if c.Dispatch == 0 {
			return "", fmt.Errorf("order %s not found; did you mean '%s'?", in.Order, strings.Replace(in.Order, "ORD-", "ORD-1", 1))
		}
		return "refunded " + in.Order, nil
	})
}

// TestS5_3_ParkedCallsHoldNothingAndOutliveAllProcesses parks many calls of
// unsafe tools, starts everything anew on the state that is left, the broker
// too, and answers them all.
func TestS5_3_ParkedCallsHoldNothingAndOutliveAllProcesses(t *testing.T) {
	n := howMany(t)
	var asked sync.Map
	cfg := Config{Dir: t.TempDir(), Coordinators: 2, Workers: 2, Slots: 8, Lease: 5 * time.Second, Tools: append(tools(), refunds(&asked))}
	clock := time.Now()
	lap := func(what string) {
		t.Logf("%-40s %v", what, time.Since(clock).Round(time.Millisecond))
		clock = time.Now()
	}
	run := &parking{t: t, cfg: cfg, n: n}
	run.open()
	empty := heap()
	run.submit()
	run.parked()
	lap(fmt.Sprintf("%d calls parked", n))
	run.holdNothing()
	full := heap()
	t.Logf("heap of the process, broker included: %d KiB before, %d KiB with %d parked: %d bytes each", empty>>10, full>>10, n, (full-empty)/int64(n))
	run.close()
	clock = time.Now()
	run.open()
	run.parked()
	run.holdNothing()
	lap("all started anew, everything found again")
	run.answer()
	lap("all answered")
	run.ended(&asked)
	lap("all ended")
	run.close()
}

// heap is what is in use after a collection, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go in the first
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

type parking struct {
	t      *testing.T
	cfg    Config
	n      int
	pool   *Pool
	broker *jetstream.Pool
	client *client.Client
	calls  []messages.Submission
	kinds  map[string]messages.AnswerKind
}

func (p *parking) open() {
	p.t.Helper()
	var err error
	if p.pool, err = Start(p.t.Context(), p.cfg); err != nil {
		p.t.Fatal(err)
	}
	if p.broker, err = p.pool.Connect(p.t.Context(), "test"); err != nil {
		p.t.Fatal(err)
	}
	if p.client, err = client.New(p.broker, client.Config{By: "anna"}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *parking) close() {
	p.client.Close()
	p.broker.Close()
	stop(p.t, p.pool)
}

func (p *parking) submit() {
	p.t.Helper()
	for i := range p.n {
		p.calls = append(p.calls, messages.Submission{
			Call: messages.NewCallID(), Run: "refunds", Tool: "refund", Input: fmt.Appendf(nil, `{"order":"ORD-%05d"}`, i), Policy: []byte(`{"ask_user":"park"}`),
		})
	}
	if refused, err := p.client.Submit(p.t.Context(), p.calls); err != nil || len(refused) > 0 {
		p.t.Fatalf("%v, refused %+v", err, refused)
	}
}

// parked waits until every call asks, and the coordinators are done with it.
func (p *parking) parked() {
	p.t.Helper()
	p.until("every call waits for a human", func() bool {
		places, err := inbox.Places(p.t.Context(), p.broker, messages.NamedRun("refunds"))
		return err == nil && len(places) == p.n && p.busy() == 0
	})
}

func (p *parking) until(what string, is func() bool) {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !is(); {
		select {
		case <-tick.C:
		case <-end:
			p.t.Fatalf("not so within %v: %s", patience, what)
		}
	}
}

// busy is how many triggers the coordinators hold.
func (p *parking) busy() int {
	n := 0
	for _, part := range p.pool.parts {
		if c, ok := part.service.(*coordination.Coordinator); ok {
			n += c.Busy()
		}
	}
	return n
}

// holdNothing waits until no delivery is given out or waits, of which the last
// acks may still be under way; then the only schedules are those of the answers.
func (p *parking) holdNothing() {
	p.t.Helper()
	ctx, names := p.t.Context(), p.broker.Names()
	look := func(stream messages.Stream, consumer string) {
		p.until(consumer+" holds nothing while all calls are parked", func() bool {
			waiting, unacked, err := p.broker.Backlog(ctx, stream, consumer)
			return err == nil && waiting+unacked == 0
		})
	}
	for _, lane := range messages.Lanes() {
		look(messages.StreamCalls, names.LaneConsumer("default", lane))
	}
	for _, c := range []string{messages.ConsumerReflector, messages.ConsumerDecisions, messages.ConsumerAnswers, messages.ConsumerCancels, messages.ConsumerSettled} {
		look(messages.StreamRecovery, c)
	}
	look(messages.StreamSchedule, messages.ConsumerDue)
	schedules := 0
	err := p.broker.List(ctx, messages.StreamSchedule, nil, func(s messages.Stored) bool {
		schedules++
		if !strings.HasPrefix(s.Subject, names.Prefix()+".sched.answer-by.") {
			p.t.Errorf("SCHEDULE holds %s", s.Subject)
		}
		return true
	})
	if err != nil || schedules != p.n {
		p.t.Errorf("%d schedules for %d parked calls, %v", schedules, p.n, err)
	}
}

// answer answers all, as several humans would: each is answered twice.
func (p *parking) answer() {
	p.t.Helper()
	places, err := inbox.Places(p.t.Context(), p.broker, messages.NamedRun("refunds"))
	if err != nil {
		p.t.Fatal(err)
	}
	kinds := []messages.AnswerKind{messages.AnswerApprove, messages.AnswerSkip, messages.AnswerRetry}
	p.kinds = make(map[string]messages.AnswerKind)
	var g errgroup.Group
	g.SetLimit(32)
	var late atomic.Int32
	for i, at := range places {
		p.kinds[at.Call] = kinds[i%len(kinds)]
		r := messages.AnswerRequest{Run: at.Run, Call: at.Call, Dispatch: at.Dispatch, Kind: kinds[i%len(kinds)]}
		g.Go(func() error {
			if err := p.client.Answer(p.t.Context(), r); err != nil {
				return err
			}
			if i%10 == 0 {
				r.Kind, r.By = messages.AnswerFail, "bob"
				if p.client.Answer(p.t.Context(), r) == nil {
					return fmt.Errorf("call %s took a second answer", r.Call)
				}
				late.Add(1)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		p.t.Fatal(err)
	}
	if want := (p.n + 9) / 10; int(late.Load()) != want {
		p.t.Errorf("%d second answers were refused, want %d", late.Load(), want)
	}
}

// ended: each call has one result, that of its answer, and ran as often as the
// answer says.
func (p *parking) ended(asked *sync.Map) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	results := make(map[string]messages.Result)
	err := p.client.Results(ctx, client.Query{}, func(r messages.Result) error {
		if _, twice := results[r.Call]; twice {
			p.t.Errorf("call %s has two results", r.Call)
		}
		if results[r.Call] = r; len(results) == p.n {
			return client.ErrStop
		}
		return nil
	})
	if err != nil {
		p.t.Fatalf("%d of %d have ended: %v", len(results), p.n, err)
	}
	for i, s := range p.calls {
		status, times, output := messages.Succeeded, int32(2), fmt.Sprintf("refunded ORD-%05d", i)
		switch p.kinds[s.Call] {
		case messages.AnswerApprove:
			output = fmt.Sprintf("refunded ORD-1%05d", i)
		case messages.AnswerSkip:
			status, times, output = messages.Failed, 1, fmt.Sprintf("order ORD-%05d not found; did you mean 'ORD-1%05d'?", i, i)
		}
		ran, _ := asked.Load(s.Call)
		if r := results[s.Call]; r.Status != status || string(r.Output.Inline) != output || ran.(*atomic.Int32).Load() != times {
			p.t.Errorf("%s: ended %s with %q after %d executions, want %s, %q and %d", p.kinds[s.Call], r.Status, r.Output.Inline, ran.(*atomic.Int32).Load(), status, output, times)
		}
	}
	p.until("no schedule is left", func() bool {
		places, err := inbox.Places(ctx, p.broker, inbox.AnyRun)
		return err == nil && len(places) == 0
	})
}
