package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// orders FILE starts an API of orders on the loopback interface, and writes
// the tools of examples/http-tools.yaml with its address to FILE.
func orders(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: orders FILE")
	}
	s := httptest.NewServer(ordersAPI())
	ts.Defer(s.Close)
	b, err := os.ReadFile(examplesOfHTTP)
	ts.Check(err)
	const written = "http://127.0.0.1:8750/"
	if !strings.Contains(string(b), written) {
		ts.Fatalf("%s does not name %s", examplesOfHTTP, written)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(string(b), written, s.URL+"/")), 0o600))
}

// ordersAPI knows one order, which is locked for the first who changes it.
func ordersAPI() http.Handler {
	var changes atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("order") != "W 1/2" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"title": "No such order", "detail": "Nobody ordered %s."}`, r.PathValue("order"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"pending"}`)
	})
	mux.HandleFunc("PATCH /orders/{order}", func(w http.ResponseWriter, r *http.Request) {
		if changes.Add(1) == 1 {
			w.WriteHeader(http.StatusLocked)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s, with a key: %t, sent: %s", r.URL.RawQuery, r.Header.Get("Idempotency-Key") != "", body)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-test" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var examplesOfHTTP = func() string {
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", "http-tools.yaml"))
	if err != nil {
		panic(err)
	}
	return path
}()
