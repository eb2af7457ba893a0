package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/messages"
)

// raw sends bytes as they are and reads the answer.
func (s *served) raw(t *testing.T, request string, then func(net.Conn)) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.g.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if then != nil {
		then(conn)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestHostileRequests(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Body, c.Limits.Batch = 1<<16, 1<<16 })
	deep := strings.Repeat("[", 30000) + strings.Repeat("]", 30000)
	long := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     messages.Code
	}{
		{"nothing there", "GET", "/v1/nothing", "", nil, 404, codeNoSuchPath},
		{"root", "GET", "/", "", nil, 404, codeNoSuchPath},
		{"wrong method", "DELETE", "/v1/calls", "", nil, 405, codeBadMethod},
		{"wrong method of a path with names", "PUT", "/v1/calls/r/x", "", nil, 405, codeBadMethod},
		{"a method of one's own", "BREW", "/v1/tools", "", nil, 405, codeBadMethod},
		{"no media type", "POST", "/v1/calls", "{}", []string{"Content-Type", ""}, 415, codeBadType},
		{"a form", "POST", "/v1/calls", "{}", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, codeBadType},
		{"nothing", "POST", "/v1/calls", " ", nil, 400, messages.CodeBadCall},
		{"a list", "POST", "/v1/calls", "[]", nil, 400, messages.CodeBadCall},
		{"no UTF-8", "POST", "/v1/calls", `{"tool":"` + "\xff" + `"}`, nil, 400, messages.CodeBadCall},
		{"half a pair", "POST", "/v1/calls", `{"tool":"\ud800","input":{}}`, nil, 400, messages.CodeBadCall},
		{"twice", "POST", "/v1/calls", `{"tool":"upper","tool":"once","input":{}}`, nil, 400, messages.CodeBadCall},
		{"deep", "POST", "/v1/calls", deep, nil, 400, messages.CodeBadCall},
		{"deep message", "POST", "/v1/tool_calls", deep, nil, 400, codeBroken},
		{"deep answer", "POST", "/v1/inbox/r/" + messages.NewCallID() + "/answer", deep, nil, 400, codeBroken},
		{"too large", "POST", "/v1/calls", `{"tool":"upper","input":"` + long + `"}`, nil, 413, messages.CodeTooLarge},
		{"too large a batch", "POST", "/v1/batches", `{"tool":"upper","input":"` + long + `"}`, nil, 413, messages.CodeTooLarge},
		{"too large a message", "POST", "/v1/tool_calls", long + long, nil, 413, messages.CodeTooLarge},
		{"a run of no text", "GET", "/v1/runs/%ff/results", "", nil, 400, codeBadParameter},
		{"a run that is too long", "GET", "/v1/runs/" + strings.Repeat("r", 600) + "/results", "", nil, 400, codeBadParameter},
		{"a path that climbs", "GET", "/v1/calls/..%2f..%2fetc/" + messages.NewCallID(), "", nil, 404, messages.CodeNotFound},
		{"another event", "GET", "/v1/runs/r/results", "", []string{"Accept", typeEvents, headerLastEvent, "-1"}, 400, codeBadParameter},
		{"another site", "POST", "/v1/calls", "{}", []string{"Origin", "https://example.org"}, 403, codeCrossOrigin},
		{"another site, as browsers say it", "POST", "/v1/calls", "{}", []string{"Sec-Fetch-Site", "cross-site"}, 403, codeCrossOrigin},
		{"another name of this machine", "GET", "/v1/tools", "", []string{"Host", "rebound.example.org"}, 403, codeForeignHost},
		{"lane", "POST", "/v1/batches?lane=retry", lines(1, "hostile"), nil, 400, codeBadParameter},
		{"limit", "GET", "/v1/inbox?limit=1000000", "", nil, 400, codeBadParameter},
		{"key", "POST", "/v1/calls", `{"tool":"upper","input":{"key":"x"}}`, []string{headerKey, "\u00e9"}, 400, codeBadParameter},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.ask(c.method, c.path, c.body, c.headers...)
			p := problemIn(t, a, c.status, c.code)
			if len(a.body) > 4096 {
				t.Errorf("an answer of %d bytes", len(a.body))
			}
			if c.status == 405 && (a.header.Get("Allow") == "" || strings.Contains(p.Detail, "BREW")) {
				t.Errorf("allow %q: %s", a.header.Get("Allow"), p.Detail)
			}
		})
	}
	if shared.ran.count("hostile-0") != 0 {
		t.Error("a call ran")
	}
	if a := s.ask("HEAD", "/v1/health", ""); a.status != 200 || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := s.ask("GET", "/v1/health", "", headerRequestID, "mine-1"); a.header.Get(headerRequestID) != "mine-1" {
		t.Errorf("request %q", a.header.Get(headerRequestID))
	}
	if a := s.ask("GET", "/v1/health", "", headerRequestID, "not mine"); a.header.Get(headerRequestID) == "not mine" {
		t.Error("a request id of any form is taken")
	}
	if a := s.ask("OPTIONS", "/v1/calls", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST"); a.header.Get("Access-Control-Allow-Origin") != "" || a.status != 405 {
		t.Errorf("a page of another site is let in: %d %v", a.status, a.header)
	}
}

// A body that says no length is held to the limit too, and one that stops
// coming, or ends early, is given up.
func TestBodiesThatDoNotCome(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Body, c.Limits.Stall = 1<<16, 300*time.Millisecond })
	head := "POST /v1/calls HTTP/1.1\r\nHost: " + s.g.Address() + "\r\nContent-Type: application/json\r\n"
	resp := s.raw(t, head+"Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) {
		for range 3 {
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", 1<<15, strings.Repeat("x", 1<<15)) // it may be cut off
		}
	})
	if resp.StatusCode != 413 {
		t.Errorf("chunked: %d", resp.StatusCode)
	}
	if resp := s.raw(t, strings.Replace(head, "/calls", "/nothing", 1)+"Content-Length: 100\r\n\r\n{", nil); resp.StatusCode != 404 {
		t.Errorf("stalled, and not wanted: %d", resp.StatusCode)
	}
	if resp := s.raw(t, head+"Content-Length: 100\r\n\r\n{", nil); resp.StatusCode != 408 {
		t.Errorf("stalled: %d", resp.StatusCode)
	}
	resp = s.raw(t, head+"Content-Length: 100\r\n\r\n{", func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() })
	if resp.StatusCode != 400 {
		t.Errorf("half closed: %d", resp.StatusCode)
	}
	if resp := s.raw(t, "GET /v1/health HTTP/1.1\r\nHost: "+s.g.Address()+"\r\nX: "+strings.Repeat("x", 2*maxHeaders)+"\r\n\r\n", nil); resp.StatusCode != 431 {
		t.Errorf("headers: %d", resp.StatusCode)
	}
}

// A wait longer than the time that a body may stall is waited out: the deadline
// of reading went with the body.
func TestAWaitIsLongerThanAStall(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Stall = 200 * time.Millisecond })
	done := make(chan answer)
	go func() { done <- s.ask("POST", "/v1/calls?wait=60", `{"tool":"held","input":{"key":"stall"}}`) }()
	until(t, "the tool runs", func() bool { return shared.ran.count("stall") > 0 })
	select {
	case <-time.After(3 * 200 * time.Millisecond):
	case a := <-done:
		t.Fatalf("%d %s", a.status, a.body)
	}
	close(shared.ran.gate("stall"))
	if a := <-done; a.status != 200 || !strings.Contains(a.body, "let go") {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// Who does not read what it asked for is cut off, and holds nobody up.
func TestAReaderThatDoesNotRead(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Stall, c.Limits.Grace = time.Second, time.Millisecond })
	big := strings.Repeat("x", 1<<20)
	var b strings.Builder
	for range 24 {
		fmt.Fprintf(&b, `{"tool":"upper","input":{"key":"big","text":"%s"}}`+"\n", big)
	}
	sent := false
	for n := 0; n < 20 && !sent; n++ { // on a busy machine the sending may count as stalled, too
		conn, err := net.Dial("tcp", s.g.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /v1/batches HTTP/1.1\r\nHost: %s\r\nContent-Type: application/jsonl\r\nContent-Length: %d\r\n\r\n%s", s.g.Address(), b.Len(), b.String())
		sent = err == nil
	}
	until(t, "a request that was taken in has ended", func() bool { return strings.Contains(s.logged(), "route=\"POST /v1/batches\" status=200") })
}

// When the gateway stops, those that wait for results are told where they will
// be, and those that can end do: nobody gets an error, and no goroutine stays.
func TestStopUnderLoad(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Grace = 300 * time.Millisecond })
	var waiting sync.WaitGroup
	states := make(chan string, 100)
	note := func(a answer) { states <- fmt.Sprintf("%d %s", a.status, a.header.Get("Location")) }
	for i := range 16 {
		waiting.Go(func() {
			note(s.ask("POST", "/v1/calls?wait=60", fmt.Sprintf(`{"tool":"held","run":"stop","input":{"key":"stop-%d"}}`, i)))
		})
	}
	waiting.Go(func() {
		a := s.ask("POST", "/v1/batches", `{"tool":"upper","input":{"key":"stop","text":"x"}}`+"\n"+`{"tool":"held","run":"stop","input":{"key":"stop-b"}}`+"\n")
		if got := strings.Split(strings.TrimSpace(a.body), "\n"); len(got) != 2 || decode[problem](t, got[1]).Code != codeNotFinished {
			t.Errorf("batch: %s", a.body)
		}
	})
	waiting.Go(func() {
		a := s.ask("GET", "/v1/runs/stop/results", "", "Accept", typeEvents)
		if a.status != 200 {
			t.Errorf("events: %d %s", a.status, a.body)
		}
	})
	until(t, "all run", func() bool {
		for i := range 16 {
			if shared.ran.count(fmt.Sprintf("stop-%d", i)) == 0 {
				return false
			}
		}
		return shared.ran.count("stop-b") > 0
	})
	if err := s.g.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	close(states)
	n := 0
	for state := range states {
		if n++; !strings.HasPrefix(state, "202 /v1/calls/stop/") {
			t.Errorf("%s", state)
		}
	}
	if n != 16 {
		t.Errorf("%d of 16 were answered", n)
	}
	other := serve(t, nil)
	other.ask("POST", "/v1/runs/stop/cancel", "")
	until(t, "the calls end", func() bool { return strings.Count(other.ask("GET", "/v1/runs/stop/results", "").body, "\n") == 17 })
}
