// Package serve offers the shop over HTTP on the loopback interface. One such
// process owns the state of all runs, and every worker calls it.
//
// POST /call executes a tool. What a client may conclude:
//
//   - 200 is the tool's answer, an error text of the tool included.
//   - 4xx and 503 are definite: nothing was executed. A 429 says in Retry-After
//     when to come back.
//   - Anything else (a closed connection, no answer in time) leaves open whether
//     the tool was executed.
//
// GET /healthz answers 200 while the server runs.
package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/tools"
)

// Executor executes a tool. An error says that nothing was executed.
type Executor interface {
	Do(tools.Request) (tools.Answer, error)
}

// Fates decides what happens to the next execution of a call.
type Fates interface {
	Next(call string) (faults.Kind, error)
}

// Server answers for one shop. It is safe for concurrent use.
type Server struct {
	config Config
	shop   Executor
	fates  Fates
	log    *slog.Logger

	stopOnce sync.Once
	stopping chan struct{}
}

// New returns a server. Its error names the field of config that is wrong.
func New(config Config, shop Executor, fates Fates, log *slog.Logger) (*Server, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("shop server: %w", err)
	}
	return &Server{config: config, shop: shop, fates: fates, log: log, stopping: make(chan struct{})}, nil
}

// Serve answers on the listener until ctx ends. It then takes no further
// request, lets running ones end within the grace, and closes the listener. An
// error means that serving failed or that requests had to be cut off.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("shop server: %w", err)
	case <-ctx.Done():
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Grace)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("shop server: requests were cut off after %v: %w", s.config.Grace, err), server.Close())
	}
	<-failed
	return err
}

// stop ends the executions that are held up by a fault.
func (s *Server) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// Handler returns the HTTP side alone.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", s.call)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, struct {
			Status string `json:"status"`
		}{"ok"})
	})
	return mux
}

func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	request, status, err := s.read(w, r)
	if err != nil {
		s.reply(w, status, Refusal{err.Error()})
		return
	}
	fate, err := s.fates.Next(request.Call)
	if err != nil {
		s.reply(w, http.StatusServiceUnavailable, Refusal{err.Error()})
		return
	}
	if fate != faults.None && !fate.IsAfter() {
		s.failBefore(w, r, request, fate)
		return
	}
	answer, err := s.shop.Do(tools.Request{
		Run: request.Run, Call: request.Call, Key: request.Key,
		Tool: request.Tool, Input: request.Input,
	})
	switch {
	case err != nil:
		s.log.Warn("nothing executed", "call", request.Call, "tool", request.Tool, "error", err)
		s.reply(w, http.StatusServiceUnavailable, Refusal{err.Error()})
	case fate == faults.Silent:
		s.hang(r)
	case fate == faults.Dropped:
		drop()
	default:
		s.reply(w, http.StatusOK, Answer{answer.Output, answer.IsError})
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) (Request, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return Request{}, http.StatusRequestEntityTooLarge,
			fmt.Errorf("the body has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return Request{}, http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)
	}
	var request Request
	if err := json.Unmarshal(body, &request); err != nil {
		return Request{}, http.StatusBadRequest, fmt.Errorf("the body is no request: %w", err)
	}
	return request, http.StatusBadRequest, request.Validate()
}

// failBefore answers, or does not, in place of the tool.
func (s *Server) failBefore(w http.ResponseWriter, r *http.Request, request Request, fate faults.Kind) {
	switch fate {
	case faults.RateLimited:
		w.Header().Set("Retry-After", strconv.Itoa(int(s.config.FaultRetryAfter/time.Second)))
		s.reply(w, http.StatusTooManyRequests, Refusal{"too many requests"})
	case faults.Unavailable:
		s.reply(w, http.StatusServiceUnavailable, Refusal{"the shop is not available"})
	case faults.StoreRace:
		s.reply(w, http.StatusOK, Answer{storeRace(request.Tool), true})
	default:
		s.hang(r)
	}
}

// hang keeps the connection without an answer, until the time of a fault, the
// client's patience or the server ends, and drops it.
func (s *Server) hang(r *http.Request) {
	timer := time.NewTimer(s.config.FaultTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-s.stopping:
	}
	drop()
}

// drop closes the connection without an answer; net/http recovers this panic
// quietly, which is its way to say so.
func drop() { panic(http.ErrAbortHandler) }

func (s *Server) reply(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		s.log.Error("answer cannot be encoded", "error", err)
		drop()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(text.Bytes()); err != nil {
		// The client is gone, which it knows better than we do.
		s.log.Debug("answer not delivered", "error", err)
	}
}
