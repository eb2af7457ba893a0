package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"mulligan/examples/shop/faults"
	"mulligan/examples/shop/serve"
	"mulligan/examples/shop/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a shop that counts what it executes.
type stub struct {
	mu    sync.Mutex
	seen  []tools.Request
	fails error
	// hold, if set, keeps each execution until it is closed.
	hold    chan struct{}
	entered chan struct{}
}

func (s *stub) Do(r tools.Request) (tools.Answer, error) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	if s.entered != nil {
		s.entered <- struct{}{}
	}
	if s.hold != nil {
		<-s.hold
	}
	return tools.Answer{Output: "Error: <no>", IsError: true}, s.fails
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// fate is what always happens.
type fate faults.Kind

func (f fate) Next(string) (faults.Kind, error) {
	if f == "broken" {
		return faults.None, faults.ErrTooManyCalls
	}
	return faults.Kind(f), nil
}

func newServer(t *testing.T, config serve.Config, shop serve.Executor, fates serve.Fates) *serve.Server {
	t.Helper()
	s, err := serve.New(config, shop, fates, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func handle(t *testing.T, config serve.Config, shop serve.Executor, fates serve.Fates) string {
	t.Helper()
	server := httptest.NewServer(newServer(t, config, shop, fates).Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// post sends a body on a connection of its own.
func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url+"/call", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

const good = `{"run":"r","call":"c","key":"k","tool":"retail/think","input":{"thought":"<>"}}`

func TestAnswer(t *testing.T) {
	shop := &stub{}
	response, body, err := post(t, handle(t, serve.Config{}, shop, fate(faults.None)), good)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	var answer serve.Answer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer != (serve.Answer{Output: "Error: <no>", IsError: true}) {
		t.Errorf("the answer is %s", body)
	}
	want := tools.Request{Run: "r", Call: "c", Key: "k", Tool: "retail/think", Input: []byte(`{"thought":"<>"}`)}
	got := shop.seen[0]
	if got.Run != want.Run || got.Call != want.Call || got.Key != want.Key || got.Tool != want.Tool || !bytes.Equal(got.Input, want.Input) {
		t.Errorf("the shop was asked %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, c := range map[string]struct {
		body   string
		fate   faults.Kind
		fails  error
		status int
		want   string
		after  string
	}{
		"no JSON":       {body: `{`, status: 400, want: "the body is no request"},
		"wrong type":    {body: `{"run":1}`, status: 400, want: "the body is no request"},
		"no run":        {body: `{"call":"c","tool":"t","input":{}}`, status: 400, want: `field "run" is missing`},
		"no call":       {body: `{"run":"r","tool":"t","input":{}}`, status: 400, want: `field "call" is missing`},
		"no tool":       {body: `{"run":"r","call":"c","input":{}}`, status: 400, want: `field "tool" is missing`},
		"no input":      {body: `{"run":"r","call":"c","tool":"t"}`, status: 400, want: `field "input" is missing`},
		"long run":      {body: `{"run":"` + long + `","call":"c","tool":"t","input":{}}`, status: 400, want: `field "run" has 1025 bytes`},
		"too large":     {body: `{"run":"` + strings.Repeat("x", 5000) + `"}`, status: 413, want: "more than 4096 bytes"},
		"shop fails":    {body: good, fails: errors.New("too many runs"), status: 503, want: "too many runs"},
		"fates fail":    {body: good, fate: "broken", status: 503, want: "too many calls"},
		"rate-limited":  {body: good, fate: faults.RateLimited, status: 429, want: "too many requests", after: "3"},
		"not available": {body: good, fate: faults.Unavailable, status: 503, want: "not available"},
	} {
		t.Run(name, func(t *testing.T) {
			shop := &stub{fails: c.fails}
			config := serve.Config{MaxBody: 4096, FaultRetryAfter: 3 * time.Second}
			response, body, err := post(t, handle(t, config, shop, fate(c.fate)), c.body)
			if err != nil {
				t.Fatal(err)
			}
			var refusal serve.Refusal
			if err := json.Unmarshal([]byte(body), &refusal); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if response.StatusCode != c.status || !strings.Contains(refusal.Error, c.want) {
				t.Errorf("got %d %s, want %d with %q", response.StatusCode, body, c.status, c.want)
			}
			if got := response.Header.Get("Retry-After"); got != c.after {
				t.Errorf("Retry-After is %q, want %q", got, c.after)
			}
			if c.fails == nil && shop.count() != 0 {
				t.Error("the tool was executed all the same")
			}
		})
	}
}

func TestOtherRoutes(t *testing.T) {
	url := handle(t, serve.Config{}, &stub{}, fate(faults.None))
	for path, want := range map[string]int{"/healthz": 200, "/call": 405, "/": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("GET %s gives %d, want %d", path, response.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestStoreRace(t *testing.T) {
	shop := &stub{}
	_, body, err := post(t, handle(t, serve.Config{}, shop, fate(faults.StoreRace)), good)
	want := `{"output":"Error: Error executing tool think: Expecting property name enclosed in double quotes: line 35300 column 11 (char 874600)","is_error":true}` + "\n"
	if err != nil || body != want || shop.count() != 0 {
		t.Errorf("got %s, %v after %d executions", body, err, shop.count())
	}
}

func TestLostAnswers(t *testing.T) {
	for kind, executed := range map[faults.Kind]int{faults.TimeOut: 0, faults.Silent: 1, faults.Dropped: 1} {
		shop := &stub{}
		response, _, err := post(t, handle(t, serve.Config{FaultTimeout: time.Millisecond}, shop, fate(kind)), good)
		if err == nil {
			t.Errorf("%s: there is an answer, %d", kind, response.StatusCode)
		}
		if shop.count() != executed {
			t.Errorf("%s: %d executions, want %d", kind, shop.count(), executed)
		}
	}
}

// An execution that hangs by a fault ends with its client's patience.
func TestHangEndsWithClient(t *testing.T) {
	hangs := newServer(t, serve.Config{FaultTimeout: time.Hour}, &stub{}, fate(faults.TimeOut)).Handler()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		cancel()
		hangs.ServeHTTP(w, r)
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/call", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(request); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	<-ended
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config serve.Config
		want   string
	}{
		"defaults":     {serve.Config{}, ""},
		"body":         {serve.Config{MaxBody: -1}, "MaxBody"},
		"time-out":     {serve.Config{FaultTimeout: -1}, "FaultTimeout"},
		"retry after":  {serve.Config{FaultRetryAfter: 1500 * time.Millisecond}, "FaultRetryAfter"},
		"retry sooner": {serve.Config{FaultRetryAfter: time.Millisecond}, "FaultRetryAfter"},
		"grace":        {serve.Config{Grace: -1}, "Grace"},
	} {
		_, err := serve.New(c.config, &stub{}, fate(""), slog.Default())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// serving starts a server and returns its URL, its end and its result.
func serving(t *testing.T, s *serve.Server) (url string, stop func(), result chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	result = make(chan error, 1)
	go func() { result <- s.Serve(ctx, listener) }()
	return "http://" + listener.Addr().String(), cancel, result
}

// A running execution gets its answer out before the server ends.
func TestStopWaitsForExecutions(t *testing.T) {
	shop := &stub{hold: make(chan struct{}), entered: make(chan struct{}, 1)}
	url, stop, result := serving(t, newServer(t, serve.Config{Grace: time.Minute}, shop, fate(faults.None)))
	answered := make(chan error, 1)
	go func() {
		_, body, err := post(t, url, good)
		if err == nil && !strings.Contains(body, "Error: <no>") {
			err = errors.New(body)
		}
		answered <- err
	}()
	<-shop.entered
	stop()
	close(shop.hold)
	if err := <-answered; err != nil {
		t.Errorf("the running execution got %v", err)
	}
	if err := <-result; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, _, err := post(t, url, good); err == nil {
		t.Error("a stopped server answers")
	}
}

// An execution that hangs by a fault does not hold up the end.
func TestStopEndsHangs(t *testing.T) {
	shop := &stub{entered: make(chan struct{}, 1)}
	url, stop, result := serving(t, newServer(t, serve.Config{FaultTimeout: time.Hour, Grace: time.Minute}, shop, fate(faults.Silent)))
	answered := make(chan error, 1)
	go func() {
		_, _, err := post(t, url, good)
		answered <- err
	}()
	<-shop.entered
	stop()
	if err := <-answered; err == nil {
		t.Error("a lost answer arrived")
	}
	if err := <-result; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestStopSaysWhatItCutOff(t *testing.T) {
	shop := &stub{hold: make(chan struct{}), entered: make(chan struct{}, 1)}
	url, stop, result := serving(t, newServer(t, serve.Config{Grace: time.Millisecond}, shop, fate(faults.None)))
	answered := make(chan error, 1)
	go func() {
		_, _, err := post(t, url, good)
		answered <- err
	}()
	<-shop.entered
	stop()
	if err := <-result; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server ended with %v", err)
	}
	if err := <-answered; err == nil {
		t.Error("an answer came from a server that was closed")
	}
	close(shop.hold)
}

func TestServeReportsFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := newServer(t, serve.Config{}, &stub{}, fate("")).Serve(t.Context(), listener); err == nil {
		t.Error("serving on a closed listener gives no error")
	}
}
