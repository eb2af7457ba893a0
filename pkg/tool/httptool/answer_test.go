package httptool_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/declared"
	"mulligan/pkg/tool/httptool"
)

// S6.1: the status decides, never what the body says.
func TestS6_1_TheStatusDecides(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error": "said"}`)
	})
	definite := tool.Failure{Code: messages.CodeToolError}
	ambiguous := tool.Failure{Code: messages.CodeToolError, Ambiguous: true}
	invalid := tool.Failure{Code: messages.CodeInvalidArguments, NotExecuted: true}
	unavailable := tool.Failure{Code: messages.CodeUnavailable, NothingDone: true}
	limited := tool.Failure{Code: messages.CodeRateLimited, NothingDone: true}
	declaredRules := map[int]declared.Rule{
		409: {Outcome: declared.Ambiguous}, 404: {Outcome: declared.Success}, 202: {Outcome: declared.Unavailable, After: time.Second},
		500: {Outcome: declared.RetryAfter, After: 2 * time.Second, NothingDone: true},
	}
	for code, want := range map[int]tool.Failure{
		200: {}, 201: {}, 202: {}, 299: {}, 300: definite, 400: invalid, 401: definite, 403: definite, 404: definite, 405: definite, 408: unavailable, 409: definite, 410: definite,
		413: definite, 422: invalid, 423: definite, 425: unavailable, 429: limited, 500: ambiguous, 501: definite, 502: ambiguous, 503: unavailable, 504: ambiguous, 505: definite, 599: ambiguous,
		-404: {}, -409: ambiguous, -202: {Code: messages.CodeUnavailable, NothingDone: true, RetryAfter: time.Second},
		-500: {Code: messages.CodeToolError, NothingDone: true, RetryAfter: 2 * time.Second}, -403: definite,
	} {
		r := httptool.Request{URL: url + "/{code}"}
		if code < 0 {
			code, r.Status = -code, declaredRules
		}
		e := execute(t.Context(), request(t, messages.Keyed, r), fmt.Sprintf(`{"code": %d}`, code))
		if want.Code == "" {
			if e.Failure != nil || string(e.Output.Body) != `{"error": "said"}` {
				t.Errorf("%d: %s, %+v", code, e.Output.Body, e.Failure)
			}
			continue
		}
		want.Text = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", code, http.StatusText(code))) + `: {"error": "said"}`
		got := e.Failure
		if got == nil || got.Code != want.Code || got.Text != want.Text || got.Ambiguous != want.Ambiguous || got.NotExecuted != want.NotExecuted ||
			got.NothingDone != want.NothingDone || got.RetryAfter != want.RetryAfter {
			t.Errorf("%d:\n got %+v\nwant %+v", code, got, want)
		}
	}
}

func TestS6_2_RetryAfterIsPassedOn(t *testing.T) {
	date := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		status      int
		after, date string
		want        time.Duration
		nothing     bool
	}{
		{429, "7", "", 7 * time.Second, true},
		{503, " 120 ", "", 2 * time.Minute, true},
		{503, date.Add(90 * time.Second).Format(http.TimeFormat), date.Format(http.TimeFormat), 90 * time.Second, true},
		{503, date.Add(-time.Second).Format(http.TimeFormat), date.Format(http.TimeFormat), 0, true},
		{503, "9999999999999999999999", "", 24 * time.Hour, true},
		{503, "Fri, 31 Dec 9999 23:59:59 GMT", "", 24 * time.Hour, true},
		{503, "-5", "", 0, true},
		{503, "soon", "", 0, true},
		{409, "3", "", 3 * time.Second, false},
		{500, "4", "", 4 * time.Second, false},
		{400, "4", "", 0, false}, // the arguments are wrong, and will be then
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.after)
			if c.date != "" {
				w.Header().Set("Date", c.date)
			}
			w.WriteHeader(c.status)
		})
		f := execute(t.Context(), request(t, messages.Keyed, httptool.Request{URL: url}), `{}`).Failure
		if f == nil || f.RetryAfter != c.want || f.NothingDone != c.nothing || f.Ambiguous != (c.status == 500) {
			t.Errorf("%d, %q: %+v", c.status, c.after, f)
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := httptool.Request{URL: url, Status: map[int]declared.Rule{503: {Outcome: declared.Unavailable, After: time.Minute}}}
	if f := execute(t.Context(), request(t, messages.Keyed, r), `{}`).Failure; f == nil || f.RetryAfter != time.Minute {
		t.Errorf("the declared delay is the floor: %+v", f)
	}
}

func TestWhatAFailureSays(t *testing.T) {
	const problem = "application/problem+json; charset=utf-8"
	for _, c := range []struct {
		kind, body, want string
	}{
		{"", "", "HTTP 409 Conflict"},
		{"text/plain", " busy\n", "HTTP 409 Conflict: busy"},
		{problem, `{"type": "https://e.example/t", "title": "Out of stock", "status": 409, "detail": "Item 3 is gone.", "instance": "/x"}`, "HTTP 409 Conflict: Out of stock: Item 3 is gone."},
		{problem, `{"title": "Wrong", "errors": [{"pointer": "#/age", "detail": "below 0"}]}`, `HTTP 409 Conflict: Wrong: {"errors":[{"detail":"below 0","pointer":"#/age"}]}`},
		{problem, `{"detail": 7}`, `HTTP 409 Conflict: {"detail": 7}`},
		{problem, `not JSON`, "HTTP 409 Conflict: not JSON"},
		{problem, `null`, "HTTP 409 Conflict: null"},
		{"application/json", `{"title": "t"}`, `HTTP 409 Conflict: {"title": "t"}`},
		{"text/plain", "a\xffb", "HTTP 409 Conflict: a\uFFFDb"},
		{"image/png", "\x89PNG", `HTTP 409 Conflict: {"content_type":"image/png","bytes":4,"sha256":"0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543"}`},
		{"text/plain", strings.Repeat("x", 1<<20), "HTTP 409 Conflict: " + strings.Repeat("x", messages.MaxErrorText) + " … (the rest is cut)"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, c.body)
		})
		f := execute(t.Context(), request(t, messages.Keyed, httptool.Request{URL: url}), `{}`).Failure
		if f == nil || f.Text != c.want || f.Body != nil {
			t.Errorf("%s %.50q:\n got %.300v\nwant %.300s", c.kind, c.body, f, c.want)
		}
	}
}

func TestWhatASuccessGives(t *testing.T) {
	const binary = `{"content_type":"%s","bytes":2,"sha256":"ea5dbf9596d187e9500f23e9a680109475341cf4e81f7e043f7d97152c10772f"}`
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", "{\"a\": 9007199254740993}\n", "{\"a\": 9007199254740993}\n"},
		{"application/vnd.api+json; charset=utf-8", `[]`, `[]`},
		{"text/html", "<p>é", "<p>é"},
		{"text/plain; charset=ISO-8859-1", "caf\xe9", "café"},
		{"text/plain; charset=nonsense", "caf\xe9", "caf\uFFFD"},
		{"application/json", "\"\xff\"", "\"\uFFFD\""},
		{"", "plain", "plain"},
		{"", "\xff\x00", fmt.Sprintf(binary, "application/octet-stream")},
		{"image/png", "\xff\x00", fmt.Sprintf(binary, "image/png")},
		{"image/png", "", ""},
		{"what is this?", "text", "text"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			_, _ = io.WriteString(w, c.body)
		})
		e := execute(t.Context(), request(t, messages.ReadOnly, httptool.Request{URL: url}), `{}`)
		if e.Failure != nil || string(e.Output.Body) != c.want {
			t.Errorf("%s %q: %q, %+v", c.kind, c.body, e.Output.Body, e.Failure)
		}
	}
}

// The limit is of what is unpacked, and holds for a response without end.
func TestAResponseIsBounded(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := 1 << 20 // what request allows
		if r.URL.Path == "/endless" {
			n = 1 << 40
		}
		for piece := make([]byte, 1<<16); n > 0; n -= len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	e := execute(t.Context(), request(t, messages.Unsafe, httptool.Request{URL: url, Status: map[int]declared.Rule{}}), `{}`)
	if e.Failure != nil {
		t.Errorf("at the limit: %+v", e.Failure)
	}
	f := execute(t.Context(), request(t, messages.Unsafe, httptool.Request{URL: url + "/endless"}), `{}`).Failure
	if f == nil || f.Code != messages.CodeOutputTooLarge || !f.Ambiguous || f.Text != `Tool "x" answered with more than 1048576 bytes; ask it for less` {
		t.Errorf("%+v", f)
	}
}
