package mcptool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/mcptool"
)

// hosted is an MCP server behind HTTP, whose calls of tools a test can answer itself.
type hosted struct {
	*httptest.Server
	// instead answers a call of a tool, and says whether it did.
	instead atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	tokens  atomic.Int64 // requests without the right header
}

func host(t *testing.T, sse bool) *hosted {
	t.Helper()
	stop := make(chan struct{})
	server := good(stop)
	give := func(*http.Request) *mcp.Server { return server }
	var next http.Handler = mcp.NewStreamableHTTPHandler(give, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	if sse {
		next = mcp.NewSSEHandler(give, nil)
	}
	h := &hosted{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-server" {
			h.tokens.Add(1)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f := h.instead.Load(); f != nil && bytes.Contains(body, []byte(`"tools/call"`)) && (*f)(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(stop)
		h.CloseClientConnections()
		h.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return h
}

func (h *hosted) answer(f func(w http.ResponseWriter, r *http.Request) bool) { h.instead.Store(&f) }

func (h *hosted) config(change ...func(*mcptool.Config)) mcptool.Config {
	c := mcptool.Config{Name: "hosted", URL: h.URL, Prefix: new(""), Headers: map[string]string{"Authorization": "Bearer of-the-server"}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestServersOverHTTP(t *testing.T) {
	for name, sse := range map[string]bool{"streamable": false, "sse": true} {
		t.Run(name, func(t *testing.T) {
			h := host(t, sse)
			r := start(t, h.config(func(c *mcptool.Config) { c.SSE = sse }))
			if out := r.well("echo", `{"text":"hello"}`); out != "hello" {
				t.Errorf("%q", out)
			}
			if out := r.well("typed", `{"text":"x"}`); !strings.Contains(out, `"structuredContent":{"text":"x"}`) {
				t.Errorf("%s", out)
			}
			if out := r.well("key", `{}`); out != "the-key" {
				t.Errorf("%q", out)
			}
			if f := r.call("fail", `{"text":"no"}`).Failure; f == nil || f.Ambiguous || f.Text != "no" {
				t.Errorf("%+v", f)
			}
			r.well("change", `{"text":"fresh"}`)
			r.until("with fresh", func(names []string) bool { return slices.Contains(names, "fresh") })
			f := r.callWithin(t.Context(), "wait", `{"text":""}`, 500*time.Millisecond).Failure
			if f == nil || f.Code != messages.CodeTimeout || !f.Ambiguous {
				t.Errorf("%+v", f)
			}
			if n := h.tokens.Load(); n != 0 {
				t.Errorf("%d requests without the header", n)
			}
		})
	}
}

func TestS7_3_WhatHTTPSaysOfACall(t *testing.T) {
	h := host(t, false)
	r := start(t, h.config())
	for status, want := range map[int]tool.Failure{
		http.StatusTooManyRequests:     {Code: messages.CodeRateLimited, NothingDone: true, RetryAfter: 3 * time.Second},
		http.StatusServiceUnavailable:  {Code: messages.CodeUnavailable, NothingDone: true, RetryAfter: 3 * time.Second},
		http.StatusInternalServerError: {Code: messages.CodeToolError, Ambiguous: true},
		http.StatusForbidden:           {Code: messages.CodeToolError},
		http.StatusTemporaryRedirect:   {Code: messages.CodeToolError},
	} {
		h.answer(func(http.ResponseWriter, *http.Request) bool { return false })
		if e := r.again("echo", `{"text":"well"}`); e.Failure != nil { // it may have been connected to again
			t.Fatalf("%+v", e.Failure)
		}
		h.answer(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "3")
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.WriteHeader(status)
			return true
		})
		f := r.call("echo", `{"text":"x"}`).Failure
		if f == nil || f.Code != want.Code || f.Ambiguous != want.Ambiguous || f.NothingDone != want.NothingDone || want.RetryAfter != 0 && f.RetryAfter != want.RetryAfter {
			t.Errorf("%d: %+v", status, f)
		}
	}
	h.answer(func(http.ResponseWriter, *http.Request) bool { return false })
	if e := r.again("echo", `{"text":"back"}`); e.Failure != nil || string(e.Output.Body) != "back" {
		t.Errorf("%+v", e)
	}
}

func TestS7_3_AnAnswerThatIsLostOnTheWayIsAmbiguous(t *testing.T) {
	h := host(t, false)
	r := start(t, h.config())
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"the connection breaks": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"the stream ends": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			return true
		},
		"it is no message": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[[[")
			return true
		},
		"it never ends": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			piece := bytes.Repeat([]byte(" "), 1<<20)
			for {
				if _, err := w.Write(piece); err != nil {
					return true
				}
			}
		},
	} {
		h.answer(answer)
		f := r.again("echo", `{"text":"x"}`).Failure
		if f == nil || f.Code != messages.CodeConnectionLost || !f.Ambiguous {
			t.Errorf("%s: %+v", name, f)
		}
	}
	h.answer(func(http.ResponseWriter, *http.Request) bool { return false })
	if e := r.again("echo", `{"text":"back"}`); e.Failure != nil {
		t.Errorf("%+v", e.Failure)
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	h := host(t, false)
	r := start(t, h.config())
	h.CloseClientConnections()
	h.Close()
	if f := r.call("echo", `{"text":"x"}`).Failure; f == nil || f.Code != messages.CodeUnavailable || f.Ambiguous || !f.NothingDone {
		t.Errorf("%+v", f)
	}
}

func TestAServerThatForgotTheSessionIsConnectedToAgain(t *testing.T) {
	h := host(t, false)
	r := start(t, h.config())
	once := false
	h.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		if once {
			return false
		}
		once = true
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	if f := r.call("echo", `{"text":"x"}`).Failure; f == nil || f.Ambiguous {
		t.Errorf("%+v", f)
	}
	if e := r.again("echo", `{"text":"back"}`); e.Failure != nil {
		t.Errorf("%+v", e.Failure)
	}
}

// A server of the older transport says where requests go.
func TestHeadersStayOnTheirHost(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", elsewhere.URL)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	r := start(t, mcptool.Config{Name: "lead", URL: h.URL, SSE: true, Headers: map[string]string{"Authorization": "Bearer abcdefgh"}, StartTimeout: 5 * time.Second})
	r.has("another host")
	if asked.Load() != 0 {
		t.Error("the other host was asked")
	}
}

// Raw results reach the caller byte for byte, numbers that no float holds among them.
func TestResultsAreKeptByteForByte(t *testing.T) {
	const result = `{"content": [{"type":"text","text":"n"}, {"type":"of the future","n":1}],"structuredContent":{"n":12345678901234567890.10}}`
	h := host(t, false)
	r := start(t, h.config())
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		return true
	})
	if out := r.well("echo", `{"text":"x"}`); out != result {
		t.Errorf("%s", out)
	}
}
