package mcptool

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sink is a connection on which everything is sent.
type sink struct{ mcp.Connection }

func (sink) Write(ctx context.Context, _ jsonrpc.Message) error {
	sent(ctx)
	return nil
}

// The word that a call is cancelled comes with the context of that call, which
// may not have been sent.
func TestOnlyTheRequestItselfCountsAsSent(t *testing.T) {
	id, err := jsonrpc.MakeID("1")
	if err != nil {
		t.Fatal(err)
	}
	tp := newTap(nil)
	tp.Connection = sink{}
	x := &exchange{}
	for _, m := range []*jsonrpc.Request{{Method: "notifications/cancelled"}, {ID: id, Method: "tools/call"}} {
		if err := tp.Write(x.within(t.Context()), m); err != nil {
			t.Fatal(err)
		}
		if x.sent.Load() != m.IsCall() {
			t.Errorf("%s: sent is %t", m.Method, x.sent.Load())
		}
	}
}
