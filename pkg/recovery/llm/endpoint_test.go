package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/internal/modeltest"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/llm"
)

// choice is an answer of status 200 with one choice in this form.
func choice(c string) modeltest.Response {
	return modeltest.Response{Body: `{"choices":[` + c + `],"usage":{"prompt_tokens":7,"completion_tokens":3}}`}
}

// What a client library passes on as a success, or as an error that says little.
func TestS9_4_WhatGoesWrongAtTheEndpoint(t *testing.T) {
	good, err := json.Marshal(answer(nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		resp     modeltest.Response
		says     string
		requests int
	}{
		"no choices":                {choice(""), "has no choices", 1},
		"a refusal":                 {choice(`{"message":{"role":"assistant","refusal":"I won't"},"finish_reason":"stop"}`), `refused to answer: "I won't"`, 1},
		"truncated":                 {choice(`{"message":{"content":` + string(good) + `},"finish_reason":"length"}`), "truncated", 1},
		"filtered":                  {choice(`{"message":{"content":` + string(good) + `},"finish_reason":"content_filter"}`), "content filter", 1},
		"a call of a tool":          {choice(`{"message":{"tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}}]},"finish_reason":"tool_calls"}`), "called a tool", 1},
		"null content":              {choice(`{"message":{"content":null},"finish_reason":"stop"}`), "the model's answer is empty", 1},
		"HTML":                      {modeltest.Response{Body: "<html><body>Welcome</body></html>"}, `no chat completion: "<html><body>Welcome`, 1},
		"nothing":                   {modeltest.Response{}, "no chat completion", 1},
		"a list":                    {modeltest.Response{Body: "[]"}, "no chat completion", 1},
		"an error within a success": {modeltest.Response{Body: `{"error":{"message":"Provider returned error","code":400}}`}, `answered with an error: "Provider returned error"`, 1},
		"again within a success":    {modeltest.Response{Body: `{"error":{"message":"overloaded","code":502}}`, Header: map[string]string{"Retry-After-Ms": "1"}}, `answered with an error: "overloaded"`, 3},
		"a text as the error":       {modeltest.Response{Status: 404, Body: `{"error":"model not loaded"}`}, `status 404: "model not loaded"`, 1},
		"a list of messages":        {modeltest.Response{Status: 400, Body: `{"error":{"message":["a","b"]}}`}, `status 400: "[a b]"`, 1},
		"detail":                    {modeltest.Response{Status: 400, Body: `{"detail":"Model x is not supported"}`}, `"Model x is not supported"`, 1},
		"no JSON at all":            {modeltest.Response{Status: 403, Body: "no"}, `status 403: "no"`, 1},
		"a redirect":                {modeltest.Response{Status: 307, Header: map[string]string{"Location": "/elsewhere"}}, "redirect (status 307), which is not followed", 1},
		"a redirect to elsewhere":   {modeltest.Response{Status: 302, Header: map[string]string{"Location": "/elsewhere"}}, "redirect (status 302), which is not followed", 1},
		"the key is repeated":       {modeltest.Refuses(401, "Incorrect API key provided: key-of-the-endpoint."), "Incorrect API key provided: [withheld-1-endpoint].", 1},
		"out of money":              {modeltest.Refuses(429, "insufficient_quota: pay first"), "status 429", 1},
		"an answer without end":     {modeltest.Response{Body: `{"choices":[` + strings.Repeat(" ", 2<<20)}, "longer than 1048576 bytes", 1},
		"it breaks off":             {modeltest.Response{Drop: true}, "cannot be reached", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, s, err := ask(t, failure(), c.resp)
			if err := internal(err, c.says); err != nil {
				t.Error(err)
			}
			if n := len(s.Requests()); n != c.requests || got.Usage == nil || got.Usage.Requests != n {
				t.Errorf("%d requests, %+v", n, got.Usage)
			}
		})
	}
}

// Failed requests that were counted are paid for.
func TestS9_6_UsageOfFailedRequests(t *testing.T) {
	got, _, err := ask(t, failure(), choice(`{"message":{"content":"x"},"finish_reason":"length"}`))
	if err := internal(err, "truncated"); err != nil {
		t.Fatal(err)
	}
	if want := (messages.Usage{Model: "m-1", Requests: 1, InputTokens: 7, OutputTokens: 3, CostMicros: 44}); *got.Usage != want {
		t.Errorf("%+v, want %+v", *got.Usage, want)
	}
}

func TestS9_6_UsageOfAnEndpointThatCountsNothing(t *testing.T) {
	body := modeltest.Says(answer(nil))
	before, _, _ := strings.Cut(body.Body, `,"usage"`)
	body.Body = before + "}"
	got, s, err := ask(t, failure(), body)
	if err != nil {
		t.Fatal(err)
	}
	sent := int64(len(s.Requests()[0].Messages[0].Content) + len(s.Requests()[0].Messages[1].Content))
	if got.Usage.InputTokens < sent/4 || got.Usage.InputTokens > sent || got.Usage.OutputTokens == 0 || got.Usage.CostMicros == 0 {
		t.Errorf("%+v of %d bytes", got.Usage, sent)
	}
}

func TestS9_6_UsageOutOfAllBounds(t *testing.T) {
	for _, counted := range []string{"-5", "9223372036854775807"} {
		r := modeltest.Response{Body: fmt.Sprintf(`{"choices":[{"message":{"content":%s}}],"usage":{"prompt_tokens":%s,"completion_tokens":1}}`, encode(answer(nil)), counted)}
		got, _, err := ask(t, failure(), r)
		if err != nil || got.Usage.InputTokens < 0 || got.Usage.InputTokens > 1e8 || got.Usage.CostMicros < 0 {
			t.Errorf("%s: %+v, %v", counted, got.Usage, err)
		}
	}
}

// Every recorded refusal of a provider ends as an internal error and is not
// asked for ever.
func TestS9_4_RecordedFailuresOfProviders(t *testing.T) {
	for _, r := range recordedFailures(t) {
		got, s, err := ask(t, failure(), modeltest.Response{Status: r.Status, Body: r.Body, Header: r.Headers})
		if err := internal(err, fmt.Sprintf("status %d", r.Status)); err != nil {
			t.Errorf("%s %.80s: %v", r.Host, r.Body, err)
		}
		if n := len(s.Requests()); n > 7 || got.Usage.Requests != n {
			t.Errorf("%s %d %.80s: %d requests", r.Host, r.Status, r.Body, n)
		}
	}
}

type providerFailure struct {
	Host    string            `json:"provider_host"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func recordedFailures(t *testing.T) []providerFailure {
	t.Helper()
	dir := os.Getenv("MULLIGAN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	b, err := os.ReadFile(filepath.Join(dir, "llm_provider_http_failures.jsonl"))
	if err != nil {
		t.Skip("no recorded data: set MULLIGAN_CORPUS to the folder that holds llm_provider_http_failures.jsonl")
	}
	var out []providerFailure
	for line := range strings.Lines(string(b)) {
		var f providerFailure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	if len(out) < 10 {
		t.Fatalf("%d lines", len(out))
	}
	return out
}

// inTime answers requests in a bubble, where time stands still until all wait.
type inTime func(*http.Request) (*http.Response, error)

func (f inTime) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: http.NoBody, ContentLength: int64(len(body))}
}

func withBody(r *http.Response, body string) *http.Response {
	r.Body = readCloser{strings.NewReader(body)}
	return r
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func good() *http.Response {
	return withBody(response(200, "", http.Header{}), modeltest.Says(answer(nil)).Body)
}

func bubble(t *testing.T, cfg llm.Config, do func(t *testing.T, r *llm.Reflector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.BaseURL, cfg.Model = "http://model.test/v1", "m"
		r, err := llm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		do(t, r)
	})
}

func TestS9_4_TriedAgainWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		answers []int // statuses; 0 breaks the connection
		header  http.Header
		sent    int
		took    [2]time.Duration
		says    string
	}{
		"busy once":         {answers: []int{429, 200}, sent: 2, took: [2]time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		"down, then there":  {answers: []int{0, 503, 200}, sent: 3, took: [2]time.Duration{750 * time.Millisecond, 1500 * time.Millisecond}},
		"down for longer":   {answers: []int{500, 502, 503, 200}, sent: 3, took: [2]time.Duration{0, 2 * time.Second}, says: "status 503"},
		"told how long":     {answers: []int{429, 200}, header: http.Header{"Retry-After": {"7"}}, sent: 2, took: [2]time.Duration{7 * time.Second, 7 * time.Second}},
		"told until when":   {answers: []int{503, 200}, header: http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:03 GMT"}}, sent: 2, took: [2]time.Duration{3 * time.Second, 3 * time.Second}},
		"told in ms":        {answers: []int{429, 200}, header: http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, sent: 2, took: [2]time.Duration{1500 * time.Millisecond, 1500 * time.Millisecond}},
		"told nonsense":     {answers: []int{429, 200}, header: http.Header{"Retry-After": {"soon"}}, sent: 2, took: [2]time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		"told a short time": {answers: []int{429, 200}, header: http.Header{"Retry-After": {"0.01"}}, sent: 2, took: [2]time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		"told too long":     {answers: []int{429, 200}, header: http.Header{"Retry-After": {"60"}}, sent: 1, says: "status 429: \"\"; it was not tried again: that would be in 1m0s at the soonest"},
		"refused":           {answers: []int{401, 200}, sent: 1, says: "status 401"},
	} {
		sent := 0
		rt := inTime(func(*http.Request) (*http.Response, error) {
			status := c.answers[sent]
			sent++
			switch status {
			case 0:
				return nil, errors.New("connection refused")
			case 200:
				return good(), nil
			}
			return response(status, "", c.header), nil
		})
		bubble(t, llm.Config{Transport: rt}, func(t *testing.T, r *llm.Reflector) {
			began := time.Now()
			got, err := r.Analyse(t.Context(), failure())
			if c.says != "" {
				err = internal(err, c.says)
			}
			if took := time.Since(began); err != nil || sent != c.sent || took < c.took[0] || took > max(c.took[1], 0) && c.took[1] > 0 {
				t.Errorf("%s: %d requests in %v, %v", name, sent, took, err)
			}
			if got.Usage.Requests != sent {
				t.Errorf("%s: %+v", name, got.Usage)
			}
		})
	}
}

func TestS9_4_ATimeOut(t *testing.T) {
	rt := inTime(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	bubble(t, llm.Config{Transport: rt, Timeout: 3 * time.Second}, func(t *testing.T, r *llm.Reflector) {
		began := time.Now()
		_, err := r.Analyse(t.Context(), failure())
		if err := internal(err, "the model did not answer within 3s"); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the service stops"))
		_, err = r.Analyse(ctx, failure())
		if err := internal(err, "the service stops"); err != nil {
			t.Error(err)
		}
	})
}

// With the endpoint down failures stop waiting for it, until one request finds
// it there again.
func TestS9_6_ABreakerOfItsOwn(t *testing.T) {
	down, sent := true, 0
	rt := inTime(func(*http.Request) (*http.Response, error) {
		sent++
		if down {
			return nil, errors.New("connection refused")
		}
		return good(), nil
	})
	bubble(t, llm.Config{Transport: rt}, func(t *testing.T, r *llm.Reflector) {
		for range 3 {
			if _, err := r.Analyse(t.Context(), failure()); err == nil {
				t.Fatal("an answer from nowhere")
			}
		}
		if sent != 5 {
			t.Errorf("%d requests", sent)
		}
		began := time.Now()
		got, err := r.Analyse(t.Context(), failure())
		if err := internal(err, "the model is not available: its breaker is open"); err != nil || sent != 5 || time.Since(began) != 0 || got.Usage != nil {
			t.Errorf("%d requests, %+v, %v", sent, got.Usage, err)
		}
		down = false
		<-time.After(31 * time.Second)
		for range 2 {
			if _, err := r.Analyse(t.Context(), failure()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Answers that cannot be used, and refusals of one request, say nothing about
// the endpoint.
func TestS9_6_TheBreakerCountsTheEndpointOnly(t *testing.T) {
	for name, r := range map[string]modeltest.Response{
		"useless": modeltest.Says("I do not know"), "refused": modeltest.Refuses(400, "context length exceeded"),
	} {
		s := modeltest.Start(t, always(r))
		m := reflector(t, s, nil)
		for range 8 {
			if _, err := m.Analyse(t.Context(), failure()); err == nil || strings.Contains(err.Error(), "breaker") {
				t.Fatal(name, err)
			}
		}
	}
}

func TestS9_6_RequestsAMinute(t *testing.T) {
	var sent []time.Time
	rt := inTime(func(*http.Request) (*http.Response, error) {
		sent = append(sent, time.Now())
		return good(), nil
	})
	bubble(t, llm.Config{Transport: rt, RequestsPerMinute: 3, Timeout: 10 * time.Second}, func(t *testing.T, r *llm.Reflector) {
		refused := 0
		for range 20 {
			got, err := r.Analyse(t.Context(), failure())
			if err != nil {
				if err := internal(err, "the limit of 3 requests a minute is reached"); err != nil || got.Usage != nil {
					t.Error(err, got.Usage)
				}
				refused++
			}
			<-time.After(7 * time.Second)
		}
		for i := range sent {
			if i >= 3 && sent[i].Sub(sent[i-3]) < time.Minute {
				t.Errorf("four requests in %v", sent[i].Sub(sent[i-3]))
			}
		}
		if refused == 0 || len(sent) < 6 {
			t.Errorf("%d sent, %d refused", len(sent), refused)
		}
	})
}

func TestS9_6_BudgetsOfTheRun(t *testing.T) {
	s := modeltest.Start(t, always(modeltest.Says(answer(nil))))
	r := reflector(t, s, nil)
	spent := messages.Usage{}
	c := failure()
	c.Budget = recovery.Budget{Tokens: 300}
	c.Spent = func(context.Context) (messages.Usage, error) { return spent, nil }
	for range 10 {
		got, err := r.Analyse(t.Context(), c)
		if err != nil {
			if want := "reflection skipped: the run has used its budget of 300 tokens (budget_tokens): 360 are spent"; err.Error() != want {
				t.Error(err)
			}
			continue
		}
		spent = spent.Plus(*got.Usage)
	}
	if len(s.Requests()) != 3 {
		t.Errorf("%d requests for 300 tokens of 120 each", len(s.Requests()))
	}
	c.Budget = recovery.Budget{CostMicros: 1}
	if _, err := r.Analyse(t.Context(), c); err == nil || !strings.Contains(err.Error(), "budget_cost_micros") {
		t.Error(err)
	}
	c.Spent = func(context.Context) (messages.Usage, error) { return spent, errors.New("broker away") }
	if err := internal(second(r.Analyse(t.Context(), c)), "cannot be read: broker away"); err != nil {
		t.Error(err)
	}
	if len(s.Requests()) != 3 {
		t.Error("it asked all the same")
	}
}

func second(_ recovery.Reflection, err error) error { return err }

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	good := llm.Config{BaseURL: "http://localhost:8080/v1", Model: "m"}
	for says, change := range map[string]func(*llm.Config){
		"BaseURL is not set":               func(c *llm.Config) { c.BaseURL = "" },
		"BaseURL is no address":            func(c *llm.Config) { c.BaseURL = "http://[::1" },
		`"localhost:8080" is not an addre`: func(c *llm.Config) { c.BaseURL = "localhost:8080" },
		"holds a user":                     func(c *llm.Config) { c.BaseURL = "http://me:secret@host/v1" },
		"something after its path":         func(c *llm.Config) { c.BaseURL = "http://host/v1?key=1" },
		"Model is empty":                   func(c *llm.Config) { c.Model = " " },
		"Key holds a line end":             func(c *llm.Config) { c.Key = "a\nb" },
		"Timeout -1ns":                     func(c *llm.Config) { c.Timeout = -1 },
		"MaxTokens 5 is less":              func(c *llm.Config) { c.MaxTokens = 5 },
		"RequestsPerMinute -2":             func(c *llm.Config) { c.RequestsPerMinute = -2 },
		"SystemPrompt is 40000 bytes":      func(c *llm.Config) { c.SystemPrompt = strings.Repeat("a", 40000) },
		"Redact has 101":                   func(c *llm.Config) { c.Redact = make([]string, 101) },
		"PriceIn -1":                       func(c *llm.Config) { c.PriceIn = -1 },
		"PriceOut NaN":                     func(c *llm.Config) { c.PriceOut = math.NaN() },
		`Redact "(" is no regular`:         func(c *llm.Config) { c.Redact = []string{"("} },
		`Redact "a*" matches nothing`:      func(c *llm.Config) { c.Redact = []string{"a*"} },
	} {
		c := good
		change(&c)
		_, err := llm.New(c)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := llm.New(good); err != nil {
		t.Error(err)
	}
}
