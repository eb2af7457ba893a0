// Package shopclient calls the tools of a running shop, and tells apart what a
// caller must treat differently when a call does not get its answer.
package shopclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswer bounds the answer of a tool in bytes.
const maxAnswer = 16 << 20

// Client calls one shop. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// New returns a client of the shop at baseURL, such as "http://127.0.0.1:8080".
// How long a call may take is up to the context of the call.
func New(baseURL string) *Client {
	transport := &http.Transport{
		// The shop is on the same machine: no proxy, and a connection for each
		// call that runs at once.
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     time.Minute,
	}
	return &Client{url: strings.TrimSuffix(baseURL, "/") + "/call", http: &http.Client{Transport: transport}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ReadAddress returns the URL of a shop that wrote its address to a file.
func ReadAddress(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("address of the shop: %w", err)
	}
	addr := strings.TrimSpace(string(text))
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", fmt.Errorf("address of the shop: %s holds no host and port: %w", file, err)
	}
	return "http://" + addr, nil
}

type (
	request struct {
		Run   string          `json:"run"`
		Call  string          `json:"call"`
		Key   string          `json:"key,omitempty"`
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	answer struct {
		Output  *string `json:"output"`
		IsError bool    `json:"is_error"`
	}
	refusal struct {
		Error string `json:"error"`
	}
)

// Call executes a tool in a run. An answer, an error text of the tool included,
// comes without an error. Otherwise err is one of
//
//   - *[RefusedError]: the shop did nothing, and may do it later;
//   - *[RejectedError]: the shop did nothing, and never will with this request;
//   - *[AmbiguousError]: the shop may or may not have executed the tool.
func (c *Client) Call(ctx context.Context, run, call, key, tool string, input []byte) (output string, isError bool, err error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(request{run, call, key, tool, input}); err != nil {
		return "", false, &RejectedError{Text: fmt.Sprintf("input: %v", err)}
	}
	// A request that was given no connection was not sent.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, &body)
	if err != nil {
		return "", false, &RejectedError{Text: err.Error()}
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(r)
	if err != nil && !sent.Load() {
		err = plain(err)
		return "", false, &RefusedError{Text: err.Error(), Err: err}
	}
	if err != nil {
		return "", false, &AmbiguousError{Err: plain(err)}
	}
	// The body was read as far as it is wanted.
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return "", false, &AmbiguousError{Err: err}
	}
	return conclude(response, text)
}

// plain takes method and address out of an error: its text reaches models and
// stories, where the address of the moment says nothing.
func plain(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func conclude(response *http.Response, text []byte) (string, bool, error) {
	switch status := response.StatusCode; {
	case status == http.StatusOK:
		return readAnswer(text)
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return "", false, &RefusedError{
			Status:     status,
			RetryAfter: retryAfter(response.Header.Get("Retry-After")),
			Text:       readRefusal(text),
		}
	case status >= 400 && status < 500:
		return "", false, &RejectedError{Status: status, Text: readRefusal(text)}
	default:
		return "", false, &AmbiguousError{Err: fmt.Errorf("HTTP %d: %s", status, readRefusal(text))}
	}
}

func readAnswer(text []byte) (string, bool, error) {
	var a answer
	if len(text) > maxAnswer {
		return "", false, &AmbiguousError{Err: fmt.Errorf("the answer has more than %d bytes", maxAnswer)}
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return "", false, &AmbiguousError{Err: fmt.Errorf("the answer cannot be read: %w", err)}
	}
	if a.Output == nil {
		return "", false, &AmbiguousError{Err: errors.New(`the answer has no field "output"`)}
	}
	return *a.Output, a.IsError, nil
}

func readRefusal(text []byte) string {
	var r refusal
	if err := json.Unmarshal(text, &r); err != nil || r.Error == "" {
		return "no reason given"
	}
	return r.Error
}

// retryAfter reads a Retry-After in seconds; none, or another form, is 0.
func retryAfter(value string) time.Duration {
	seconds, err := strconv.Atoi(value)
	if err != nil || seconds < 0 || seconds > int((24*time.Hour)/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
