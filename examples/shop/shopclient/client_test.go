package shopclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"mulligan/examples/shop/shopclient"
	"mulligan/internal/freeport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client of a shop that answers with handler.
func client(t *testing.T, handler http.HandlerFunc) *shopclient.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c := shopclient.New(server.URL + "/")
	t.Cleanup(c.Close)
	return c
}

func call(t *testing.T, c *shopclient.Client) (string, bool, error) {
	t.Helper()
	return c.Call(t.Context(), "r", "c", "", "retail/think", []byte(`{"thought": "<&>"}`))
}

func TestRequestAndAnswer(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		want := `{"run":"r","call":"c","tool":"retail/think","input":{"thought":"<&>"}}` + "\n"
		if err != nil || string(body) != want || r.URL.Path != "/call" || r.Method != http.MethodPost {
			t.Errorf("the request is %s %s %s (%v)", r.Method, r.URL, body, err)
		}
		io.WriteString(w, `{"output":"Error: é","is_error":true}`)
	})
	output, isError, err := call(t, c)
	if output != "Error: é" || !isError || err != nil {
		t.Errorf("got %q, %t, %v", output, isError, err)
	}
}

func TestEmptyOutputIsAnAnswer(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"output":"","is_error":false}`) })
	if output, isError, err := call(t, c); output != "" || isError || err != nil {
		t.Errorf("got %q, %t, %v", output, isError, err)
	}
}

func TestDefinite(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		after   string
		refused bool
		wait    time.Duration
		body    string
		text    string
	}{
		"429":           {429, "7", true, 7 * time.Second, `{"error":"slow"}`, "slow"},
		"429, no wait":  {429, "", true, 0, ``, "no reason given"},
		"429, odd wait": {429, "soon", true, 0, `{}`, "no reason given"},
		"429, past":     {429, "-1", true, 0, `{}`, ""},
		"429, ages":     {429, "99999999", true, 0, `{}`, ""},
		"503":           {503, "", true, 0, `{"error":"busy"}`, "busy"},
		"400":           {400, "", false, 0, `{"error":"field"}`, "field"},
		"413":           {413, "", false, 0, `{"error":"large"}`, "large"},
		"404, no JSON":  {404, "", false, 0, "404 page not found", "no reason given"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			_, _, err := call(t, cl)
			var refused *shopclient.RefusedError
			var rejected *shopclient.RejectedError
			switch {
			case c.refused && errors.As(err, &refused):
				if refused.Status != c.status || refused.RetryAfter != c.wait || !strings.Contains(refused.Error(), c.text) {
					t.Errorf("got %+v", refused)
				}
			case !c.refused && errors.As(err, &rejected):
				if rejected.Status != c.status || !strings.Contains(rejected.Error(), c.text) {
					t.Errorf("got %+v", rejected)
				}
			default:
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAmbiguous(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"outp`)
		},
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `hello`) },
		"no output": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"is_error":true}`) },
		"500":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"302":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(302) },
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"output":"`+strings.Repeat("x", 17<<20)+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := call(t, client(t, handler))
			var ambiguous *shopclient.AmbiguousError
			if !errors.As(err, &ambiguous) || strings.Contains(err.Error(), "http") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	entered := make(chan struct{})
	c := client(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		close(entered)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, _, err := c.Call(ctx, "r", "c", "k", "t", []byte(`{}`))
	var ambiguous *shopclient.AmbiguousError
	if !errors.As(err, &ambiguous) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What was never sent did nothing.
func TestNotReached(t *testing.T) {
	c := shopclient.New(fmt.Sprintf("http://127.0.0.1:%d", freeport.Get(t)))
	var refused *shopclient.RefusedError
	if _, _, err := call(t, c); !errors.As(err, &refused) || refused.Status != 0 {
		t.Errorf("nobody there: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Call(ended, "r", "c", "", "t", []byte(`{}`)); !errors.As(err, &refused) || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	var rejected *shopclient.RejectedError
	if _, _, err := c.Call(t.Context(), "r", "c", "", "t", []byte(`{`)); !errors.As(err, &rejected) || rejected.Status != 0 {
		t.Errorf("with no JSON: %v", err)
	}
}

func TestReadAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "addr")
	if _, err := shopclient.ReadAddress(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	for text, want := range map[string]string{"127.0.0.1:81\n": "http://127.0.0.1:81", "[::1]:9": "http://[::1]:9", "": "", "nonsense": ""} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := shopclient.ReadAddress(file); got != want || (err != nil) != (want == "") {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
}
