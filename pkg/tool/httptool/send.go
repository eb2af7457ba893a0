package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// maxLine bounds an address and the value of a header, in bytes: servers take
// about as much.
const maxLine = 8 << 10

// New gives what runs the request of the tool of a name. A response above most
// bytes is a failure. It may be called concurrently. The variables that its
// headers name are looked up at once; a missing one is an error.
func New(name string, effect messages.Effect, r Request, most int) (func(context.Context, tool.Call) (tool.Output, error), error) {
	p, err := r.WithDefaults().compile(environment)
	if err != nil {
		return nil, err
	}
	return newRunner(name, effect, p, most, net.Dialer{}).run, nil
}

// runner runs one declared request; it is immutable.
type runner struct {
	*plan
	name   string
	most   int
	keyed  bool // a repetition may matter, so that the key is sent
	client *http.Client
}

func newRunner(name string, effect messages.Effect, p *plan, most int, dialer net.Dialer) *runner {
	unsafe := effect == messages.Unsafe || effect == ""
	return &runner{plan: p, name: name, most: most, keyed: effect != messages.ReadOnly, client: p.client(dialer, unsafe)}
}

func (r *runner) run(ctx context.Context, call tool.Call) (tool.Output, error) {
	// A request that was given no connection was not sent.
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	request, err := r.request(traced, call)
	if err != nil {
		return tool.Output{}, tool.Invalid(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return tool.Output{}, r.unanswered(ctx, sent.Load(), err)
	}
	defer response.Body.Close()
	return r.answer(ctx, response)
}

// request makes the request of a call; an error is one of its arguments.
func (r *runner) request(ctx context.Context, call tool.Call) (*http.Request, error) {
	var in input
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	at, err := r.at(in)
	if err != nil {
		return nil, err
	}
	body, err := r.body(call.Input, in)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == nil {
		request.Body, request.GetBody = http.NoBody, nil
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json, */*;q=0.5")
	request.Header.Set("User-Agent", "mulligan")
	if r.keyed && call.Key != "" {
		request.Header.Set("Idempotency-Key", call.Key)
	}
	return request, r.setHeaders(request.Header, in)
}

func (r *runner) at(in input) (string, error) {
	segments := make([]string, len(r.path))
	for i, t := range r.path {
		text, ok, err := t.fill(in, url.PathEscape)
		switch {
		case err != nil:
			return "", err
		case !ok:
			return "", errors.New("the address needs a field that is not given: " + t.names())
		case t.hasField() && (text == "" || text == "." || text == ".."):
			return "", fmt.Errorf("%s gives %q, which would lead to another address", t.names(), text)
		}
		segments[i] = text
	}
	at := r.origin + "/" + strings.Join(segments, "/")
	query := make(url.Values, len(r.query))
	for name, t := range r.query {
		values, err := t.list(in)
		if err != nil {
			return "", err
		}
		if len(values) > 0 {
			query[name] = values
		}
	}
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	if len(at) > maxLine {
		return "", fmt.Errorf("the arguments make an address of %d bytes; the limit is %d", len(at), maxLine)
	}
	return at, nil
}

// names are the fields of the template, as it writes them.
func (t template) names() string {
	var out []string
	for _, p := range t {
		if p.field != "" {
			out = append(out, "{"+p.field+"}")
		}
	}
	return strings.Join(out, "")
}

// body is nil where none is sent.
func (r *runner) body(whole []byte, in input) ([]byte, error) {
	switch r.Body.Mode {
	case "none":
		return nil, nil
	case "input":
		return whole, nil
	}
	chosen := make(input)
	for field, raw := range in {
		if slices.Contains(r.Body.Fields, field) {
			chosen[field] = raw
		}
	}
	return json.Marshal(chosen)
}

func (r *runner) setHeaders(h http.Header, in input) error {
	for name, t := range r.headers {
		value, ok, err := t.fill(in, asIs)
		switch {
		case err != nil:
			return err
		case !ok:
			continue
		case !headerValue(value):
			return fmt.Errorf("%s holds a line break or another control character, which a header cannot", t.names())
		case len(value) > maxLine:
			return fmt.Errorf("header %s would have %d bytes; the limit is %d", name, len(value), maxLine)
		}
		h.Set(name, value)
	}
	return nil
}

// unanswered is definite if nothing was sent, whatever the reason, and else
// ambiguous.
func (r *runner) unanswered(ctx context.Context, sent bool, err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // without method and address, which hold arguments
	}
	var end *tool.Stop
	var resolving *net.DNSError
	var dialling *net.OpError
	switch {
	case ctx.Err() != nil && sent:
		return context.Cause(ctx)
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &end):
		return &tool.Failure{Code: end.Code, Text: fmt.Sprintf("Tool '%s' %s", r.name, end.Reason)}
	case sent:
		return tool.ConnectionLost(fmt.Errorf("Tool %q lost the answer: %w", r.name, err))
	}
	err = tool.Definite(fmt.Errorf("Tool %q could not send its request: %w", r.name, err))
	if !errors.Is(err, errAddress) && (errors.As(err, &resolving) || errors.As(err, &dialling) && dialling.Op == "dial") {
		return tool.Unavailable(err, 0)
	}
	return err
}
