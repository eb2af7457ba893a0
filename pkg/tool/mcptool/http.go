package mcptool

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/pkg/tool/httptool"
)

// remote makes the transport of a server with a URL.
func remote(c Config) (mcp.Transport, error) {
	at, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	client := &http.Client{
		Transport: &sender{at: at, headers: c.Headers, next: http.DefaultTransport},
		// Headers of ours would go with it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if c.SSE {
		return &mcp.SSEClientTransport{Endpoint: c.URL, HTTPClient: client, MaxEventSize: maxMessage}, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: c.URL, HTTPClient: client, MaxEventSize: maxMessage}, nil
}

// sender sends requests with the configured headers to the configured host, and
// notes in the exchange of a request how far it came.
type sender struct {
	at      *url.URL
	headers map[string]string
	next    http.RoundTripper
}

var errElsewhere = errors.New("the server names an address on another host, which is not followed")

func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != s.at.Scheme || r.URL.Host != s.at.Host {
		return nil, errElsewhere // the older transport lets a server name where requests go
	}
	ctx := r.Context()
	r = r.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent(ctx) }}))
	for name, value := range s.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", "mulligan")
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if x := exchangeOf(ctx); x != nil {
		x.responded(response.StatusCode, httptool.RetryAfter(response.Header, time.Now()))
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		response.Body = &bounded{response.Body, maxMessage} // an event has a bound of its own
	}
	return response, nil
}

// bounded fails when more comes than a message may hold.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer is larger than %d bytes", maxMessage)
	}
	return n, err
}
