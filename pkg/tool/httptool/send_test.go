package httptool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/httptool"
)

// TestMain has a proxy in the environment, of all tests, since net/http looks
// once.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "proxied %s", r.URL)
	}))
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		if err := os.Setenv(name, proxy.URL); err != nil {
			panic(err)
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy", "REQUEST_METHOD"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	proxy.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var loopback = []string{"127.0.0.1", "::1"}

// request makes the tool of r, which may dial the loopback interface.
func request(t *testing.T, effect messages.Effect, r httptool.Request) *tool.Tool {
	t.Helper()
	if r.AllowAddresses == nil {
		r.AllowAddresses = loopback
	}
	run, err := httptool.New("x", effect, r, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Raw("x", nil, run, tool.Effect(effect))
}

func execute(ctx context.Context, tl *tool.Tool, input string) tool.Execution {
	return tl.Execute(ctx, tool.Call{Key: "k1", Input: []byte(input)}, tool.Limits{Timeout: 5 * time.Minute, Grace: time.Minute})
}

func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// echo answers with what was asked: the line, some headers, the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s %s", r.Method, r.RequestURI)
	for _, name := range []string{"X-One", "Authorization", "Content-Type", "Idempotency-Key"} {
		if v := r.Header.Values(name); len(v) > 0 {
			fmt.Fprintf(w, "|%s=%s", name, strings.Join(v, "&"))
		}
	}
	fmt.Fprintf(w, "|%s", body)
}

func TestWhatIsSent(t *testing.T) {
	t.Setenv("TOKEN_OF_THE_TEST", "s3cret")
	url := serve(t, echo)
	type texts = map[string]string
	fields := httptool.Body{Mode: "fields", Fields: []string{"b", "a", "absent"}}
	for _, c := range []struct {
		r           httptool.Request
		input, want string
	}{
		{httptool.Request{URL: url}, `{"a": 1}`, "GET /|"},
		{httptool.Request{URL: url + "/a/{id}/b-{n}/"}, `{"id": "x y", "n": 7}`, "GET /a/x%20y/b-7/|"},
		{httptool.Request{URL: url + "/{id}"}, `{"id": "../../admin?all=1#f%2e"}`, "GET /..%2F..%2Fadmin%3Fall=1%23f%252e|"},
		{httptool.Request{URL: url + "/{id}"}, `{"id": "é;\\ \u0000{n}"}`, "GET /%C3%A9%3B%5C%20%00%7Bn%7D|"},
		{httptool.Request{URL: url + "/a%2Fb/{id}"}, `{"id": "..."}`, "GET /a%2Fb/...|"},
		{httptool.Request{URL: url + "/{id}"}, `{"id": 12345678901234567890}`, "GET /12345678901234567890|"},
		{httptool.Request{URL: url + "/{id}", Method: "DELETE"}, `{"id": true}`, "DELETE /true|"},
		{
			httptool.Request{URL: url, Query: texts{"q": "{q}", "fixed": "1 & 2", "tag": "{tags}", "none": "{no}", "null": "{null}", "empty": "{list}", "mixed": "from {no}"}},
			`{"q": "a&b=c d", "tags": ["x", 2, "ü"], "null": null, "list": []}`, "GET /?fixed=1+%26+2&q=a%26b%3Dc+d&tag=x&tag=2&tag=%C3%BC|",
		},
		{
			httptool.Request{URL: url, Headers: texts{"x-one": "<{a}>", "Authorization": "Bearer ${TOKEN_OF_THE_TEST}"}},
			`{"a": "${TOKEN_OF_THE_TEST}"}`, "GET /|X-One=<${TOKEN_OF_THE_TEST}>|Authorization=Bearer s3cret|",
		},
		{httptool.Request{URL: url, Headers: texts{"X-One": "{absent}"}}, `{}`, "GET /|"},
		{httptool.Request{URL: url, Method: "POST"}, `{"a":  1e2, "b": 9007199254740993}`, `POST /|Content-Type=application/json|{"a":  1e2, "b": 9007199254740993}`},
		{httptool.Request{URL: url, Method: "PUT", Body: fields}, `{"a": 9007199254740993, "b": [1], "c": 2}`, `PUT /|Content-Type=application/json|{"a":9007199254740993,"b":[1]}`},
		{httptool.Request{URL: url, Method: "DELETE", Body: fields, Headers: texts{"content-type": "application/merge-patch+json"}}, `{}`, `DELETE /|Content-Type=application/merge-patch+json|{}`},
		{httptool.Request{URL: url, Method: "POST", Body: httptool.Body{Mode: "none"}}, `{"a": 1}`, "POST /|"},
	} {
		e := execute(t.Context(), request(t, messages.ReadOnly, c.r), c.input)
		if e.Failure != nil || string(e.Output.Body) != c.want {
			t.Errorf("%+v of %s:\n got %s, %+v\nwant %s", c.r, c.input, e.Output.Body, e.Failure, c.want)
		}
	}
}

// S7.2: the key goes to whoever makes the effect happen once.
func TestS7_2_TheKeyIsSentWhereARepetitionMatters(t *testing.T) {
	url := serve(t, echo)
	for effect, want := range map[messages.Effect]string{
		messages.Keyed: "GET /|Idempotency-Key=k1|", messages.Idempotent: "GET /|Idempotency-Key=k1|", messages.Unsafe: "GET /|Idempotency-Key=k1|",
		messages.ReadOnly: "GET /|",
	} {
		if e := execute(t.Context(), request(t, effect, httptool.Request{URL: url}), `{}`); string(e.Output.Body) != want {
			t.Errorf("%s: %s, %+v", effect, e.Output.Body, e.Failure)
		}
	}
}

func TestArgumentsThatCannotBeSent(t *testing.T) {
	var asked atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	tl := request(t, messages.ReadOnly, httptool.Request{
		URL: url + "/{id}/{a}{b}", Query: map[string]string{"q": "{q}"}, Headers: map[string]string{"X-One": "{h}"},
	})
	for input, want := range map[string]string{
		`[]`:                                                               "the arguments are not a JSON object",
		`{"id": "x"}`:                                                      "the address needs a field that is not given: {a}{b}",
		`{"id": null, "a": 1, "b": 2}`:                                     "the address needs a field that is not given: {id}",
		`{"id": "", "a": 1, "b": 2}`:                                       `{id} gives "", which would lead to another address`,
		`{"id": "..", "a": 1, "b": 2}`:                                     `{id} gives "..", which would`,
		`{"id": "x", "a": ".", "b": "."}`:                                  `{a}{b} gives "..", which would`,
		`{"id": ["x"], "a": 1, "b": 2}`:                                    `field "id" is a list or an object`,
		`{"id": 1,"a":1,"b":2,"q": {}}`:                                    `field "q" is a list or an object`,
		`{"id": 1,"a":1,"b":2,"q": [1, [2]]}`:                              `item 1 of field "q" is a list or an object`,
		`{"id": 1,"a":1,"b":2,"h": "a\r\nb"}`:                              "{h} holds a line break",
		`{"id": "` + strings.Repeat("x", 9000) + `","a":1,"b":2}`:          "the limit is 8192",
		`{"id": 1,"a":1,"b":2,"h": "` + strings.Repeat("x", 9000) + `"}`:   "header X-One would have 9000 bytes",
		`{"id": 1,"a":1,"b":2,"q": ["` + strings.Repeat("x", 9000) + `"]}`: "the limit is 8192",
	} {
		f := execute(t.Context(), tl, input).Failure
		if f == nil || f.Code != messages.CodeInvalidArguments || !f.NotExecuted || !strings.Contains(f.Text, want) {
			t.Errorf("%.60s: %+v", input, f)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// hijacked answers each request by itself: over the bare connection.
func hijacked(t *testing.T, text string) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).SetLinger(0) // a reset
		_ = c.Close()
	})
}

// S7.3: whatever could have reached the server is ambiguous, and nothing else.
func TestS7_3_WithoutAnAnswerItIsAmbiguousOnceAConnectionWasMade(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(echo))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it complains of the client
	defer secure.Close()
	for _, c := range []struct {
		url       string
		code      messages.Code
		ambiguous bool
		nothing   bool
		text      string
	}{
		{closed, messages.CodeUnavailable, false, true, `Tool "x" could not send its request: dial tcp`},
		{secure.URL, messages.CodeToolError, false, false, "certificate"}, // that nobody vouches for
		{strings.Replace(serve(t, echo), "http:", "https:", 1), messages.CodeToolError, false, false, `Tool "x" could not send its request`},
		{hijacked(t, ""), messages.CodeConnectionLost, true, false, `Tool "x" lost the answer`},
		{hijacked(t, "HTTP/1.1 20"), messages.CodeConnectionLost, true, false, `Tool "x" lost the answer`},
		{hijacked(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), messages.CodeConnectionLost, true, false, `Tool "x" lost a part of the answer`},
		{hijacked(t, "SMTP ready\r\n"), messages.CodeConnectionLost, true, false, `Tool "x" lost the answer`},
		{hijacked(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<17)), messages.CodeConnectionLost, true, false, `Tool "x" lost the answer`},
		{hijacked(t, "HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\nabc"), messages.CodeToolError, false, false, "HTTP 403 Forbidden"},
	} {
		f := execute(t.Context(), request(t, messages.Unsafe, httptool.Request{URL: c.url, Method: "POST"}), `{"secret": 1}`).Failure
		if f == nil || f.Code != c.code || f.Ambiguous != c.ambiguous || f.NothingDone != c.nothing || !strings.Contains(f.Text, c.text) || strings.Contains(f.Text, "Post ") {
			t.Errorf("%s: %+v", c.url, f)
		}
	}
}

// The end of a call ends its request; what it has done by then nobody knows.
func TestS7_3_TheEndOfACallEndsItsRequest(t *testing.T) {
	for _, answer := range []string{"", "begun"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if answer != "" {
				_, _ = io.WriteString(w, answer)
				w.(http.Flusher).Flush()
			}
			cancel(&tool.Stop{Code: messages.CodeTimeout, Reason: "timed out after 1s"})
			<-r.Context().Done()
			close(ended)
		})
		f := execute(ctx, request(t, messages.Unsafe, httptool.Request{URL: url}), `{}`).Failure
		if f == nil || f.Code != messages.CodeTimeout || !f.Ambiguous || f.Text != "Tool 'x' timed out after 1s" {
			t.Errorf("%q: %+v", answer, f)
		}
		<-ended
	}
}

func TestS7_3_AnEndBeforeAConnectionIsDefinite(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&tool.Stop{Code: messages.CodeCancelled, Reason: "was cancelled"})
	_, err := request(t, messages.Unsafe, httptool.Request{URL: serve(t, echo)}).Run(ctx, tool.Call{Input: []byte(`{}`)})
	var f *tool.Failure
	if !errors.As(err, &f) || f.Ambiguous || f.Code != messages.CodeCancelled || f.Text != "Tool 'x' was cancelled" {
		t.Errorf("%+v, %v", f, err)
	}
}

// net/http sends a GET again if a connection that it used before turns out
// broken. An execution of an unsafe tool is one request.
func TestAnUnsafeRequestIsSentOnce(t *testing.T) {
	for effect, want := range map[messages.Effect]int64{messages.Unsafe: 2, messages.ReadOnly: 3} {
		var asked atomic.Int64
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go answerOnceEach(t.Context(), l, &asked)
		tl := request(t, effect, httptool.Request{URL: "http://" + l.Addr().String()})
		for range 2 {
			if e := execute(t.Context(), tl, `{}`); e.Failure != nil || string(e.Output.Body) != "hi" {
				t.Errorf("%s: %+v", effect, e.Failure)
			}
		}
		_ = l.Close()
		if n := asked.Load(); n != want {
			t.Errorf("%s: %d requests for 2 calls, want %d", effect, n, want)
		}
	}
}

// answerOnceEach answers the first request of a connection and closes it at the second.
func answerOnceEach(ctx context.Context, l net.Listener, asked *atomic.Int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			defer c.Close()
			in := bufio.NewReader(c)
			for answers := 0; ; answers++ {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				asked.Add(1)
				if answers == 1 {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi")
			}
		}()
	}
}

func TestAddressesAreCheckedWhenTheyAreDialled(t *testing.T) {
	var asked atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	away := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.2:"+port, http.StatusFound)
	})
	for _, r := range []httptool.Request{
		{URL: url, AllowAddresses: []string{"10.0.0.0/8"}},
		{URL: "http://localhost:" + port, AllowAddresses: []string{"10.0.0.0/8"}}, // a name that resolves to one
		{URL: "http://[::ffff:127.0.0.1]:" + port, AllowAddresses: []string{"10.0.0.0/8"}},
		{URL: "http://169.254.169.254"},
		{URL: away, Redirects: 1},
	} {
		f := execute(t.Context(), request(t, messages.ReadOnly, r), `{}`).Failure
		if f == nil || f.Ambiguous && r.Redirects == 0 || !strings.Contains(f.Text, "it is not a public address") || f.NothingDone {
			t.Errorf("%s: %+v", r.URL, f)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestRedirects(t *testing.T) {
	t.Setenv("TOKEN_OF_THE_TEST", "s3cret")
	other := serve(t, echo)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/far":
			http.Redirect(w, r, other+"/end", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		default:
			echo(w, r)
		}
	})
	secret := map[string]string{"X-One": "${TOKEN_OF_THE_TEST}"}
	for _, c := range []struct {
		path    string
		n       int
		headers map[string]string
		want    string // of a success
		text    string
	}{
		{"/near", 0, nil, "", "HTTP 302 Found: "},
		{"/near", 1, secret, "GET /end|X-One=s3cret|", ""},
		{"/far", 1, nil, "GET /end|", ""},
		{"/far", 1, secret, "", "HTTP 307 Temporary Redirect: "},
		{"/round", 3, nil, "", "HTTP 302 Found: "},
		{"/file", 3, nil, "", "HTTP 302 Found: it leads to file:///etc/passwd, which is not followed"},
	} {
		e := execute(t.Context(), request(t, messages.ReadOnly, httptool.Request{URL: url + c.path, Redirects: c.n, Headers: c.headers}), `{}`)
		if c.text == "" && (e.Failure != nil || string(e.Output.Body) != c.want) {
			t.Errorf("%s: %s, %+v", c.path, e.Output.Body, e.Failure)
		}
		if f := e.Failure; c.text != "" && (f == nil || f.Code != messages.CodeToolError || f.Ambiguous || !strings.HasPrefix(f.Text, c.text)) {
			t.Errorf("%s: %+v", c.path, f)
		}
	}
}

// The environment has a proxy, see TestMain.
func TestAProxyIsAskedOnlyIfDeclared(t *testing.T) {
	r := httptool.Request{URL: "http://192.0.2.1/a", Proxy: true} // nobody's address
	if e := execute(t.Context(), request(t, messages.ReadOnly, r), `{}`); string(e.Output.Body) != "proxied http://192.0.2.1/a" {
		t.Errorf("%s, %+v", e.Output.Body, e.Failure)
	}
	r = httptool.Request{URL: "http://10.0.0.1/a"}
	if f := execute(t.Context(), request(t, messages.ReadOnly, r), `{}`).Failure; f == nil || !strings.Contains(f.Text, "10.0.0.1: it is not a public address") {
		t.Errorf("without: %+v", f)
	}
	r = httptool.Request{URL: "http://192.0.2.1/a", Proxy: true, AllowAddresses: []string{"10.0.0.1"}}
	if f := execute(t.Context(), request(t, messages.ReadOnly, r), `{}`).Failure; f == nil || !strings.Contains(f.Text, "127.0.0.1: it is not a public address") {
		t.Errorf("a proxy of a private address: %+v", f)
	}
}
