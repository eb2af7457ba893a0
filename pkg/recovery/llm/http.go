package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds an answer of the endpoint, in bytes.
const maxBody = 1 << 20

// transport has time-outs for each step that a silent endpoint can hold up; the
// whole is bounded by the context.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          16,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// exchange is what the client library keeps to itself of one request: how it
// went, and the body as it came.
type exchange struct {
	zeroTemperature bool // sent as 0, which the library leaves out

	status     int // 0: none came
	retryAfter time.Duration
	body       []byte
	tooLong    bool // the body is more than is read
}

type exchangeKey struct{}

// doer makes the requests of the client library and notes what it would drop.
type doer struct{ client *http.Client }

func newDoer(rt http.RoundTripper) doer {
	return doer{client: &http.Client{
		Transport: rt,
		// Wherever a redirect leads, data is not meant to go there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (d doer) Do(req *http.Request) (*http.Response, error) {
	ex, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil {
		return nil, errors.New("a request without an exchange")
	}
	if ex.zeroTemperature {
		if err := insert(req, `"temperature":0,`); err != nil {
			return nil, err
		}
	}
	resp, err := d.client.Do(req) //nolint:gosec // the address is the operator's, and no redirect is followed
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	ex.status, ex.retryAfter = resp.StatusCode, retryAfter(resp.Header, time.Now())
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		ex.status = 0
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case len(body) > maxBody:
		ex.tooLong = true
		return nil, errors.New("the answer is too long")
	}
	ex.body = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// insert puts a field at the beginning of a JSON body.
func insert(req *http.Request, field string) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	rest, ok := bytes.CutPrefix(body, []byte("{"))
	if !ok {
		return errors.New("a request that is no object")
	}
	body = append([]byte("{"+field), rest...)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = nil
	return nil
}

// retryAfter is how long the endpoint wants to be left alone; 0 when it does not
// say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// complaint is what an endpoint says about a request that it refuses, and about
// which of its parameters. Endpoints write this in many ways, some as a text
// where others have an object, some with status 200.
func (ex *exchange) complaint() (text, param string) {
	var m struct {
		Error   json.RawMessage `json:"error"`
		Message any             `json:"message"`
		Detail  any             `json:"detail"`
	}
	if json.Unmarshal(ex.body, &m) != nil {
		return string(ex.body), ""
	}
	var e struct {
		Message any `json:"message"`
		Param   any `json:"param"`
	}
	var said string
	switch {
	case len(m.Error) > 0 && json.Unmarshal(m.Error, &said) == nil && said != "":
		return said, ""
	case len(m.Error) > 0 && json.Unmarshal(m.Error, &e) == nil && e.Message != nil:
		param, _ = e.Param.(string)
		return fmt.Sprint(e.Message), param
	case m.Message != nil:
		return fmt.Sprint(m.Message), ""
	case m.Detail != nil:
		return fmt.Sprint(m.Detail), ""
	}
	return string(ex.body), ""
}

// saysError: a body with an error and none of what was asked for.
func (ex *exchange) saysError() bool {
	var m struct {
		Error   json.RawMessage `json:"error"`
		Choices json.RawMessage `json:"choices"`
	}
	return json.Unmarshal(ex.body, &m) == nil && len(m.Error) > 0 && string(m.Error) != "null" && len(m.Choices) == 0
}

// withExchange gives a request a place for what happens to it.
func withExchange(ctx context.Context, ex *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

// mentions says whether a text names one of these words.
func mentions(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// innerStatus is the status that an error within an answer of status 200 names;
// 0 for none.
func (ex *exchange) innerStatus() int {
	var m struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(ex.body, &m) != nil {
		return 0
	}
	if code, ok := m.Error.Code.(float64); ok && code >= 400 && code < 600 {
		return int(code)
	}
	return 0
}
