package mcptool

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/excerpt"
)

// Notifications that are let through; all others would only pile up.
const (
	notedProgress  = "notifications/progress"
	notedTools     = "notifications/tools/list_changed"
	notedListening = "notifications/subscriptions/acknowledged"
)

// replyPatience is how long the answer to a server's own request may take to be
// sent, during which nothing more is read of it.
const replyPatience = 5 * time.Second

// tap is a transport and its connection that notes the exchanges passing
// through: which request was sent, and its answer byte for byte. It lets through
// what a client of tools needs of a server, and answers the server's own requests
// itself, since the library queues both without bound.
type tap struct {
	mcp.Transport
	mcp.Connection

	heard   atomic.Int64 // messages that came
	changed atomic.Bool  // a change of the list is on its way to its handler

	mu      sync.Mutex
	pending map[jsonrpc.ID]*exchange
	tokens  map[string]*exchange // by progress token
}

func newTap(t mcp.Transport) *tap {
	return &tap{
		Transport: t, pending: make(map[jsonrpc.ID]*exchange), tokens: make(map[string]*exchange),
	}
}

// Connect makes the connection.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	var err error
	t.Connection, err = t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// track gives an exchange the progress of a token until the end is called.
func (t *tap) track(token string, x *exchange) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens[token] = x
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.tokens, token)
		for id, other := range t.pending {
			if other == x {
				delete(t.pending, id)
			}
		}
	}
}

// Write sends a message.
func (t *tap) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() { // such as the word that a call is cancelled, which comes with the context of that call
		return t.Connection.Write(withoutExchange(ctx), m)
	}
	if x := exchangeOf(ctx); x != nil {
		t.mu.Lock()
		t.pending[r.ID] = x
		t.mu.Unlock()
	}
	return t.Connection.Write(ctx, m)
}

// Read gives the next message that is let through.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := t.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		t.heard.Add(1)
		switch m := m.(type) {
		case *jsonrpc.Response:
			t.answer(m)
			return m, nil
		case *jsonrpc.Request:
			switch {
			case m.IsCall():
				if err := t.reply(ctx, m); err != nil {
					return nil, err
				}
			case t.notify(m):
				return m, nil
			}
		}
	}
}

// reply answers a request of the server: we are there, and that is all that we
// offer it.
func (t *tap) reply(ctx context.Context, r *jsonrpc.Request) error {
	ctx, cancel := context.WithTimeout(ctx, replyPatience)
	defer cancel()
	answer := &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}
	if r.Method != "ping" {
		answer.Result, answer.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client offers no " + excerpt.Head(r.Method, 100)}
	}
	return t.Connection.Write(ctx, answer)
}

func (t *tap) answer(r *jsonrpc.Response) {
	t.mu.Lock()
	x := t.pending[r.ID]
	delete(t.pending, r.ID)
	t.mu.Unlock()
	if x != nil {
		x.answered(r)
	}
}

// notify says whether the library is to see a notification.
func (t *tap) notify(r *jsonrpc.Request) bool {
	switch r.Method {
	case notedTools:
		return t.changed.CompareAndSwap(false, true)
	case notedListening:
		return true
	case notedProgress:
		var p struct {
			Token any `json:"progressToken"`
			progress
		}
		if json.Unmarshal(r.Params, &p) != nil {
			return false
		}
		token, _ := p.Token.(string)
		t.mu.Lock()
		x := t.tokens[token]
		t.mu.Unlock()
		if x != nil && x.progress != nil {
			x.progress(p.progress)
		}
	}
	return false
}
