package jetstream

import (
	"testing"
	"time"

	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// long is far above what anything here takes.
const long = time.Minute

// While the leader of a consumer changes, two servers may answer one pull: one
// ends it, the other hands over later, to an inbox that another fetch uses by
// then. Taken for a message of that fetch it would be acked there and lost.
func TestP7_05_AMessageOfAnotherConsumerIsGivenBack(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	p, err := Connect(t.Context(), Config{URL: s.ClientURL(), Token: s.Token(), Lease: 10 * long})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Provision(t.Context(), TopologyConfig{}))
	must(p.EnsureQueue(t.Context(), "a"))
	must(p.EnsureQueue(t.Context(), "b"))
	lane := func(queue string) string { return p.names.LaneConsumer(queue, messages.LaneNormal) }
	publish := func(queue string) {
		t.Helper()
		c := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: queue, Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: "k"}
		must(p.Publish(t.Context(), p.names.EncodeCall(c)))
	}
	// leave makes a puller on which a pull of b is open that nobody waits for.
	leave := func() {
		pl, err := p.takePuller()
		must(err)
		must(p.pull(p.names.StreamName(messages.StreamCalls), lane("b"), pl.reply(), pullRequest{Batch: 1, Expires: 10 * long}))
		must(p.nc.Flush())
		p.givePuller(pl)
	}
	fetch := func(queue string, wait time.Duration) []messages.Delivery {
		t.Helper()
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane(queue), 1, wait)
		must(err)
		return ds
	}

	// It comes while the fetch waits: it is given back, and found at once by
	// whoever asks for it.
	leave()
	got := make(chan []messages.Delivery, 1)
	go func() {
		ds, _ := p.Fetch(t.Context(), messages.StreamCalls, lane("a"), 1, long)
		got <- ds
	}()
	awaitPull(t, p, lane("a"))
	publish("b")
	again := fetch("b", long)
	if len(again) != 1 || again[0].Delivery != 2 {
		t.Fatalf("b handed over %+v", again)
	}
	must(p.Ack(t.Context(), again[0]))
	publish("a")
	if ds := <-got; len(ds) != 1 || ds[0].Subject[:len("mulligan.call.a.")] != "mulligan.call.a." {
		t.Fatalf("a handed over %+v", ds)
	}

	// It comes while the puller is idle: it is given back just as soon.
	leave()
	publish("b")
	for deadline := time.Now().Add(long); ; {
		var info struct {
			Pending int `json:"num_pending"`
		}
		must(p.api(t.Context(), "CONSUMER.INFO."+p.names.StreamName(messages.StreamCalls)+"."+lane("b"), nil, &info))
		if info.Pending == 0 {
			break // handed over
		}
		if time.Now().After(deadline) {
			t.Fatal("the pull that was left takes nothing")
		}
	}
	other, err := Connect(t.Context(), Config{URL: s.ClientURL(), Token: s.Token(), Lease: 10 * long})
	must(err)
	t.Cleanup(other.Close)
	ds, err := other.Fetch(t.Context(), messages.StreamCalls, lane("b"), 1, long)
	must(err)
	if len(ds) != 1 || ds[0].Delivery != 2 {
		t.Fatalf("b handed over %+v", ds)
	}
	must(other.Ack(t.Context(), ds[0]))

	// What the broker says of the pull that was left is not taken for the end of
	// another, which would stay open with nobody to hear it.
	leave()
	go func() {
		ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane("a"), 1, long)
		if err != nil {
			t.Errorf("the end of another pull ended a fetch: %v", err)
		}
		got <- ds
	}()
	awaitPull(t, p, lane("a"))
	must(p.api(t.Context(), "CONSUMER.DELETE."+p.names.StreamName(messages.StreamCalls)+"."+lane("b"), nil, nil))
	must(p.nc.Flush())
	publish("a")
	if ds := <-got; len(ds) != 1 {
		t.Errorf("a handed over %+v", ds)
	}
}

// awaitPull waits until a pull of the consumer waits at the broker.
func awaitPull(t *testing.T, p *Pool, consumer string) {
	t.Helper()
	awaitPulls(t, p, consumer, 1)
}

// awaitPulls waits until n pulls of the consumer wait at the broker.
func awaitPulls(t *testing.T, p *Pool, consumer string, n int) {
	t.Helper()
	for deadline := time.Now().Add(long); ; {
		var info struct {
			Waiting int `json:"num_waiting"`
		}
		if err := p.api(t.Context(), "CONSUMER.INFO."+p.names.StreamName(messages.StreamCalls)+"."+consumer, nil, &info); err != nil {
			t.Fatal(err)
		}
		if info.Waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d pulls wait, not %d", info.Waiting, n)
		}
	}
}
