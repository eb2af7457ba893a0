package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/tool"
)

// patient is a tool that is ill or well as the test says, and counts by itself
// how often it runs.
type patient struct {
	well  atomic.Bool
	block atomic.Bool   // each run waits for release
	free  chan struct{} // one value lets one run go on, closed all
	runs  atomic.Int64
	began chan struct{} // a value for each run that began, as long as there is room
}

func newPatient() *patient {
	return &patient{free: make(chan struct{}), began: make(chan struct{}, 10_000)}
}

func (p *patient) tool() *tool.Tool {
	return tool.New("patient", func(ctx context.Context, in text) (string, error) {
		p.runs.Add(1)
		p.began <- struct{}{}
		if p.block.Load() {
			select {
			case <-p.free:
			case <-ctx.Done():
			}
		}
		if !p.well.Load() {
			return "", errors.New("the backend is down")
		}
		return in.Text, nil
	}, tool.Effect(messages.ReadOnly))
}

// inTime runs a test with longer and longer resets, until all parts of a pool
// have seen a change of the breaker, and all that is to happen before a reset is
// over has happened, in time: try says whether it was so. On a machine that is not
// busy the first is long enough.
func inTime(t *testing.T, try func(t *testing.T, reset time.Duration) bool) {
	t.Helper()
	t.Parallel()
	for _, reset := range []time.Duration{8 * time.Second, 40 * time.Second, 2 * time.Minute} {
		done := false
		t.Run(reset.String(), func(t *testing.T) { done = try(t, reset) })
		if done || t.Failed() {
			return
		}
	}
	t.Error("it was not so with any reset; the log has what was seen instead")
}

// ward is a pool of four workers and two coordinators with one patient.
type ward struct {
	t       *testing.T
	reset   time.Duration
	patient *patient
	client  *client.Client
	broker  *jetstream.Pool
}

func newWard(t *testing.T, mode messages.BreakerMode, slots int, reset time.Duration) *ward {
	t.Helper()
	w := &ward{t: t, reset: reset, patient: newPatient()}
	p, err := Start(t.Context(), Config{
		Coordinators: 2, Workers: 4, Slots: slots, Tools: []*tool.Tool{w.patient.tool()},
		Policies: recovery.Document{Pool: recovery.Policy{MaxRetries: new(0), Breaker: mode, BreakerReset: messages.Millis(reset)}.Values()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	if w.broker, err = p.Connect(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New(w.broker, client.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.client.Close(); w.broker.Close() })
	return w
}

// call brings one call to its end.
func (w *ward) call() messages.Result {
	r, err := w.client.Call(w.t.Context(), messages.Submission{Tool: "patient", Input: []byte(`{"text":"x"}`)})
	if err != nil {
		w.t.Error(err)
	}
	return r
}

// calls brings n of them to their ends, all together. The channel has room for all.
func (w *ward) calls(n int) <-chan messages.Result {
	out := make(chan messages.Result, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { out <- w.call() })
	}
	go func() {
		wg.Wait()
		close(out)
	}()
	return out
}

// entry is the breaker as CONTROL holds it.
func (w *ward) entry() messages.Breaker {
	w.t.Helper()
	e, err := w.broker.Load(w.t.Context(), messages.BucketControl, messages.BreakerKey("patient"))
	if errors.Is(err, messages.ErrNotFound) {
		return messages.Breaker{State: messages.BreakerClosed}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := messages.DecodeBreaker(e.Value)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// wait returns when the entry is as wanted, of which a watch tells.
func (w *ward) wait(what string, ok func(messages.Breaker) bool) messages.Breaker {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	found := make(chan messages.Breaker, 1)
	_ = w.broker.Watch(ctx, messages.BucketControl, messages.BreakerPrefix+">", func() {}, func(e messages.Entry) {
		if b, err := messages.DecodeBreaker(e.Value); err == nil && ok(b) {
			select {
			case found <- b:
				cancel()
			default:
			}
		}
	})
	select {
	case b := <-found:
		return b
	default:
		w.t.Fatalf("the breaker is not %s: %+v", what, w.entry())
		return messages.Breaker{}
	}
}

func (w *ward) waitState(s messages.BreakerState) messages.Breaker {
	w.t.Helper()
	return w.wait(string(s), func(b messages.Breaker) bool { return b.State == s })
}

// trip lets five calls fail.
func (w *ward) trip() messages.Breaker {
	w.t.Helper()
	for range 5 {
		if r := w.call(); r.Status != messages.Failed || r.Code != messages.CodeRecoveryGaveUp {
			w.t.Fatalf("%+v", r)
		}
	}
	return w.waitState(messages.BreakerOpen)
}

// over returns when the reset time of a breaker is.
func over(b messages.Breaker) { <-time.After(time.Until(b.Until)) }

func refused(r messages.Result) bool {
	return r.Status == messages.Failed && r.Code == messages.CodeBreakerOpen && string(r.Output.Inline) == messages.BreakerText && r.Attempts == 0
}

func TestS8_1_FiveFailingCallsShutAToolForAllWorkers(t *testing.T) {
	inTime(t, func(t *testing.T, reset time.Duration) bool {
		w := newWard(t, messages.BreakerFailFast, 0, reset)
		opened := w.trip()
		before := w.patient.runs.Load()
		for _, r := range w.all(40) {
			if !refused(r) && !momentsAfter(opened, r) {
				t.Logf("not refused: %+v", r)
				return false
			}
		}
		if n := w.patient.runs.Load() - before; n > 4 {
			t.Logf("the tool ran %d times while it was shut", n)
			return false
		}
		over(opened)
		if r := w.call(); r.Status != messages.Failed || refused(r) { // the probe, and it fails
			t.Fatalf("%+v", r)
		}
		again := w.waitState(messages.BreakerOpen)
		if d := again.Until.Sub(again.Opened); d != reset || !again.Opened.After(opened.Until) || again.Trips != 2 {
			t.Errorf("open for %s from %s on, %d trips, want a full reset", d, again.Opened, again.Trips)
		}
		w.patient.well.Store(true)
		over(again)
		if r := w.call(); r.Status != messages.Succeeded {
			t.Fatalf("%+v", r)
		}
		closed := w.waitState(messages.BreakerClosed)
		for _, r := range w.all(40) {
			if r.Status != messages.Succeeded && !(refused(r) && momentsAfter(closed, r)) {
				t.Logf("after it was closed: %+v", r)
				return false
			}
		}
		return true
	})
}

// all brings n calls to their ends, all together.
func (w *ward) all(n int) (out []messages.Result) {
	for r := range w.calls(n) {
		out = append(out, r)
	}
	return out
}

// momentsAfter says that a call ended while some part of the pool had not yet
// seen the change of a breaker, which a watch brings to each by itself.
func momentsAfter(b messages.Breaker, r messages.Result) bool {
	return r.Ended.Sub(b.Updated) < 2*time.Second
}

func TestS8_3_WhatIsQueuedEndsAtOnce(t *testing.T) {
	inTime(t, func(t *testing.T, reset time.Duration) bool {
		w := newWard(t, messages.BreakerFailFast, 1, reset)
		w.patient.block.Store(true)
		results := w.calls(200)
		for range 4 { // every worker is busy, and the rest is queued
			<-w.patient.began
		}
		for range 5 {
			w.patient.free <- struct{}{}
		}
		w.waitState(messages.BreakerOpen)
		close(w.patient.free) // what runs by now fails too
		turnedAway := 0
		for r := range results {
			if refused(r) {
				turnedAway++
			} else if r.Status != messages.Failed || string(r.Output.Inline) != "the backend is down" {
				t.Errorf("%+v", r)
			}
		}
		// Five and those that ran beside them, and one for each worker that hears of
		// the breaker a moment later than we do.
		ran := int(w.patient.runs.Load())
		if ran+turnedAway != 200 {
			t.Errorf("%d calls ran and %d were turned away, of 200", ran, turnedAway)
		}
		t.Logf("%d calls ran", ran)
		return ran <= 5+4+4
	})
}

func TestS8_4_OneProbeWhileAHundredCallsComeIn(t *testing.T) {
	t.Parallel()
	w := newWard(t, messages.BreakerFailFast, 0, 8*time.Second)
	over(w.trip())
	w.patient.well.Store(true)
	w.patient.block.Store(true)
	before := w.patient.runs.Load()
	results := w.calls(100)
	for range 99 {
		if r := <-results; !refused(r) {
			t.Fatalf("%+v", r)
		}
	}
	if n := w.patient.runs.Load() - before; n != 1 {
		t.Fatalf("%d calls ran while the breaker was half open", n)
	}
	w.waitState(messages.BreakerHalfOpen)
	w.patient.block.Store(false)
	w.patient.free <- struct{}{}
	if r := <-results; r.Status != messages.Succeeded {
		t.Fatalf("%+v", r)
	}
	w.waitState(messages.BreakerClosed)
}

func TestS8_3_DeferredCallsAllEndWell(t *testing.T) {
	inTime(t, func(t *testing.T, reset time.Duration) bool {
		w := newWard(t, messages.BreakerDefer, 0, reset)
		opened := w.trip()
		before := w.patient.runs.Load()
		w.patient.well.Store(true)
		subs := make([]messages.Submission, 200)
		calls := make(map[string]messages.Run)
		batch := w.client.Batch()
		for i := range subs {
			subs[i] = messages.Submission{Call: messages.NewCallID(), Run: "r", Tool: "patient", Input: fmt.Appendf(nil, `{"text":"x%d"}`, i)}
			calls[subs[i].Call] = messages.NamedRun("r")
		}
		from, err := w.client.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		refusals, err := batch.Submit(t.Context(), subs)
		if err != nil || len(refusals) != 0 {
			t.Fatal(refusals, err)
		}
		for held := w.held(); held != ""; held = w.held() { // but for the last acks, which are under way
			if !time.Now().Before(opened.Until) {
				t.Logf("until the end of the reset: %s", held)
				return false
			}
		}
		ran := w.patient.runs.Load() - before
		if !time.Now().Before(opened.Until) {
			return false
		}
		if ran != 0 {
			t.Errorf("the tool ran %d times while it was shut", ran)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended := 0
		if err := w.client.Wait(ctx, from, calls, func(r messages.Result) error {
			if ended++; r.Status != messages.Succeeded || r.Attempts != 1 || r.RecoveredBy != "" {
				t.Errorf("%+v", r)
			}
			return nil
		}); err != nil || ended != 200 {
			t.Fatalf("%d of 200 have ended: %v", ended, err)
		}
		if n := w.patient.runs.Load() - before; n != 200 {
			t.Errorf("the tool ran %d times for 200 calls", n)
		}
		w.waitState(messages.BreakerClosed)
		return true
	})
}

// held says which queue or consumer of triggers has something; empty: none.
func (w *ward) held() string {
	w.t.Helper()
	names := w.broker.Names()
	var all []string
	look := func(s messages.Stream, consumer string) {
		waiting, unacked, err := w.broker.Backlog(w.t.Context(), s, consumer)
		if err != nil {
			w.t.Fatal(err)
		}
		if unacked != 0 || s == messages.StreamCalls && waiting != 0 {
			all = append(all, fmt.Sprintf("%s holds %d, and %d wait", consumer, unacked, waiting))
		}
	}
	for _, lane := range messages.Lanes() {
		look(messages.StreamCalls, names.LaneConsumer("default", lane))
	}
	for _, c := range []string{messages.ConsumerDecisions, messages.ConsumerCancels, messages.ConsumerAnswers} {
		look(messages.StreamRecovery, c)
	}
	look(messages.StreamSchedule, messages.ConsumerDue)
	return strings.Join(all, "; ")
}
