// Package natstest gives tests a real broker: an embedded server in the test's
// own folder and a provisioned pool on it, with leases short enough to wait for
// and longer than a busy machine holds a test up.
package natstest

import (
	"context"
	"testing"
	"time"

	"mulligan/jetstream"
	"mulligan/jetstream/embedded"
)

// Lease is the lease of every consumer that these pools make.
const Lease = 5 * time.Second

// Server starts a server that ends with the test.
func Server(t testing.TB) *embedded.Server {
	t.Helper()
	return ServerWith(t, embedded.Config{})
}

// ServerWith is Server with a configuration; an empty Dir becomes a folder of the test.
func ServerWith(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := embedded.Start(cfg)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("shut the server down: %v", err)
		}
	})
	return s
}

// Connect opens a pool on the server that closes with the test. It provisions
// nothing. Fields of cfg that say where and who are filled in.
func Connect(t testing.TB, s *embedded.Server, cfg jetstream.Config) *jetstream.Pool {
	t.Helper()
	cfg.URL, cfg.Token = s.ClientURL(), s.Token()
	if cfg.Lease == 0 {
		cfg.Lease = Lease
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute // the machine may have much else to do
	}
	p, err := jetstream.Connect(context.Background(), cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Start gives a provisioned pool on a server of its own. Both end with the test.
func Start(t testing.TB) *jetstream.Pool {
	t.Helper()
	p := Connect(t, Server(t), jetstream.Config{})
	if err := p.Provision(context.Background(), jetstream.TopologyConfig{}); err != nil {
		t.Fatalf("provision: %v", err)
	}
	return p
}
