package mcptool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// exchange is one request and what is known of it. It travels in the context
// of the call, so that a connection finds it whatever lies between.
type exchange struct {
	sent atomic.Bool // the whole request left us
	// progress is told what the server says of how far it is; it may be nil.
	progress func(progress)

	mu     sync.Mutex
	answer *jsonrpc.Response // nil until there is one
	status int               // of HTTP, 0 for none
	after  time.Duration     // Retry-After
}

// progress is what a server says of how far a call is.
type progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"` // 0 where it is not known
	Message  string  `json:"message"`
}

type exchangeKey struct{}

func (x *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func withoutExchange(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, nil)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// sent notes that the request of ctx, if it has one, may be with the server.
func sent(ctx context.Context) {
	if x := exchangeOf(ctx); x != nil {
		x.sent.Store(true)
	}
}

func (x *exchange) answered(r *jsonrpc.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer = r
}

func (x *exchange) responded(status int, after time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.after = status, after
}

func (x *exchange) known() (answer *jsonrpc.Response, status int, after time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answer, x.status, x.after
}
