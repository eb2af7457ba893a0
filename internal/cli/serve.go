package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"mulligan/internal/lifecycle"
)

// service is a long-lived part of a process; *lifecycle.Service is one.
type service interface {
	Start(ctx context.Context) error
	Started() <-chan struct{}
	Stop(ctx context.Context) error
	Stopped() <-chan struct{}
	Err() error
}

// serving says how a process that runs for long is watched and stopped.
type serving struct {
	http  string
	drain time.Duration
}

func (s *serving) flags(f *pflag.FlagSet) {
	f.StringVar(&s.http, "http", "", "address for /healthz, /readyz and /metrics, such as 127.0.0.1:9090; a port alone is on the loopback interface; empty for none")
	f.DurationVar(&s.drain, "drain", 60*time.Second, "how long a clean stop may take after SIGTERM")
}

func (s *serving) check() error {
	if s.drain <= 0 {
		return usage("--drain %s: give more than 0, such as 30s", s.drain)
	}
	return nil
}

// serve runs a service until ctx is done, then stops it cleanly. ready is told
// when it does its work.
func (a *app) serve(ctx context.Context, o serving, log *slog.Logger, reg *prometheus.Registry, healthy func() error, s service, ready func() error) error {
	web, err := startHTTP(o.http, reg, s, healthy)
	if err != nil {
		return err
	}
	defer web.stop(log)
	if err := s.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	select {
	case <-s.Started():
		log.Info("ready", "http", web.address())
		if err := ready(); err != nil {
			return errors.Join(err, a.stop(o, log, s))
		}
	case <-s.Stopped():
		return s.Err()
	case <-ctx.Done():
	}
	select {
	case <-s.Stopped():
		return s.Err()
	case <-ctx.Done():
		log.Info("stopping", "cause", context.Cause(ctx))
		return a.stop(o, log, s)
	}
}

func (a *app) stop(o serving, log *slog.Logger, s service) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.drain, fmt.Errorf("not stopped within %s", o.drain))
	defer cancel()
	if err := s.Stop(ctx); err != nil && !errors.Is(err, lifecycle.ErrStopping) {
		return err
	}
	log.Info("stopped")
	return nil
}

// web serves health and metrics.
type web struct {
	server *http.Server
	lis    net.Listener
	done   chan error
}

// maxRequestHeaders bounds what a request for health or figures brings, in bytes.
const maxRequestHeaders = 16 << 10

func startHTTP(address string, reg *prometheus.Registry, s service, healthy func() error) (*web, error) {
	if address == "" {
		return &web{}, nil
	}
	address = listenAddress(address)
	lis, err := net.Listen("tcp", address)
	if err != nil {
		return nil, usage("--http %s: %w", address, err)
	}
	w := &web{lis: lis, done: make(chan error, 1), server: &http.Server{Handler: handler(reg, s, healthy), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: maxRequestHeaders}}
	go func() { w.done <- w.server.Serve(lis) }()
	return w, nil
}

func (w *web) address() string {
	if w.lis == nil {
		return ""
	}
	return w.lis.Addr().String()
}

func (w *web) stop(log *slog.Logger) {
	if w.server == nil {
		return
	}
	if err := w.server.Close(); err != nil {
		log.Warn("the health endpoint was not closed", "error", err)
	}
	<-w.done
}

// handler answers /healthz while the service lives, and /readyz while it does
// its work and the broker is there.
func handler(reg *prometheus.Registry, s service, healthy func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-s.Stopped():
			http.Error(w, "stopped", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok") // whoever asked may be gone
		}
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(s, healthy); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready") // whoever asked may be gone
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return mux
}

func ready(s service, healthy func() error) error {
	select {
	case <-s.Stopped():
		return errors.New("stopped")
	default:
	}
	select {
	case <-s.Started():
		return healthy()
	default:
		return errors.New("not started yet")
	}
}

var heapLive = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// newRegistry has what every Go process tells about itself, and what the last
// collection of garbage left: memory that grows without end shows there first.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(heapLive)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}
