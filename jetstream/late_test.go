package jetstream

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// stalling passes connections on to a broker, whose words it holds back while
// mu is locked.
type stalling struct {
	mu  sync.Mutex
	lis net.Listener
}

func newStalling(t *testing.T, broker string) *stalling {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stalling{lis: lis}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", broker)
			if err != nil {
				_ = in.Close()
				continue
			}
			passing.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
			passing.Go(func() { _, _ = io.Copy(s.held(in), out); _ = in.Close() })
		}
	})
	t.Cleanup(func() { _ = lis.Close(); passing.Wait() })
	return s
}

func (s *stalling) held(to io.Writer) io.Writer { return heldWriter{s, to} }

type heldWriter struct {
	s  *stalling
	to io.Writer
}

func (w heldWriter) Write(b []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.to.Write(b)
}

// What was on its way when a fetch was given up is given back also where the
// broker's words take longer than the fetch waits for them.
func TestWhatComesAfterAFetchIsGivenBack(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown() })
	between := newStalling(t, strings.TrimPrefix(s.ClientURL(), "nats://"))
	connect := func(url string) *Pool {
		t.Helper()
		p, err := Connect(t.Context(), Config{URL: url, Token: s.Token(), Lease: 10 * long})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	p, slow := connect(s.ClientURL()), connect("nats://"+between.lis.Addr().String())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Provision(t.Context(), TopologyConfig{}))
	must(p.EnsureQueue(t.Context(), "q"))
	lane := p.names.LaneConsumer("q", messages.LaneNormal)

	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Fetch(ctx, messages.StreamCalls, lane, 1, long)
		ended <- err
	}()
	awaitPull(t, p, lane)
	between.mu.Lock()
	c := messages.Call{ID: messages.NewCallID(), Run: messages.NamedRun("r"), Tool: "t", Queue: "q", Lane: messages.LaneNormal, Effect: messages.Unsafe, Key: "k"}
	must(p.Publish(t.Context(), p.names.EncodeCall(c)))
	// The pull has it as soon as none waits, and before the fetch is given up.
	awaitPulls(t, p, lane, 0)
	stop(enough)
	err = <-ended
	between.mu.Unlock()
	if !errors.Is(err, enough) {
		t.Errorf("the fetch ended with %v", err)
	}
	ds, err := p.Fetch(t.Context(), messages.StreamCalls, lane, 1, long)
	must(err)
	if len(ds) != 1 || ds[0].Delivery != 2 {
		t.Fatalf("the lane handed over %+v", ds)
	}
	must(p.Ack(t.Context(), ds[0]))
}
