package gateway

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"mulligan/internal/format"
	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
)

// What a request says is taken or refused in bounded time, by a text that can
// be shown; an answer to a question that is taken has all that it needs.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"answer":"edit","input":{"a":1},"reason":"x","dispatch":0}`), "wait=30, respond-async", "trip/42", "wait=5&format=mcp")
	f.Add([]byte(`{"role":"assistant","tool_calls":[{"id":"1"}]}`), `wait="x"`, "/019ca8bb-b5b0-7aaa-8b1c-0123456789ab", "limit=-1&lane=retry")
	f.Add([]byte("tokens: [{name: a, token: 0123456789012345678901}]"), "", "=trip=2F42", "run=%ff")
	f.Add([]byte("{\"answer\":\"\xff\"}"), "wait=99999999999999999999", "\xff", "order=done&order=input")
	g := &Gateway{cfg: Config{}.WithDefaults()}
	f.Fuzz(func(t *testing.T, body []byte, prefer, run, query string) {
		fuzztest.Bounded(t, len(body)+len(prefer)+len(run)+len(query), func() {
			r, err := answerRequest(body)
			told(t, err)
			if err == nil && (r.Kind == messages.AnswerEdit) != (r.Input != nil) {
				t.Fatalf("taken: %+v", r)
			}
			if k, _, err := parseTokens(body); err == nil && len(k.list) == 0 {
				t.Fatal("a file without a token is taken")
			}
			w := httptest.NewRecorder()
			req := httptest.NewRequest("POST", "/v1/tool_calls", nil)
			req.URL.RawQuery = query
			req.Header.Set("Prefer", prefer)
			req.SetPathValue("run", run)
			x := &exchange{g: g, w: w, r: req, who: anybody()}
			line, err := x.message(body, format.Auto)
			told(t, err)
			if err == nil && line.Format == "" {
				t.Fatal("a message without a format is taken")
			}
			want, err := x.wish(waitForTools)
			told(t, err)
			if err == nil && (want.wait < 0 || want.wait > g.cfg.Limits.Wait) {
				t.Fatalf("a wait of %s", want.wait)
			}
			named, err := x.run()
			told(t, err)
			if err == nil && (named.Check() != nil || strings.ContainsAny(string(named), ".*> ")) {
				t.Fatalf("run %q is taken as %q", run, named)
			}
			_, err = x.limit()
			told(t, err)
			_, err = x.format()
			told(t, err)
			told(t, x.parameters("wait", paramFormat))
			told(t, checkKey([]string{prefer}))
			if at := location(named, messages.NewCallID()); err == nil {
				if _, err := url.Parse(at); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// told fails unless an error is a problem that can be shown.
func told(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	fuzztest.Told(t, err)
	if p := problemOf(err); p.Status < 400 || p.Status > 499 || p.Code == codeInternal {
		t.Fatalf("%d %s: %v", p.Status, p.Code, err)
	}
}
