package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"mulligan/pkg/messages"
)

// Client submits calls and waits for results. All methods may be called
// concurrently.
type Client struct {
	broker Broker
	names  messages.Pool
	cfg    Config
	own    *Batch // of the calls that name neither run nor batch
	hub    *hub
	runs   atomic.Uint64 // revision of RUNS after the last declaration
}

// New makes a client of a pool. It does no I/O; Close it when it is not needed
// any more.
func New(b Broker, cfg Config) (*Client, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{broker: b, names: b.Names(), cfg: cfg}
	c.own = c.newBatch(uuid.NewString(), 0)
	c.hub = newHub(c)
	return c, nil
}

// Close stops waiting for results: calls of Call return ErrClosed. It ends no
// call, and returns when everything that the client had started has ended.
func (c *Client) Close() { c.hub.close() }

// Submit submits calls, in chunks, and returns when each is accepted or
// refused; the refusals come in the order of the calls. It fills in the id of
// a call that has none. Calls that name no run belong to this client's own
// batch, see [Client.Batch].
//
// With an error nobody knows what became of those calls that are neither
// refused nor have a result; see [UncertainError] for what to do about it.
func (c *Client) Submit(ctx context.Context, calls []messages.Submission) ([]messages.Refusal, error) {
	return c.own.Submit(ctx, calls)
}

// Batch is the batch of the calls that are given to Submit and Call without a run.
func (c *Client) Batch() *Batch { return c.own }

// Position is the sequence in RESULTS from which on the results of calls that
// are submitted after this call will stand.
func (c *Client) Position(ctx context.Context) (uint64, error) {
	last, err := c.broker.LastSequence(ctx, messages.StreamResults)
	if err != nil {
		return 0, fmt.Errorf("read the position of RESULTS: %w", err)
	}
	return last + 1, nil
}

// Output gives the output of a result, from PAYLOADS where it is kept there.
// ErrNotFound means that the payload has outlived its retention.
func (c *Client) Output(ctx context.Context, r messages.Result) ([]byte, error) {
	return c.Body(ctx, r.Output)
}

// Body gives the bytes of an input or output.
func (c *Client) Body(ctx context.Context, b messages.Body) ([]byte, error) {
	if b.Ref == nil {
		return b.Inline, nil
	}
	out, err := c.broker.GetPayload(ctx, *b.Ref)
	if err != nil {
		return nil, fmt.Errorf("fetch payload %s of %d bytes: %w", b.Ref.Digest, b.Ref.Size, err)
	}
	return out, nil
}

// group waits for the goroutines of a client; Go after Wait began is refused.
type group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (g *group) goFunc(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f)
	return true
}

func (g *group) wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
