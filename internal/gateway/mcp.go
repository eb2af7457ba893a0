package gateway

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"mulligan/internal/mcpserver"
)

// toolList is what clients of MCP are shown. It is followed from the
// first such client on.
type toolList struct {
	registry *mcpserver.Registry

	mu     sync.Mutex
	stop   context.CancelFunc // nil before the first
	closed bool
	done   sync.WaitGroup
}

// follow returns when the tools are known, and keeps them so.
func (t *toolList) follow(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil || t.closed {
		return nil
	}
	if err := t.registry.Read(ctx); err != nil {
		return err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.done.Go(func() { t.registry.Follow(following, 0) })
	return nil
}

func (t *toolList) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.stop != nil {
		t.stop()
	}
	t.done.Wait()
}

// openMCP gives a token a server of MCP of its own, since each may see other
// tools.
func (g *Gateway) openMCP(k *Token) error {
	s, err := mcpserver.New(mcpserver.Config{
		Broker: g.cfg.Broker, Client: k.client, Registry: g.tools.registry, Name: k.Name, Allowed: k.calls, May: mcpserver.May{Answer: k.may(mayAnswer), Cancel: k.may(mayCancel)}, Wait: g.cfg.Limits.Wait,
		Log: g.cfg.Log.With("token", k.Name),
	})
	if err != nil {
		return err
	}
	k.mcp, k.mcpHTTP = s, s.HTTP(g.cfg.Limits.Body)
	context.AfterFunc(g.waits, s.Close)
	return nil
}

// postMCP is one message of MCP.
func (x *exchange) postMCP() error {
	if err := x.parameters(); err != nil {
		return err
	}
	if accept := x.r.Header.Values("Accept"); !takes(accept, typeJSON) || !takes(accept, typeEvents) {
		return fail(http.StatusNotAcceptable, codeBadType, "MCP answers with JSON or events; give the header Accept: %s, %s", typeJSON, typeEvents).about("Accept", strings.Join(accept, ", "))
	}
	if err := x.g.tools.follow(x.ctx()); err != nil {
		return err
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	r := x.r.Clone(x.ctx())
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := &worded{exchange: x}
	x.who.mcpHTTP.ServeHTTP(w, r)
	if w.refused != 0 {
		return fail(w.refused, codeBroken, "%s", strings.TrimSpace(w.text.String()))
	}
	return nil
}

// takes says whether a media type may be answered with.
func takes(accept []string, want string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(accept, ","), ","), func(s string) bool {
		media, _, err := mime.ParseMediaType(s)
		kind, _, _ := strings.Cut(want, "/")
		return err == nil && (media == want || media == kind+"/*" || media == "*/*")
	})
}

// worded keeps back what the SDK words as text, which are its refusals of what
// is no message of MCP, so that they become problems. What is in the protocol's
// own form goes through.
type worded struct {
	*exchange
	refused int
	text    bytes.Buffer
}

func (w *worded) WriteHeader(status int) {
	if media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type")); status >= http.StatusBadRequest && err == nil && media == "text/plain" {
		w.refused = status
		return
	}
	w.exchange.WriteHeader(status)
}

func (w *worded) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return w.text.Write(b)
	}
	return w.exchange.Write(b)
}

// FlushError is of [http.ResponseController].
func (w *worded) FlushError() error { return w.flush() }
