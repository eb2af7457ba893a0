package httptool

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"mulligan/internal/fuzztest"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// Whatever a declaration and the arguments of a call are: either is refused in
// a text of bounded size, or the request goes to the declared host, below the
// declared path, with as many segments, and can be written.
func FuzzDeclaration(f *testing.F) {
	for _, s := range [][2]string{
		{"{method: PUT, url: 'https://a.example:8/b/{c}/{d}-{e}', query: {f: '{f}'}, headers: {G: 'x {g}', H: '${H}'}, body: [c, f]}", `{"c": "../..", "d": 1, "e": true, "f": ["a", 2], "g": "x"}`},
		{"{url: 'http://a/{b}'}", `{"b": "."}`}, {"{url: 'http://a/{b}'}", `{"b": "%2e%2e/\\?#@"}`}, {"{url: 'http://[::1]/{b}{b}'}", `{"b": "."}`}, {"{url: 'http://a%41/'}", `{}`},
		{"{url: 'http://a/', headers: {A: '{b}'}}", `{"b": "\r\nX: y"}`}, {"{url: 'http://a/', query: {'': '{b}'}}", `{"b": [null, {}]}`}, {"{url: 'http://a//..//{b}/'}", `{"b": ""}`},
		{"{url: 'http://a', method: POST, body: none, status: {409: success}, allow_addresses: [10.0.0.0/8]}", `null`}, {"{url: 'http://a/${b}'}", `{}`}, {"{url: 'http://a/{{b}}'}", `{"b": 1}`},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, declaration, arguments []byte) {
		fuzztest.Bounded(t, len(declaration)+len(arguments), func() {
			var r Request
			if yaml.Unmarshal(declaration, &r) != nil {
				return
			}
			p, err := r.WithDefaults().compile(func(name string) (string, bool) { return name, true })
			if err != nil {
				return
			}
			checkRequest(t, p, arguments)
		})
	})
}

func checkRequest(t *testing.T, p *plan, arguments []byte) {
	t.Helper()
	request, err := newRunner("x", messages.Keyed, p, 100, net.Dialer{}).request(t.Context(), tool.Call{Key: "k", Input: arguments})
	if err != nil {
		if len(err.Error()) > 4*(len(p.URL)+len(arguments))+fuzztest.MaxError+maxLine {
			t.Fatalf("an error of %d bytes: %.300s", len(err.Error()), err)
		}
		return
	}
	fixed, err := url.Parse(p.origin)
	if err != nil || request.URL.Scheme != fixed.Scheme || request.URL.Host != fixed.Host || request.URL.User != nil || request.URL.Fragment != "" {
		t.Fatalf("%q leads to %s", p.URL, request.URL)
	}
	segments := strings.Split(request.URL.EscapedPath(), "/")[1:]
	if len(segments) != len(p.path) {
		t.Fatalf("%q has %d segments: %s", p.URL, len(segments), request.URL)
	}
	for i, s := range segments {
		if p.path[i].hasField() && (s == "" || s == "." || s == "..") {
			t.Fatalf("%q leads to %s", p.URL, request.URL)
		}
	}
	if request.Header.Get("Idempotency-Key") != "k" || request.Body != http.NoBody && !json.Valid(arguments) {
		t.Fatalf("%v of %s", request.Header, arguments)
	}
	if err := request.Write(new(bytes.Buffer)); err != nil {
		t.Fatalf("%q with %s cannot be written: %v", p.URL, arguments, err)
	}
}

// Whatever a server says, the text or output is in UTF-8, and the hint within bounds.
func FuzzAnswer(f *testing.F) {
	for _, s := range [][3]string{
		{"application/problem+json", `{"title": "t", "detail": "d", "more": [1]}`, "5"}, {"text/plain; charset=utf-16", "\xff\xfea\x00", "Fri, 31 Dec 1999 23:59:59 GMT"},
		{"image/png", "\x89", "-1"}, {"text/plain; charset=replacement", "x", "99999999999999999999"}, {"", "\xff", ""},
	} {
		f.Add(s[0], []byte(s[1]), s[2])
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte, after string) {
		fuzztest.Bounded(t, len(kind)+len(body), func() {
			for _, text := range []string{string(content(kind, body)), words(kind, body)} {
				if strings.ToValidUTF8(text, "") != text || len(text) > 8*len(body)+1024 {
					t.Fatalf("%q of %s gives %q", body, kind, text)
				}
			}
			if d := RetryAfter(http.Header{"Retry-After": {after}}, time.Unix(0, 0)); d < 0 || d > maxWait {
				t.Fatalf("%q is %v", after, d)
			}
		})
	})
}
