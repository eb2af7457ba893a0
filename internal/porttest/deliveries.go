package porttest

import (
	"context"
	"errors"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

func deliveryCases() []Case {
	return []Case{
		{"fetch brings what is there", fetchThere},
		{"a delivery says whether there is more", moreIsSaid},
		{"fetch waits for the first", fetchWaits},
		{"fetch of nothing ends in time", fetchNothing},
		{"fetch from no consumer is not found", fetchNoConsumer},
		{"fetch loses nothing when it is called off", fetchCalledOff},
		{"an ack takes a call out of its queue", ackRemoves},
		{"a lease that ends hands over again", leaseEnds},
		{"extending holds a lease", extendHolds},
		{"a nak hands over at once and counts", nakCounts},
		{"acks are not fenced", AcksAreNotFenced},
		{"an ack that comes twice does nothing", ackTwice},
		{"a limit of a queue holds back", limitHolds},
		{"a queue of any name has its lanes", queueNames},
		{"lanes do not mix", lanes},
		{"backlog counts both parts", backlog},
		{"recovery has its consumers", recoveryConsumers},
	}
}

func fetchThere(e *Env) {
	e.queue("q")
	before := e.lastQueued()
	for range 5 {
		e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	}
	ds := e.collect("q", 3)
	for i, d := range ds {
		a, err := e.Names.Parse(d.Subject)
		if err != nil || d.Delivery != 1 || d.Sequence != before+uint64(i+1) || d.Fetched.IsZero() || string(d.Body) != "input of "+a.Call || d.Header.Get(messages.HeaderCall) != a.Call {
			e.Fatalf("delivery %d: %+v, %v", i, d, err)
		}
		e.must(e.B.Ack(e.Ctx, d))
	}
	// More than is there brings what is there, without waiting for the rest.
	begin := time.Now()
	rest := e.fetch("q", 10, patience)
	if took := time.Since(begin); len(rest) == 0 || len(rest) > 2 || took > patience/2 {
		e.Fatalf("got %d of the other 2 after %v", len(rest), took)
	}
}

func moreIsSaid(e *Env) {
	e.queue("q")
	for range 3 {
		e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	}
	e.expectBacklog("q", 3, 0)
	for i, d := range e.collect("q", 3) {
		if want := i < 2; d.More != want {
			e.Errorf("delivery %d of 3: more is %v", i+1, d.More)
		}
	}
	e.queue("r")
	e.must(e.B.Publish(e.Ctx, e.queued("r", newCall("r"), 0)))
	e.expectBacklog("r", 1, 0)
	again := e.one("r")
	e.must(e.B.Nak(e.Ctx, again))
	if d := e.one("r"); again.More || d.More || d.Delivery != 2 {
		e.Errorf("the only one: %v, and again %v, delivery %d", again.More, d.More, d.Delivery)
	}
}

func fetchWaits(e *Env) {
	e.queue("q")
	got := make(chan []messages.Delivery, 1)
	go func() {
		ds, err := e.B.Fetch(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer("q", messages.LaneNormal), 10, patience)
		if err != nil {
			e.Error(err)
		}
		got <- ds
	}()
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	if ds := wait(e, "a fetch", got); len(ds) != 1 {
		e.Fatalf("got %d", len(ds))
	}
}

func fetchNothing(e *Env) {
	e.queue("q")
	if ds := e.fetch("q", 10, 0); ds != nil {
		e.Fatalf("got %v", ds)
	}
	begin := time.Now()
	if ds := e.fetch("q", 10, 200*time.Millisecond); ds != nil {
		e.Fatalf("got %v", ds)
	}
	if took := time.Since(begin); took < 150*time.Millisecond || took > patience/2 {
		e.Fatalf("waited %v, not 200ms", took)
	}
}

func fetchNoConsumer(e *Env) {
	if _, err := e.B.Fetch(e.Ctx, messages.StreamCalls, "nobody", 1, 0); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("got %v", err)
	}
}

// fetchCalledOff: no call is lost to a fetch that is called off while calls
// come. They are given back, and not left to the end of their lease: a machine
// that is held up may take as long, but not every time.
func fetchCalledOff(e *Env) {
	e.queue("q")
	took := callOff(e)
	for try := 1; try < 10 && took > Lease; try++ {
		took = callOff(e)
	}
	if took > Lease {
		e.Errorf("it took %v: something waited for the end of a lease", took)
	}
}

func callOff(e *Env) time.Duration {
	e.Helper()
	const n = 40
	seen := make(map[string]bool)
	take := func(ds []messages.Delivery) {
		for _, d := range ds {
			seen[d.Subject] = true
			e.must(e.B.Ack(e.Ctx, d))
		}
	}
	for range n {
		ctx, cancel := context.WithCancelCause(e.Ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			ds, err := e.B.Fetch(ctx, messages.StreamCalls, e.Names.LaneConsumer("q", messages.LaneNormal), 5, patience)
			if err != nil && !errors.Is(err, errStopped) {
				e.Errorf("fetch: %v", err)
			}
			take(ds)
		}()
		e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
		cancel(errStopped)
		wait(e, "the end of a fetch", done)
	}
	begin := time.Now()
	for len(seen) < n && time.Since(begin) < patience {
		take(e.fetch("q", 10, Lease/5))
	}
	if len(seen) != n {
		e.Fatalf("%d of %d calls came", len(seen), n)
	}
	return time.Since(begin)
}

func ackRemoves(e *Env) {
	e.queue("q")
	c := newCall("r")
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 0)))
	e.must(e.B.Ack(e.Ctx, e.one("q")))
	if ds := e.fetch("q", 1, Lease*3/2); len(ds) != 0 {
		e.Fatalf("came again: %v", ds)
	}
	if _, err := e.B.Get(e.Ctx, e.Names.CallFilter(c.run, c.id)); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("still there: %v", err)
	}
}

func leaseEnds(e *Env) {
	e.queue("q")
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	begin := time.Now()
	first := e.one("q")
	second := e.one("q")
	if second.Delivery != 2 || second.Sequence != first.Sequence {
		e.Fatalf("second delivery: %+v", second)
	}
	if held := second.Fetched.Sub(begin); held < Lease-100*time.Millisecond {
		e.Fatalf("the lease ended after %v", held)
	}
}

// extendHolds keeps a delivery for twice its lease. What is handed over in spite
// of that is at fault only when two extensions in a row left within a lease of
// it: this process may itself have been held up for longer.
func extendHolds(e *Env) {
	e.queue("q")
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	d := e.one("q")
	before, begin := d.Fetched, time.Now()
	for time.Since(d.Fetched) < 2*Lease && time.Since(begin) < patience {
		extended := time.Now()
		e.must(e.B.Extend(e.Ctx, d))
		ds := e.fetch("q", 1, Lease/5)
		if len(ds) == 0 {
			before = extended
			continue
		}
		if ds[0].Fetched.Sub(before) < Lease {
			e.Fatalf("handed over in spite of the extension, %v after the fetch", time.Since(d.Fetched))
		}
		d, before = ds[0], ds[0].Fetched
	}
	if held := time.Since(d.Fetched); held < 2*Lease {
		e.Errorf("no delivery was kept for longer than %v", held)
	}
	e.must(e.B.Ack(e.Ctx, d))
}

func nakCounts(e *Env) {
	e.queue("q")
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	const times = 10
	begin := time.Now()
	for i := 1; i <= times; i++ {
		d := e.one("q")
		if d.Delivery != i {
			e.Fatalf("delivery %d counts %d", i, d.Delivery)
		}
		e.must(e.B.Nak(e.Ctx, d))
	}
	if took := time.Since(begin); took > (times-1)*Lease { // each would wait for one
		e.Errorf("%d hand-overs took %v", times, took)
	}
}

// AcksAreNotFenced: an ack of a delivery that is over settles the one that is
// under way. Nothing of ours may take an ack for a proof.
func AcksAreNotFenced(e *Env) {
	e.queue("q")
	c := newCall("r")
	e.must(e.B.Publish(e.Ctx, e.queued("q", c, 0)))
	old := e.one("q")
	e.must(e.B.Nak(e.Ctx, old))
	current := e.one("q")
	e.must(e.B.Ack(e.Ctx, old))
	if ds := e.fetch("q", 1, Lease*3/2); len(ds) != 0 {
		e.Fatalf("the stale ack did nothing: %v", ds)
	}
	e.must(e.B.Ack(e.Ctx, current))
	if _, err := e.B.Get(e.Ctx, e.Names.CallFilter(c.run, c.id)); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("still there: %v", err)
	}
}

func ackTwice(e *Env) {
	e.queue("q")
	e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	d := e.one("q")
	for range 2 {
		e.must(e.B.Ack(e.Ctx, d))
		e.must(e.B.Nak(e.Ctx, d))
		e.must(e.B.Extend(e.Ctx, d))
	}
	if ds := e.fetch("q", 1, 200*time.Millisecond); len(ds) != 0 {
		e.Fatalf("came again: %v", ds)
	}
}

func limitHolds(e *Env) {
	e.queue("limited") // four, so one for each lane
	for range 3 {
		e.must(e.B.Publish(e.Ctx, e.queued("limited", newCall("r"), 0)))
	}
	begin := time.Now()
	ds := e.fetch("limited", 3, patience)
	if len(ds) != 1 {
		e.Fatalf("got %d at once, the lane has one", len(ds))
	}
	if took := time.Since(begin); took > patience/2 {
		e.Errorf("what was there came after %v", took)
	}
	for _, wait := range []time.Duration{100 * time.Millisecond, 0} {
		if more := e.fetch("limited", 3, wait); len(more) > 0 {
			if more[0].Sequence != ds[0].Sequence { // else its lease is over
				e.Fatalf("got %d more while one is out", len(more))
			}
			ds = more
		}
	}
	e.must(e.B.Ack(e.Ctx, ds[0]))
	next := e.one("limited")
	if next.Sequence == ds[0].Sequence {
		e.Fatal("the same came again")
	}
}

func queueNames(e *Env) {
	for _, q := range []string{"plain", "with space/and.dot", strings.Repeat("ü", messages.MaxQueueName/2), strings.Repeat("q", messages.MaxQueueName)} {
		e.queue(q)
		e.queue(q)
		c := newCall("r")
		e.must(e.B.Publish(e.Ctx, e.queued(q, c, 0)))
		d := e.one(q)
		if a, err := e.Names.Parse(d.Subject); err != nil || a.Queue != q || a.Call != c.id {
			e.Fatalf("queue %q: got %s, %v", q, d.Subject, err)
		}
		e.must(e.B.Ack(e.Ctx, d))
	}
	if err := e.B.EnsureQueue(e.Ctx, ""); err == nil {
		e.Error("a queue without a name was made")
	}
}

func lanes(e *Env) {
	e.queue("q")
	for _, lane := range messages.Lanes() {
		c := newCall("r")
		e.must(e.B.Publish(e.Ctx, messages.Message{Subject: e.Names.CallSubject("q", lane, c.run, c.id, 0)}))
	}
	for _, lane := range messages.Lanes() {
		ds, err := e.B.Fetch(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer("q", lane), 10, patience)
		e.must(err)
		if len(ds) != 1 || !strings.Contains(ds[0].Subject, "."+string(lane)+".") {
			e.Fatalf("lane %s: %v", lane, ds)
		}
	}
}

// expectBacklog waits until the normal lane of the queue has so many calls.
func (e *Env) expectBacklog(queue string, waiting, unacked int) {
	e.Helper()
	for begin := time.Now(); ; pause(e) {
		w, u, err := e.B.Backlog(e.Ctx, messages.StreamCalls, e.Names.LaneConsumer(queue, messages.LaneNormal))
		if err == nil && w == waiting && u == unacked {
			return
		}
		if err != nil || time.Since(begin) > patience {
			e.Fatalf("waiting %d, unacked %d, %v; want %d, %d", w, u, err, waiting, unacked)
		}
	}
}

func backlog(e *Env) {
	e.queue("q")
	e.expectBacklog("q", 0, 0)
	for range 5 {
		e.must(e.B.Publish(e.Ctx, e.queued("q", newCall("r"), 0)))
	}
	e.expectBacklog("q", 5, 0)
	e.collect("q", 2)
	e.expectBacklog("q", 3, 2)
	if _, _, err := e.B.Backlog(e.Ctx, messages.StreamCalls, "nobody"); !errors.Is(err, messages.ErrNotFound) {
		e.Fatalf("of no consumer: %v", err)
	}
}

func recoveryConsumers(e *Env) {
	c := newCall("r")
	for consumer, subject := range map[string]string{
		messages.ConsumerReflector: e.Names.FailureSubject(c.run, c.id, 0),
		messages.ConsumerDecisions: e.Names.DecisionSubject(c.run, c.id, 0),
		messages.ConsumerAnswers:   e.Names.AnswerSubject(c.run, c.id, 0),
		messages.ConsumerCancels:   e.Names.CancelSubject(c.run, c.id),
		messages.ConsumerSettled:   e.Names.SettledSubject(c.run, c.id, 0),
	} {
		_, err := e.B.PutOnce(e.Ctx, messages.Message{Subject: subject, Body: []byte("x")})
		e.must(err)
		ds, err := e.B.Fetch(e.Ctx, messages.StreamRecovery, consumer, 10, patience)
		if err != nil || len(ds) != 1 || ds[0].Subject != subject {
			e.Fatalf("%s: %v, %v", consumer, ds, err)
		}
		e.must(e.B.Ack(e.Ctx, ds[0]))
		if _, err := e.B.Get(e.Ctx, subject); err != nil {
			e.Fatalf("%s: an ack took the story away: %v", consumer, err)
		}
	}
}
