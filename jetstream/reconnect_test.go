package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mulligan/internal/freeport"
	"mulligan/internal/natstest"
	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// restartable is a server that comes back at the same address with its store.
type restartable struct {
	t   *testing.T
	cfg embedded.Config
	*embedded.Server
}

func startRestartable(t *testing.T) *restartable {
	t.Helper()
	r := &restartable{t: t, cfg: embedded.Config{Dir: t.TempDir(), Token: "token of the test", Port: freeport.Get(t)}}
	r.up()
	t.Cleanup(r.down)
	return r
}

func (r *restartable) up() {
	r.t.Helper()
	var err error
	if r.Server, err = embedded.Start(r.cfg); err != nil {
		r.t.Fatal(err)
	}
}

func (r *restartable) down() {
	if err := r.Shutdown(); err != nil {
		r.t.Error(err)
	}
}

// eventually repeats f until it succeeds.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func TestFollowOverRestarts(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	got := make(chan messages.Stored, 1000)
	stop := background(t, func(ctx context.Context) error {
		return p.Follow(ctx, messages.StreamResults, []string{p.Names().ResultsFilter("r")}, 1, func(m messages.Stored) { got <- m })
	})
	seq := uint64(0)
	for round := range 3 {
		for i := range 20 {
			m := result(p, "r", fmt.Sprintf("%d-%d", round, i))
			eventually(t, func() error {
				_, err := p.PutOnce(t.Context(), m)
				return err
			})
		}
		for i := range 20 {
			m := next(t, "a result", got)
			if want := fmt.Sprintf("%d-%d", round, i); string(m.Body) != want || m.Sequence <= seq {
				t.Fatalf("got %q with sequence %d after %d, want %q", m.Body, m.Sequence, seq, want)
			}
			seq = m.Sequence
		}
		s.down()
		s.up()
	}
	if err := stop(); !errors.Is(err, errStopped) {
		t.Errorf("it ended with %v", err)
	}
	if len(got) != 0 {
		t.Errorf("%d came twice", len(got))
	}
}

// A watch learns of what happened while it was away, deletions included, also
// those that left no mark.
func TestWatchOverRestarts(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	put := func(key, value string) {
		t.Helper()
		eventually(t, func() error { return p.Put(t.Context(), messages.BucketTools, key, []byte(value), 0) })
	}
	for _, k := range []string{"kept", "changed", "deleted", "erased"} {
		put(k, "1")
	}
	events := make(chan string, 100)
	background(t, func(ctx context.Context) error {
		return p.Watch(ctx, messages.BucketTools, ">", func() { events <- "ready" }, func(e messages.Entry) {
			events <- fmt.Sprintf("%s=%s %v", e.Key, e.Value, e.Deleted)
		})
	})
	for _, want := range []string{"kept=1 false", "changed=1 false", "deleted=1 false", "erased=1 false", "ready"} {
		if got := next(t, want, events); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	port := s.cfg.Port
	s.down()
	s.cfg.Port = freeport.Get(t) // elsewhere, where the watch does not see it
	s.up()
	other := natstest.Connect(t, s.Server, jetstream.Config{})
	if err := other.Put(t.Context(), messages.BucketTools, "changed", []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(t.Context(), messages.BucketTools, "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := other.Put(t.Context(), messages.BucketTools, "new", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, s.Server)
	stream, err := js.Stream(t.Context(), "KV_MULLIGAN_TOOLS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), purgeSubject("$KV.MULLIGAN_TOOLS.erased")); err != nil {
		t.Fatal(err)
	}
	other.Close()
	s.down()
	s.cfg.Port = port
	s.up()
	want := map[string]bool{"changed=2 false": true, "deleted= true": true, "erased= true": true, "new=1 false": true}
	for len(want) > 0 {
		got := next(t, "a change", events)
		if !want[got] {
			t.Fatalf("got %q, still expected %v", got, want)
		}
		delete(want, got)
	}
	put("kept", "2")
	if got := next(t, "the next change", events); got != "kept=2 false" {
		t.Errorf("got %q", got)
	}
}

// What is asked while the broker is away fails at once and is not sent later.
func TestAwayIsSaid(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{Timeout: 4 * patience})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	lane := p.Names().LaneConsumer("q", messages.LaneNormal)
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Fetch(context.Background(), messages.StreamCalls, lane, 1, 4*patience)
		waiting <- err
	}()
	eventually(t, func() error { // the pull is there
		info, err := consumerInfo(t, s.Server, "MULLIGAN_CALLS", lane)
		if err == nil && info.NumWaiting == 0 {
			err = errors.New("no pull is waiting")
		}
		return err
	})
	s.down()
	if err := next(t, "the end of a fetch", waiting); err != nil {
		t.Logf("a fetch that waited: %v", err)
	}
	begin := time.Now()
	late := result(p, "r", "late")
	if _, err := p.PutOnce(t.Context(), late); err == nil {
		t.Error("a result was stored by nobody")
	}
	if _, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 1, 4*patience); err == nil {
		t.Error("a fetch from nobody succeeded")
	}
	for _, err := range p.PublishAll(t.Context(), []messages.Message{{Subject: p.Names().CallSubject("q", messages.LaneLow, "r", messages.NewCallID(), 0)}}) {
		if err == nil {
			t.Error("a call was stored by nobody")
		}
	}
	if err := p.Ack(t.Context(), messages.Delivery{Token: "$JS.ACK.MULLIGAN_CALLS.x.1.1.1.1.0"}); err == nil {
		t.Error("an ack was kept for later")
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("it took %v to say so", took)
	}
	s.up()
	eventually(t, func() error {
		return p.Publish(t.Context(), messages.Message{Subject: p.Names().CallSubject("q", messages.LaneNormal, "r", messages.NewCallID(), 0)})
	})
	if ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 1, patience); err != nil || len(ds) != 1 {
		t.Errorf("after it: %v, %v", ds, err)
	}
	if _, err := p.Get(t.Context(), late.Subject); !errors.Is(err, messages.ErrNotFound) {
		t.Errorf("what was published while away was sent later: %v", err)
	}
}

// Who waits for an answer is told that the connection broke, long before the time-out.
func TestRequestEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{Timeout: 4 * patience})
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	server := natstest.Connect(t, s.Server, jetstream.Config{DrainTimeout: time.Second})
	background(t, func(ctx context.Context) error {
		return server.Serve(ctx, messages.EndpointSubmit, nil, func(context.Context, []byte) []byte {
			close(asked)
			<-release
			return nil
		})
	})
	done := make(chan error, 1)
	go func() {
		for {
			_, err := p.Request(context.Background(), messages.EndpointSubmit, nil)
			if !errors.Is(err, messages.ErrNoResponder) {
				done <- err
				return
			}
		}
	}()
	next(t, "the request", asked)
	s.down()
	if err := next(t, "the end of the request", done); err == nil || errors.Is(err, messages.ErrNoResponder) {
		t.Errorf("it ended with %v", err)
	}
	s.up()
}

// Acknowledged means that it outlives the server.
func TestWhatIsStoredOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{})
	if err := p.EnsureQueue(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	m := result(p, "r", "kept")
	mustPut(t, p, m)
	due := messages.Due{Kind: messages.DueRetry, Run: "r", Call: messages.NewCallID(), N: 1, At: time.Now().Add(700 * time.Millisecond)}
	if err := p.Schedule(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	s.down()
	s.up()
	eventually(t, func() error {
		_, err := p.Get(t.Context(), m.Subject)
		return err
	})
	if winner, err := p.PutOnce(t.Context(), m); err != nil || winner == nil {
		t.Errorf("written twice: %v, %v", winner, err)
	}
	ds, err := p.Fetch(t.Context(), messages.StreamSchedule, messages.ConsumerDue, 1, patience)
	if err != nil || len(ds) != 1 {
		t.Fatalf("the schedule: %v, %v", ds, err)
	}
	if early := time.Until(due.At); early > 0 {
		t.Errorf("it fired %v early", early)
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	for name, cfg := range map[string]jetstream.Config{
		"wrong token":      {URL: s.ClientURL(), Token: "wrong"},
		"no token":         {URL: s.ClientURL()},
		"nobody listens":   {URL: "nats://" + freeAddress(t)},
		"bad prefix":       {URL: s.ClientURL(), Token: s.Token(), Prefix: "Bad Prefix"},
		"two ways":         {URL: s.ClientURL(), Token: s.Token(), CredsFile: "x"},
		"half a pair":      {URL: s.ClientURL(), Token: s.Token(), CertFile: "x"},
		"no such creds":    {URL: s.ClientURL(), CredsFile: "/no/such/file"},
		"no such nkey":     {URL: s.ClientURL(), NKeyFile: "/no/such/file"},
		"short lease":      {URL: s.ClientURL(), Token: s.Token(), Lease: time.Millisecond},
		"no limit":         {URL: s.ClientURL(), Token: s.Token(), QueueLimits: map[string]int{"q": 0}},
		"bad inbox prefix": {URL: s.ClientURL(), Token: s.Token(), InboxPrefix: "a.>"},
	} {
		p, err := jetstream.Connect(t.Context(), cfg)
		if err == nil {
			t.Errorf("%s: connected", name)
			p.Close()
		}
		wantUnreachable := name == "wrong token" || name == "no token" || name == "nobody listens"
		if wantUnreachable != errors.Is(err, jetstream.ErrUnreachable) && name != "no such creds" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestConnectInProcess(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	p, err := jetstream.Connect(t.Context(), jetstream.Config{InProcess: s, Token: s.Token()})
	if err != nil {
		t.Fatal(err)
	}
	provision(t, p, jetstream.TopologyConfig{})
	mustPut(t, p, result(p, "r", "x"))
	p.Close()
	p.Close()
	if _, err := p.LastSequence(t.Context(), messages.StreamResults); err == nil {
		t.Error("a closed pool answers")
	}
}

func TestConnectBeforeTheServer(t *testing.T) {
	t.Parallel()
	port := freeport.Get(t)
	p, err := jetstream.Connect(t.Context(), jetstream.Config{URL: fmt.Sprintf("nats://127.0.0.1:%d", port), Token: "t", RetryConnect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Connected() {
		t.Error("it is connected to nobody")
	}
	if err := p.Publish(t.Context(), messages.Message{Subject: p.Names().CallSubject("q", messages.LaneLow, "r", messages.NewCallID(), 0)}); err == nil {
		t.Error("it published to nobody")
	}
	natstest.ServerWith(t, embedded.Config{Port: port, Token: "t"})
	eventually(t, func() error { return p.Provision(t.Context(), jetstream.TopologyConfig{}) })
	mustPut(t, p, result(p, "r", "x"))
}

func TestInboxPrefix(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	nc, _ := raw(t, s)
	others, err := nc.SubscribeSync("_INBOX.>")
	if err != nil {
		t.Fatal(err)
	}
	own, err := nc.SubscribeSync("_I_worker.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	p := natstest.Connect(t, s, jetstream.Config{InboxPrefix: "_I_worker"})
	provision(t, p, jetstream.TopologyConfig{})
	mustPut(t, p, result(p, "r", "x"))
	if _, err := own.NextMsg(patience); err != nil {
		t.Errorf("no answer came to the private inbox: %v", err)
	}
	if n, _, _ := others.Pending(); n != 0 {
		t.Errorf("%d answers came to the common inbox", n)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freeport.Get(t))
}

// What is kept for ever outlives the age of its bucket over a restart too,
// where a store looks at ages before anything else.
func TestForeverOverARestart(t *testing.T) {
	t.Parallel()
	s := startRestartable(t)
	p := natstest.Connect(t, s.Server, jetstream.Config{})
	provision(t, p, jetstream.TopologyConfig{DeadlineLimit: time.Second, CancelTTL: time.Second})
	for key, ttl := range map[string]time.Duration{"kept": messages.Forever, "aged": 0} {
		if err := p.Put(t.Context(), messages.BucketControl, key, []byte("x"), ttl); err != nil {
			t.Fatal(err)
		}
	}
	s.down()
	<-time.After(time.Second) // the clock of the broker cannot be moved
	s.up()
	eventually(t, func() error {
		if _, err := p.Load(t.Context(), messages.BucketControl, "aged"); !errors.Is(err, messages.ErrNotFound) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
	if _, err := p.Load(t.Context(), messages.BucketControl, "kept"); err != nil {
		t.Error(err)
	}
}
