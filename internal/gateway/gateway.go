package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"mulligan/internal/lifecycle"
	"mulligan/internal/mcpserver"
	"mulligan/pkg/client"
)

// Gateway serves a pool over HTTP. Started means that it listens. Stop lets
// requests end: after the grace those that wait for results are answered with
// where these will be.
type Gateway struct {
	*lifecycle.Service

	cfg     Config
	runs    *client.Runs
	nobody  *Token // who asks where there are no tokens
	tools   toolList
	mux     *http.ServeMux
	slots   chan struct{}
	waits   context.Context // ends when those who wait are told to come back
	endWait context.CancelCauseFunc

	mu      sync.Mutex
	address string
}

// errStopping is why a wait is cut short.
var errStopping = errors.New("the gateway stops")

// Of one connection, and of requests that are no bodies.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaders    = 16 << 10
	// closing is how long a stop waits, after the grace, for what was told to end.
	closing = 5 * time.Second
)

// New makes a gateway, which does nothing before Start.
func New(cfg Config) (*Gateway, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, runs: client.NewRuns(cfg.Broker), nobody: anybody(), slots: make(chan struct{}, cfg.Limits.Requests)}
	g.tools.registry = mcpserver.NewRegistry(cfg.Broker, cfg.Log)
	g.waits, g.endWait = context.WithCancelCause(context.Background())
	g.mux = g.routes()
	g.Service = lifecycle.New(g.run)
	return g, nil
}

// Address is where it listens, once it has started.
func (g *Gateway) Address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.address
}

func (g *Gateway) run(ctx context.Context, started func()) error {
	if err := g.open(); err != nil {
		return err
	}
	defer g.close()
	lis, err := net.Listen("tcp", g.cfg.Address)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.mu.Lock()
	g.address = lis.Addr().String()
	g.mu.Unlock()
	server := &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaders,
		ErrorLog: slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug),
	}
	serve := server.Serve
	if c := g.cfg.Certificate; c != nil {
		server.TLSConfig = c.config(g.cfg.Log)
		server.Protocols = new(http.Protocols) // the limits of a connection are made for one request at a time
		server.Protocols.SetHTTP1(true)
		serve = func(lis net.Listener) error { return server.ServeTLS(lis, "", "") }
	}
	served := make(chan error, 1)
	go func() { served <- serve(lis) }()
	g.cfg.Log.Info("the gateway listens", "address", g.address, "tls", g.cfg.Certificate != nil)
	if host, _, _ := net.SplitHostPort(g.address); g.cfg.Certificate == nil && !loopback(host) {
		g.cfg.Log.Warn("the gateway can be reached from outside and speaks no TLS: what is sent to it, tokens too, can be read on the way, unless a proxy in front encrypts; give it a certificate, or an address of this machine")
	}
	started()
	select {
	case err := <-served:
		return fmt.Errorf("gateway: %w", err)
	case <-ctx.Done():
	}
	err = g.shut(server)
	<-served
	return err
}

// shut lets requests end, then makes them.
func (g *Gateway) shut(server *http.Server) error {
	late := time.AfterFunc(g.cfg.Limits.Grace, func() { g.endWait(errStopping) })
	defer late.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Limits.Grace+closing)
	defer cancel()
	err := server.Shutdown(ctx)
	g.endWait(errStopping)
	if err != nil { // somebody does not read what it is sent
		g.cfg.Log.Warn("connections were cut off at the stop of the gateway", "error", err)
		return server.Close()
	}
	return nil
}

func (g *Gateway) tokens() []*Token {
	if g.cfg.Tokens == nil {
		return []*Token{g.nobody}
	}
	return g.cfg.Tokens.list
}

// open gives each token a client of its own, so that the story of a call says
// who submitted it, and calls without a run share nothing with those of others.
func (g *Gateway) open() error {
	for _, k := range g.tokens() {
		c, err := client.New(g.cfg.Broker, client.Config{By: k.by(), Patience: g.cfg.Limits.Patience, Log: g.cfg.Log})
		if err != nil {
			return err
		}
		k.client = c
		if err := g.openMCP(k); err != nil {
			return err
		}
	}
	return nil
}

// by is who a token is in the story of a call.
func (k *Token) by() string { return "gateway:" + k.Name }

func (g *Gateway) close() {
	g.endWait(errStopping)
	g.tools.close()
	for _, k := range g.tokens() {
		if k.client != nil {
			k.client.Close()
		}
	}
}
