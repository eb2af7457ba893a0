package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// What our rules rest on and a new version of the server could change.

func TestFactTwoKindsOf10077(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	_, js := raw(t, s)
	_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{
		Name: "ONCE", Subjects: []string{"once.>"}, MaxMsgsPerSubject: 1, Discard: natsjs.DiscardNew, DiscardNewPerSubject: true, MaxBytes: 4000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "once.a", make([]byte, 3000)); err != nil {
		t.Fatal(err)
	}
	_, err = js.Publish(t.Context(), "once.a", nil)
	if code, text := apiCode(err); code != 10077 || !strings.Contains(text, "maximum messages per subject exceeded") {
		t.Errorf("a second message on a subject: %v", err)
	}
	_, err = js.Publish(t.Context(), "once.b", make([]byte, 3000))
	if code, text := apiCode(err); code != 10077 || strings.Contains(text, "per subject") {
		t.Errorf("a full stream: %v", err)
	}
}

func TestFactSchedulesAndDiscardNewExcludeEachOther(t *testing.T) {
	t.Parallel()
	_, js := raw(t, natstest.Server(t))
	_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Discard: natsjs.DiscardNew, AllowMsgSchedules: true})
	if err == nil {
		t.Error("a stream took both")
	}
}

func TestFactScheduleTarget(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	nc, js := raw(t, s)
	schedule := func(target string) error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "mulligan.sched.retry.r.c.1.0", Header: nats.Header{
			"Nats-Schedule":        {"@at " + time.Now().Format(time.RFC3339Nano)},
			"Nats-Schedule-Target": {target},
			"Nats-Msg-Id":          {"an id"},
			"Mulligan-Call":        {"ours"},
		}})
		return err
	}
	for _, target := range []string{"mulligan.due.*", "mulligan.result.r.c", ""} {
		if schedule(target) == nil {
			t.Errorf("target %q was taken", target)
		}
	}
	sub, err := nc.SubscribeSync("mulligan.due.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := schedule("mulligan.due.0"); err != nil {
		t.Fatal(err)
	}
	ds, err := p.Fetch(t.Context(), messages.StreamSchedule, messages.ConsumerDue, 1, patience)
	if err != nil || len(ds) != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	if ds[0].Header.Get("Nats-Msg-Id") != "" || ds[0].Header.Get("Mulligan-Call") != "ours" {
		t.Errorf("a fired message has %v", ds[0].Header)
	}
	if n, _, _ := sub.Pending(); n != 0 {
		t.Log("a fired message is also published to core subscribers")
	}
}

func TestFactMsgIDIsSwallowedAcrossSubjects(t *testing.T) {
	t.Parallel()
	_, js := raw(t, natstest.Server(t))
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	for i, subject := range []string{"s.a", "s.b"} {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Msg-Id": {"same"}}})
		if err != nil || ack.Duplicate != (i == 1) {
			t.Fatalf("%s: %+v, %v", subject, ack, err)
		}
	}
	stream, err := js.Stream(t.Context(), "S")
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Fatalf("%d messages stored, %v", stream.CachedInfo().State.Msgs, err)
	}
}

// A stream that allows rollup can be wiped with one header by whoever may
// publish to it, so those that workers publish to must not.
func TestFactNoRollupWhereWorkersPublish(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	_, js := raw(t, s)
	for _, subject := range []string{"mulligan.call.q.normal.r.c.0", "mulligan.result.r.c", "mulligan.failure.r.c.0", "mulligan.payload.d.0"} {
		for _, h := range []nats.Header{{"Nats-Rollup": {"all"}}, {"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"x"}}} {
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h}); err == nil {
				t.Errorf("%s took %v", subject, h)
			}
		}
	}
}

func TestFactStoreLimitRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	s := natstest.ServerWith(t, embedded.Config{StoreLimit: 8 << 20})
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	run := messages.NamedRun("r")
	first := result(p, run, "first")
	mustPut(t, p, first)
	call := messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, run, messages.NewCallID(), 0)}
	if err := p.Publish(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i < 200; i++ {
		_, err = p.PutOnce(t.Context(), result(p, messages.NamedRun("filler"), strings.Repeat("x", 256<<10)))
	}
	if !errors.Is(err, messages.ErrFull) {
		t.Fatalf("the limit was met with %v", err)
	}
	if got, err := p.Get(t.Context(), first.Subject); err != nil || string(got.Body) != "first" {
		t.Fatalf("what is stored can no longer be read: %v", err)
	}
	// Here the server refuses before the stream looks whether it is there.
	if winner, err := p.PutOnce(t.Context(), first); err != nil || winner == nil {
		t.Errorf("one that is there: %v, %v", winner, err)
	}
	if err := p.Publish(t.Context(), call); !errors.Is(err, messages.ErrExists) {
		t.Errorf("a call that is there: %v", err)
	}
	if _, err := p.Save(t.Context(), messages.BucketAttempts, "k", make([]byte, 512<<10), 0, 0); !errors.Is(err, messages.ErrFull) {
		t.Errorf("a bucket on a full server: %v", err)
	}
	if err := p.Purge(t.Context(), p.Names().ResultsFilter(messages.NamedRun("filler"))); err != nil {
		t.Fatal(err)
	}
	mustPut(t, p, result(p, run, "room again"))
}

// A core subscriber of the raw subject sees what is then refused; what is
// republished was stored.
func TestFactLiveResultsAreStored(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	nc, _ := raw(t, s)
	run := messages.NamedRun("r")
	live, err := nc.SubscribeSync(p.Names().LiveResultsFilter(run))
	if err != nil {
		t.Fatal(err)
	}
	unproven, err := nc.SubscribeSync(p.Names().ResultsFilter(run))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m := result(p, run, "first")
	mustPut(t, p, m)
	if winner, err := p.PutOnce(t.Context(), messages.Message{Subject: m.Subject, Body: []byte("refused")}); winner == nil || err != nil {
		t.Fatalf("%v, %v", winner, err)
	}
	mustPut(t, p, result(p, run, "second"))
	for _, want := range []string{"first", "second"} {
		got, err := live.NextMsg(patience)
		if err != nil || string(got.Data) != want || got.Header.Get("Nats-Sequence") == "" {
			t.Fatalf("live: %v, %v; want %q", got, err, want)
		}
	}
	for _, want := range []string{"first", "refused", "second"} {
		if got, err := unproven.NextMsg(patience); err != nil || string(got.Data) != want {
			t.Fatalf("raw: %v, %v; want %q", got, err, want)
		}
	}
}

// MaxAckPending changes live, and each lane has its own.
func TestFactLimitOfAQueueChangesLive(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{QueueLimits: map[string]int{"q": 4}, Lease: time.Hour})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for _, lane := range messages.Lanes() {
			m := messages.Message{Subject: p.Names().CallSubject("q", lane, "r", messages.NewCallID(), 0)}
			if err := p.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := 0
	fetch := func(wait time.Duration) {
		for _, lane := range messages.Lanes() {
			ds, err := p.Fetch(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("q", lane), 10, wait)
			if err != nil {
				t.Fatal(err)
			}
			held += len(ds)
		}
	}
	const briefly = 100 * time.Millisecond
	holds := func(limit int) {
		t.Helper()
		for begin := time.Now(); held < limit && time.Since(begin) < patience; {
			fetch(briefly)
		}
		fetch(briefly) // what is let through beyond it
		if held != limit {
			t.Errorf("a limit of %d let %d through", limit, held)
		}
	}
	holds(4)
	wider := natstest.Connect(t, s, jetstream.Config{QueueLimits: map[string]int{"q": 10}, Lease: time.Hour})
	if err := wider.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	holds(10)
}

// A queue with fewer places than lanes has one consumer over all of them.
func TestQueueLimitBelowLanes(t *testing.T) {
	t.Parallel()
	p := natstest.Connect(t, natstest.Server(t), jetstream.Config{QueueLimits: map[string]int{"tight": 2}, Lease: time.Hour})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "tight"); err != nil {
		t.Fatal(err)
	}
	for _, lane := range messages.Lanes() {
		if err := p.Publish(t.Context(), messages.Message{Subject: p.Names().CallSubject("tight", lane, "r", messages.NewCallID(), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	for got < 2 {
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("tight", messages.LaneHigh), 10, patience)
		if err != nil || len(ds) == 0 {
			t.Fatalf("%v, %v", ds, err)
		}
		got += len(ds)
	}
	if got != 2 {
		t.Errorf("%d at once", got)
	}
	if _, err := p.Fetch(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("tight", messages.LaneLow), 1, 0); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("the low lane: %v", err)
	}
}

// What decides is asked of the leader; a direct get may answer from the past.
func TestP7_05_ReadsAskTheLeader(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	nc, _ := raw(t, s)
	direct, err := nc.SubscribeSync("$JS.API.DIRECT.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	leader, err := nc.SubscribeSync("$JS.API.STREAM.MSG.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m := result(p, "r", "x")
	mustPut(t, p, m)
	if _, err := p.Get(t.Context(), m.Subject); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PutOnce(t.Context(), m); err != nil { // reads the winner
		t.Fatal(err)
	}
	if _, err := p.Load(t.Context(), messages.BucketAttempts, "k"); !errors.Is(err, messages.ErrNotFound) {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := leader.NextMsg(patience); err != nil {
			t.Fatalf("read %d did not ask the leader: %v", i, err)
		}
	}
	if n, _, _ := direct.Pending(); n != 0 {
		t.Errorf("%d direct gets", n)
	}
}

// No write of the success path carries more than it must, and no id of the
// broker's window.
func TestWritesCarryOurHeadersOnly(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	nc, _ := raw(t, s)
	seen, err := nc.SubscribeSync("mulligan.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m := result(p, "r", "body")
	m.Header = messages.Header{messages.HeaderCall: {"c"}}
	mustPut(t, p, m)
	c := messages.Message{Subject: p.Names().CallSubject("q", messages.LaneHigh, "r", messages.NewCallID(), 0), Header: m.Header, Body: []byte("in")}
	if err := p.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []messages.Message{m, c} {
		got, err := seen.NextMsg(patience)
		for err == nil && got.Subject != want.Subject {
			got, err = seen.NextMsg(patience)
		}
		if err != nil || len(got.Header) != 1 || !bytes.Equal(got.Data, want.Body) {
			t.Fatalf("%s was written with %v, %v", want.Subject, got, err)
		}
	}
}

// Only starts among the story end with RESULTS; the story itself stays.
func TestStartsLiveAsLongAsResults(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{ResultsAge: 26 * time.Hour, DeadlineLimit: time.Hour})
	n, id := p.Names(), messages.NewCallID()
	for subject, want := range map[string]string{
		n.StartSubject("r", id, 0):    fmt.Sprint(26 * 3600),
		n.MarkSubject("r", id, 1, 1):  fmt.Sprint(26 * 3600),
		n.FailureSubject("r", id, 0):  "",
		n.DecisionSubject("r", id, 0): "",
	} {
		h := messages.Header{"Mulligan-Version": {"1"}}
		mustPut(t, p, messages.Message{Subject: subject, Header: h, Body: []byte("{}")})
		got, err := p.Get(t.Context(), subject)
		if err != nil || got.Header.Get("Nats-TTL") != want || len(h) != 1 {
			t.Errorf("%s has ttl %q, %v; the caller's headers are %v", subject, got.Header.Get("Nats-TTL"), err, h)
		}
	}
	// A connection that did not provision reads the retention from the stream.
	other := natstest.Connect(t, s, jetstream.Config{})
	subject := n.StartSubject("r", id, 5)
	mustPut(t, other, messages.Message{Subject: subject})
	if got, err := other.Get(t.Context(), subject); err != nil || got.Header.Get("Nats-TTL") != fmt.Sprint(26*3600) {
		t.Errorf("another connection: %v, %v", got, err)
	}
}

// Neither a fetch nor a follower asks for more than the server lets a
// connection leave unread.
func TestLargeMessagesInNumbers(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	const n = 100
	body := bytes.Repeat([]byte("x"), 900<<10)
	for range n {
		id := messages.NewCallID()
		if err := p.Publish(t.Context(), messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", id, 0), Body: body}); err != nil {
			t.Fatal(err)
		}
		mustPut(t, p, messages.Message{Subject: p.Names().ResultSubject("r", id), Body: body})
	}
	reader := natstest.Connect(t, s, jetstream.Config{Log: failing(t)})
	got := make(chan int, n)
	background(t, func(ctx context.Context) error {
		return reader.Follow(ctx, messages.StreamResults, nil, 1, func(m messages.Stored) { got <- len(m.Body) })
	})
	for range n {
		if size := next(t, "a large result", got); size != len(body) {
			t.Fatalf("got %d bytes", size)
		}
	}
	for left := n; left > 0; {
		ds, err := reader.Fetch(t.Context(), messages.StreamCalls, p.Names().LaneConsumer("q", messages.LaneNormal), n, patience)
		if err != nil || len(ds) == 0 || len(ds) > 40 {
			t.Fatalf("%d at once, %v", len(ds), err)
		}
		for _, d := range ds {
			if err := reader.Ack(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(ds)
	}
}

// failing is a logger whose warnings and errors fail the test.
func failing(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(failingWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(b []byte) (int, error) {
	w.t.Errorf("logged: %s", b)
	return len(b), nil
}

// The buckets are buckets to every other client.
func TestBucketsAreBuckets(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p := natstest.Connect(t, s, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	_, js := raw(t, s)
	kv, err := js.KeyValue(t.Context(), p.Names().BucketName(messages.BucketTools))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(t.Context(), messages.BucketTools, "tool.a", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "tool.a")
	if err != nil || string(e.Value()) != "v" {
		t.Fatalf("%v, %v", e, err)
	}
	if err := kv.Delete(t.Context(), "tool.a"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Load(t.Context(), messages.BucketTools, "tool.a"); !errors.Is(err, messages.ErrNotFound) {
		t.Fatalf("deleted by another client: %v", err)
	}
	if _, err := p.Save(t.Context(), messages.BucketTools, "tool.a", []byte("w"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(t.Context(), messages.BucketTools, "tool.a"); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(t.Context(), "tool.a"); !errors.Is(err, natsjs.ErrKeyNotFound) {
		t.Fatalf("deleted by us: %v", err)
	}
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	p := natstest.Start(t)
	for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "a*", ">", "ü", "a\r\nPUB x"} {
		if err := p.Put(t.Context(), messages.BucketTools, key, nil, 0); err == nil {
			t.Errorf("key %q was taken", key)
		}
		if _, err := p.Load(t.Context(), messages.BucketTools, key); err == nil || errors.Is(err, messages.ErrNotFound) {
			t.Errorf("key %q was looked up: %v", key, err)
		}
	}
}
