package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/jetstream"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// One pool serves all tests of the package; each has a gateway of its own. Its
// broker lets a gateway do what the role of coordinators may, and no more.
var shared struct {
	broker *jetstream.Pool // of the coordinator
	worker *jetstream.Pool
	ran    ran
	well   wells
}

// wells are the routes that gave somebody what was asked for.
type wells struct {
	mu     sync.Mutex
	routes map[string]bool
}

func (w *wells) note(pattern string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.routes == nil {
		w.routes = make(map[string]bool)
	}
	w.routes[pattern] = true
}

// missing are the routes of which no test had an answer that was no error.
func (w *wells) missing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, r := range new(Gateway).table() {
		if !w.routes[r.pattern] {
			errs = append(errs, fmt.Errorf("%s: no test has an answer of it under the permissions of a coordinator", r.pattern))
		}
	}
	return errors.Join(errs...)
}

func TestMain(m *testing.M) {
	code, err := withPool(m)
	if err == nil && code == 0 {
		http.DefaultClient.CloseIdleConnections()
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func withPool(m *testing.M) (code int, err error) {
	ctx := context.Background()
	p, err := startPrincipals(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, p.stop(ctx)) }()
	shared.broker, shared.worker = p.coordinator, p.worker
	code = m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		err = shared.well.missing()
	}
	return code, errors.Join(err, p.denied())
}

// ran counts how often a tool ran with an input, and holds those that wait.
type ran struct {
	mu    sync.Mutex
	times map[string]int
	gates map[string]chan struct{}
}

func (r *ran) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times = make(map[string]int)
	}
	r.times[key]++
}

func (r *ran) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[key]
}

// gate is closed by whoever lets the call with this key end.
func (r *ran) gate(key string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gates == nil {
		r.gates = make(map[string]chan struct{})
	}
	if r.gates[key] == nil {
		r.gates[key] = make(chan struct{})
	}
	return r.gates[key]
}

type in struct {
	Key   string `json:"key"`
	Text  string `json:"text,omitempty"`
	Order string `json:"order,omitempty"`
}

func tools() []*tool.Tool {
	upper := func(_ context.Context, in in) (string, error) {
		shared.ran.note(in.Key)
		return strings.ToUpper(in.Text), nil
	}
	return []*tool.Tool{
		tool.New("upper", upper, tool.Effect(messages.Idempotent)),
		tool.New("once", upper, tool.Effect(messages.Unsafe)),
		tool.New("elsewhere", upper, tool.Effect(messages.ReadOnly), tool.Queue("other")),
		tool.New("held", func(ctx context.Context, in in) (string, error) {
			shared.ran.note(in.Key)
			select {
			case <-shared.ran.gate(in.Key):
				return "let go", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}, tool.Effect(messages.ReadOnly)),
		tool.New("forbidden", func(context.Context, in) (string, error) {
			return "", errors.New("403 Forbidden: this account may not")
		}, tool.Effect(messages.ReadOnly)),
		tool.New("hangs", func(ctx context.Context, _ in) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, tool.Effect(messages.Unsafe), tool.Timeout(300*time.Millisecond)),
		tool.New("asks", func(_ context.Context, in in) (string, error) {
			if !strings.HasPrefix(in.Order, "ORD-100") {
				return "", fmt.Errorf("order %s not found; did you mean 'ORD-1001'?", in.Order)
			}
			return "refunded " + in.Order, nil
		}, tool.Effect(messages.Unsafe)),
		tool.New("leak", func(context.Context, in) (string, error) {
			return "", errors.New("refused: api_key=sk-abcdefghijklmnopqrstuvwxyz0123456789")
		}, tool.Effect(messages.ReadOnly)),
	}
}

// served is a gateway of one test, and how it is asked.
type served struct {
	t     *testing.T
	g     *Gateway
	url   string
	token string // what is shown; empty for nothing
	log   *noted
}

// noted is a log that may be read while it is written.
type noted struct {
	mu sync.Mutex
	b  strings.Builder
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *noted) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// logged is what the log says so far.
func (s *served) logged() string { return s.log.text() }

func serve(t *testing.T, change func(*Config)) *served {
	t.Helper()
	s := &served{t: t, log: &noted{}}
	cfg := Config{Address: "127.0.0.1:0", Broker: shared.broker, Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Started():
	case <-g.Stopped():
		t.Fatal(g.Err())
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := g.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.g, s.url = g, "http://"+g.Address()
	return s
}

// tokens makes tokens of a file's text.
func tokens(t *testing.T, text string) *Tokens {
	t.Helper()
	k, _, err := parseTokens([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *served) ask(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, string(b)}
	if method != http.MethodHead && method != http.MethodOptions {
		_, pattern := s.g.mux.Handler(req)
		described().check(s.t, strings.TrimPrefix(pattern, "/"), req, body, a)
		if a.status < 300 {
			shared.well.note(pattern)
		}
	}
	return a
}

// patience is how long a condition is waited for.
const patience = time.Minute

// until waits for a condition that others bring about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late, look := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
