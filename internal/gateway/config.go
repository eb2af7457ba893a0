package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"mulligan/internal/catalogue"
	"mulligan/internal/inbox"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Broker is the pool's broker; *jetstream.Pool is one.
type Broker interface {
	client.Broker
	client.RunStore
	inbox.Source
	catalogue.Source
	// Save writes a value under a key that has none, with expect 0; else it is ErrConflict.
	Save(ctx context.Context, b messages.Bucket, key string, value []byte, expect uint64, ttl time.Duration) (uint64, error)
}

// Config sets up a [Gateway].
type Config struct {
	// Address to listen at, host and port. Without Tokens it has to be of the
	// loopback interface.
	Address string
	// Tokens of those who may ask. Nil: whoever reaches the address may, and
	// answer, cancel and declare too.
	Tokens *Tokens
	// Certificate makes the gateway speak TLS. Nil: it does not, and says so in
	// the log where it can be reached from outside.
	Certificate *Certificate
	Broker      Broker
	Limits      Limits
	// Healthy says what is wrong with the pool, if anything is. Nil: nothing.
	Healthy func() error
	// Log receives a line for each request. Nil discards.
	Log *slog.Logger
}

// Limits bound what requests may take; those of each token stand in [Token].
type Limits struct {
	Body     int64         // bytes of a request that is no batch; 0 means 32 MiB
	Batch    int64         // bytes of a batch, which is kept in a temporary file meanwhile; 0 means 256 MiB
	Wait     time.Duration // for results, in one request; 0 means 10 minutes
	Requests int           // under way at a time, of all tokens together; 0 means 1,000
	Stall    time.Duration // of a client that sends or reads nothing, before it is cut off; 0 means 30 s
	// Grace is how long a stop lets requests end by themselves before those that
	// wait for results are told to come back; 0 means 5 s.
	Grace time.Duration
	// Patience is how long a submission is tried while the pool is full or does
	// not answer; 0 means 10 s.
	Patience time.Duration
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Healthy == nil {
		c.Healthy = func() error { return nil }
	}
	return c
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Body: cmp.Or(l.Body, 32<<20), Batch: cmp.Or(l.Batch, 256<<20), Wait: cmp.Or(l.Wait, 10*time.Minute), Requests: cmp.Or(l.Requests, 1000),
		Stall: cmp.Or(l.Stall, 30*time.Second), Grace: cmp.Or(l.Grace, 5*time.Second), Patience: cmp.Or(l.Patience, 10*time.Second),
	}
}

// Validate names the field that cannot be used. Call it after WithDefaults.
func (c Config) Validate() error {
	if err := c.CheckAddress(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if c.Broker == nil {
		return errors.New("gateway: no broker")
	}
	l := c.Limits
	if l.Body < 0 || l.Batch < 0 || l.Wait < 0 || l.Requests < 0 || l.Stall < 0 || l.Grace < 0 {
		return errors.New("gateway: a limit is negative; give 0 for its default")
	}
	return nil
}

// CheckAddress says what is wrong with the address: without tokens nobody
// outside may reach it.
func (c Config) CheckAddress() error {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return fmt.Errorf("address %q: %w; give a host and a port, such as 127.0.0.1:7070", c.Address, err)
	}
	if c.Tokens == nil && !loopback(host) {
		return fmt.Errorf("address %q can be reached from outside, and there are no tokens: give a file of them, or an address such as 127.0.0.1:7070", c.Address)
	}
	return nil
}

// loopback says that a host is this machine and nobody else reaches it.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
