// Package modeltest is a model for tests: an endpoint of chat completions on the
// loopback interface that answers as a script tells it.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Request is what was asked.
type Request struct {
	N      int         `json:"-"` // from 0
	Path   string      `json:"-"`
	Header http.Header `json:"-"`
	Raw    string      `json:"-"` // the body

	Model       string   `json:"model"`
	MaxTokens   int      `json:"max_tokens"`
	MaxNew      int      `json:"max_completion_tokens"`
	Temperature *float64 `json:"temperature"`
	Messages    []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Format *struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// FormatType is how the answer is asked for, "" for any text.
func (r Request) FormatType() string {
	if r.Format == nil {
		return ""
	}
	return r.Format.Type
}

// User is the last message.
func (r Request) User() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Content
}

// Response is what is answered.
type Response struct {
	Status int // 0 means 200
	Header map[string]string
	Body   string
	Drop   bool            // the connection breaks in place of an answer
	Until  <-chan struct{} // the answer waits for this, or for the client to leave
}

// Says answers with a text, as a model does, and counts 100 tokens in, 20 out.
func Says(text string) Response {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always can be written
	}
	return Response{Body: fmt.Sprintf(`{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`, content)}
}

// Refuses answers with a status and an error in the form of OpenAI.
func Refuses(status int, message string) Response {
	b, err := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
	if err != nil {
		panic(err)
	}
	return Response{Status: status, Body: string(b)}
}

// Server is the endpoint.
type Server struct {
	*httptest.Server
	script func(Request) Response

	mu       sync.Mutex
	requests []Request
}

// Start serves until the test ends. The script may be called concurrently.
func Start(t testing.TB, script func(Request) Response) *Server {
	t.Helper()
	s := New(script)
	t.Cleanup(s.Close)
	return s
}

// New serves until Close.
func New(script func(Request) Response) *Server {
	s := &Server{script: script}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// BaseURL is what is configured.
func (s *Server) BaseURL() string { return s.URL + "/v1" }

// Requests are those so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) serve(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(io.LimitReader(hr.Body, 8<<20))
	if err != nil {
		return
	}
	r := Request{Path: hr.URL.Path, Header: hr.Header, Raw: string(body)}
	_ = json.Unmarshal(body, &r) // a request that is none has no fields
	s.mu.Lock()
	r.N = len(s.requests)
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	resp := s.script(r)
	if resp.Until != nil {
		select {
		case <-resp.Until:
		case <-hr.Context().Done():
			return
		}
	}
	if resp.Drop {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	for k, v := range resp.Header {
		w.Header().Set(k, v)
	}
	if resp.Status != 0 {
		w.WriteHeader(resp.Status)
	}
	_, _ = io.WriteString(w, resp.Body) // the client may have left
}
