package httptool

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mulligan/pkg/tool/declared"
)

// Request declares the request that a tool is: the mapping under http.
type Request struct {
	// Method is GET (default), HEAD, POST, PUT, PATCH or DELETE.
	Method string `yaml:"method"`
	// URL begins with http:// or https://. {field} in its path stands for a
	// field of the input; scheme, host and port are fixed.
	URL string `yaml:"url"`
	// Query are the parameters, as templates. One that names an absent field is
	// left out, and one that is a list, alone in its template, is repeated.
	Query map[string]string `yaml:"query"`
	// Headers are templates too, in which ${NAME} stands for a variable of the
	// worker's environment. A header that holds one is a secret.
	Headers map[string]string `yaml:"headers"`
	// Body says what is sent, as JSON. Default: the input with POST, PUT and
	// PATCH, else nothing.
	Body Body `yaml:"body"`
	// Status says what statuses mean, before the defaults of [Request] do.
	Status map[int]declared.Rule `yaml:"status"`
	// Redirects is how many are followed, for GET and HEAD; 0 (default) to 10.
	Redirects int `yaml:"redirects"`
	// AllowAddresses are addresses and prefixes, such as 10.0.0.0/8, that may be
	// dialled although they are private, loopback or otherwise not public.
	AllowAddresses []string `yaml:"allow_addresses"`
	// Proxy has the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY count. A
	// proxy resolves the host by itself, so only its own address is checked.
	Proxy bool `yaml:"proxy"`
}

// Body is what a request sends: "input", the whole input byte for byte;
// "none"; or an object of the fields of the input that are listed.
type Body struct {
	Mode   string   // input, none or fields; empty for the default
	Fields []string // of mode fields
}

// UnmarshalYAML reads input, none or a list of fields.
func (b *Body) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		b.Mode = "fields"
		return n.Decode(&b.Fields)
	}
	if n.Kind != yaml.ScalarNode || n.Value != "input" && n.Value != "none" {
		return fmt.Errorf("line %d: body is input, none or a list of fields of the input", n.Line)
	}
	*b = Body{Mode: n.Value}
	return nil
}

const maxRedirects = 10

func methods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// WithDefaults fills what is zero.
func (r Request) WithDefaults() Request {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if r.Body.Mode == "" {
		r.Body.Mode = "none"
		if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) {
			r.Body.Mode = "input"
		}
	}
	return r
}

// Validate names the field that cannot be used, its value and the way out.
func (r Request) Validate() error {
	_, err := r.compile(func(string) (string, bool) { return "", true })
	return err
}

func (r Request) check() error {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !slices.Contains(methods(), r.Method):
		return fmt.Errorf("method %q is not known: give one of %v", r.Method, methods())
	case reads && r.Body.Mode != "none":
		return fmt.Errorf("body: %s has none: leave it out, or give another method", r.Method)
	case r.Body.Mode == "fields" && slices.Contains(r.Body.Fields, ""):
		return errors.New("body: the name of a field is empty")
	case r.Redirects < 0 || r.Redirects > maxRedirects:
		return fmt.Errorf("redirects is %d: give 0 to %d", r.Redirects, maxRedirects)
	case r.Redirects > 0 && !reads:
		return fmt.Errorf("redirects are followed for GET and HEAD, not for %s, which may have had its effect: leave it out", r.Method)
	}
	for code, rule := range r.Status {
		if code < 200 || code > 599 {
			return fmt.Errorf("status: %d: give statuses from 200 to 599", code)
		}
		if err := rule.Check(append([]declared.Outcome{declared.Success}, declared.Failures()...)); err != nil {
			return fmt.Errorf("status: %d: %w", code, err)
		}
	}
	return nil
}

// plan is a request that was checked, in the parts that calls fill in.
type plan struct {
	Request
	origin  string     // scheme, host and port
	path    []template // of its segments
	query   map[string]template
	headers map[string]template // by canonical names
	secret  bool                // a header holds a variable
	allowed []netip.Prefix
}

// compile checks the request and gives its plan; look finds variables.
func (r Request) compile(look func(string) (string, bool)) (*plan, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &plan{Request: r, query: make(map[string]template), headers: make(map[string]template)}
	var err error
	if p.origin, p.path, err = address(r.URL); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for name, text := range r.Query {
		if p.query[name], err = parse(text, nil); err != nil {
			return nil, fmt.Errorf("query: %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if err := p.header(name, r.Headers[name], look); err != nil {
			return nil, fmt.Errorf("headers: %s: %w", name, err)
		}
	}
	for _, a := range r.AllowAddresses {
		prefix, err := prefix(a)
		if err != nil {
			return nil, fmt.Errorf("allow_addresses: %w", err)
		}
		p.allowed = append(p.allowed, prefix)
	}
	return p, nil
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")

// own are the headers that belong to the connection or to the worker.
var own = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
	"Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Idempotency-Key",
}

func (p *plan) header(name, text string, look func(string) (string, bool)) error {
	canonical := http.CanonicalHeaderKey(name)
	_, twice := p.headers[canonical]
	switch {
	case !headerName.MatchString(name):
		return errors.New("it is not the name of a header")
	case slices.Contains(own, canonical):
		return errors.New("it is set by the worker: leave it out")
	case twice:
		return errors.New("it is given twice: upper and lower case are the same")
	}
	t, err := parse(text, look)
	if err != nil {
		return err
	}
	for _, s := range t {
		p.secret = p.secret || s.secret
		if s.field == "" && !headerValue(s.text) {
			return errors.New("its value holds a line break or another control character")
		}
	}
	p.headers[canonical] = t
	return nil
}

func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// environment is where a worker finds variables.
func environment(name string) (string, bool) { return os.LookupEnv(name) }
