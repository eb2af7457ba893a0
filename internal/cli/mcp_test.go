package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/pool"
	"mulligan/pkg/tool/builtin"
)

// A client of MCP starts the command and finds the pool's tools; nothing but the
// protocol is on its output, and it ends well with its input.
func TestAClientOfMCPUsesThePool(t *testing.T) {
	dir := t.TempDir()
	p, err := pool.Start(t.Context(), pool.Config{Dir: dir, Address: true, Tools: builtin.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	in, fromClient := io.Pipe()
	toClient, out := io.Pipe()
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Mulligan(t.Context(), IO{In: in, Out: out, Err: &log, Dir: dir}, []string{"mcp", "--state", dir})
		_ = out.Close()
	}()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatalf("%v; %s", err, log.String())
	}
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 3 || tools.Tools[0].Name != "echo" {
		t.Errorf("%+v, %v", tools, err)
	}
	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": "20"}})
	if err != nil || r.IsError || len(r.Content) != 1 || r.Content[0].(*mcp.TextContent).Text != "slept 20 ms" { //nolint:forcetypeassert // a panic tells as much
		t.Errorf("%+v, %v", r, err)
	}
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
	if got := <-code; got != exitOK || log.Len() > 0 {
		t.Errorf("exit code %d; %s", got, log.String())
	}
}

func TestMCPWithoutAPoolSaysSo(t *testing.T) {
	var out, log bytes.Buffer
	code := Mulligan(t.Context(), IO{In: strings.NewReader(""), Out: &out, Err: &log, Dir: t.TempDir()}, []string{"mcp"})
	if code != exitUnreachable || out.Len() > 0 || !strings.Contains(log.String(), "mulligan up") {
		t.Errorf("exit code %d, %q, %q", code, out.String(), log.String())
	}
}
