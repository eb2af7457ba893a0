package jetstream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
	"mulligan/pkg/messages"
)

// patience bounds what must happen soon, on a machine that has much else to do.
const patience = time.Minute

var errStopped = errors.New("the test stopped it")

// raw is the plain client, to see what the adapter does and what the server
// would have done without it.
func raw(t *testing.T, s *embedded.Server) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	nc, js, err := dial(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, js
}

func dial(s *embedded.Server) (*nats.Conn, natsjs.JetStream, error) {
	nc, err := nats.Connect(s.ClientURL(), nats.Token(s.Token()), nats.Timeout(patience))
	if err != nil {
		return nil, nil, err
	}
	js, err := natsjs.New(nc, natsjs.WithDefaultTimeout(patience))
	return nc, js, err
}

func provision(t *testing.T, p *jetstream.Pool, cfg jetstream.TopologyConfig) {
	t.Helper()
	if err := p.Provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// background runs f until the test ends or stop is called, and returns its error.
func background(t *testing.T, f func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = func() error {
		cancel(errStopped)
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(patience):
			return errors.New("it did not end")
		}
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func next[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

func result(p *jetstream.Pool, run messages.Run, body string) messages.Message {
	return messages.Message{Subject: p.Names().ResultSubject(run, messages.NewCallID()), Body: []byte(body)}
}

func mustPut(t *testing.T, p *jetstream.Pool, m messages.Message) {
	t.Helper()
	if winner, err := p.PutOnce(t.Context(), m); winner != nil || err != nil {
		t.Fatalf("put %s: %v, %v", m.Subject, winner, err)
	}
}

// apiCode is the code of a server's refusal, 0 for none.
func apiCode(err error) (code int, text string) {
	var api *natsjs.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode), api.Description
	}
	return 0, ""
}

func purgeSubject(subject string) natsjs.StreamPurgeOpt { return natsjs.WithPurgeSubject(subject) }

func consumerInfo(t *testing.T, s *embedded.Server, stream, consumer string) (*natsjs.ConsumerInfo, error) {
	t.Helper()
	nc, js, err := dial(s)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	c, err := js.Consumer(t.Context(), stream, consumer)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}
