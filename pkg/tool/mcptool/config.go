package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mulligan/internal/secrets"
	"mulligan/pkg/messages"
)

// Config is one MCP server. [Load] reads it from what other clients of MCP have
// in their configurations too.
type Config struct {
	// Name tells servers apart, in logs and as the default of Queue and Prefix.
	Name string
	// Command and Args start a server that speaks over its standard input and
	// output; one of Command and URL is given. A program without a slash is
	// looked up in PATH.
	Command string
	Args    []string
	// Env is added to the few variables that a server gets of the worker's own;
	// with Inherit it gets all of these, with what is secret among them.
	Env     map[string]string
	Inherit bool
	// Dir is where the command runs; empty means where the worker does.
	Dir string
	// URL is where a server listens that speaks over HTTP; SSE says that it is one
	// of the older revision, whose answers come over one long response.
	URL     string
	SSE     bool
	Headers map[string]string

	// Include names the tools that are served, Exclude those that are not; both
	// may hold *, which stands for anything. Default: all, and none. What is
	// excluded stays so.
	Include, Exclude []string
	// Prefix stands before the names of the tools in the pool. Default: the
	// server's name and two underscores.
	Prefix *string
	// Queue of the tools. Default: the server's name.
	Queue string
	// Processes is how many processes of the command run at a time; a server that
	// keeps something in memory wants one. Default 1, at most 64.
	Processes int
	// Restart says whether a server that ended is started again.
	Restart Restart
	// Trust says that the annotations of the tools are believed: what is read
	// only, and what may be repeated. Default: they are not, and every tool is
	// unsafe but for Effects.
	Trust bool
	// Effects are those of tools by name, where * stands for anything; they go
	// before annotations, and of several the longest.
	Effects map[string]messages.Effect
	// Timeout is of one call; 0 means the worker's default.
	Timeout time.Duration
	// StartTimeout is how long a server may take until it can be used. Default
	// one minute, which leaves time to install it.
	StartTimeout time.Duration

	// withheld are the values that logs do not show.
	withheld []string
}

// Restart is the policy for a server that ended by itself, or could not be started.
type Restart string

// The policies.
const (
	RestartAlways Restart = "always" // after a pause, which grows up to half a minute
	RestartNever  Restart = "never"  // its tools are withdrawn
)

const (
	maxProcesses        = 64
	defaultStartTimeout = time.Minute
)

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	if c.Prefix == nil {
		c.Prefix = new(c.Name + "__")
	}
	if c.Queue == "" {
		c.Queue = c.Name
	}
	if c.Processes == 0 {
		c.Processes = 1
	}
	if c.Restart == "" {
		c.Restart = RestartAlways
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = defaultStartTimeout
	}
	return c
}

// Validate names the field that cannot be used, its value and the way out.
func (c Config) Validate() error {
	if err := c.check(); err != nil {
		return fmt.Errorf("server %q: %w", c.Name, err)
	}
	return nil
}

func (c Config) check() error {
	if err := messages.CheckName("name", c.Name, messages.MaxName); err != nil {
		return err
	}
	if err := messages.CheckName("queue", c.Queue, messages.MaxQueueName); err != nil {
		return fmt.Errorf("%w; give another one with queue", err)
	}
	if err := c.checkTransport(); err != nil {
		return err
	}
	switch {
	case c.Processes < 1 || c.Processes > maxProcesses:
		return fmt.Errorf("processes is %d: give 1 to %d", c.Processes, maxProcesses)
	case c.Restart != RestartAlways && c.Restart != RestartNever:
		return fmt.Errorf("restart is %q: give %s or %s", c.Restart, RestartAlways, RestartNever)
	case c.Timeout < 0:
		return fmt.Errorf("timeout is %s: give a duration such as 30s, or leave it out for the worker's own", c.Timeout)
	case c.StartTimeout < 0:
		return fmt.Errorf("start_timeout is %s: give a duration such as 1m", c.StartTimeout)
	case len(*c.Prefix) > messages.MaxName/2:
		return fmt.Errorf("prefix is %d bytes long: give %d at the most", len(*c.Prefix), messages.MaxName/2)
	}
	for name, effect := range c.Effects {
		if !slices.Contains(messages.Effects(), effect) {
			return fmt.Errorf("effects: %s is %q: give one of %v", name, effect, messages.Effects())
		}
	}
	return nil
}

func (c Config) checkTransport() error {
	switch {
	case c.Command == "" && c.URL == "":
		return errors.New("neither command nor url is given: give one")
	case c.Command != "" && c.URL != "":
		return errors.New("command and url are both given: give one")
	case c.URL != "":
		return c.checkURL()
	case len(c.Headers) > 0:
		return errors.New("headers belong to a server with a url, and this one is a command: use env")
	}
	for _, text := range append([]string{c.Command, c.Dir}, c.Args...) {
		if strings.ContainsRune(text, 0) {
			return errors.New("command, args or cwd holds a NUL byte")
		}
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %q is not the name of a variable, or its value holds a NUL byte", name)
		}
	}
	return nil
}

func (c Config) checkURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url %q is not an address such as https://example.com/mcp", secrets.Address(c.URL))
	case u.User != nil:
		return errors.New("url holds a user: give an Authorization header instead, with its secret as ${VARIABLE}")
	case c.Processes > 1:
		return errors.New("processes belongs to a server that is a command, and this one has a url: leave it out")
	case len(c.Env) > 0 || len(c.Args) > 0 || c.Dir != "":
		return errors.New("args, env and cwd belong to a server that is a command, and this one has a url: leave them out")
	}
	for name, value := range c.Headers {
		if strings.Trim(name, headerChars) != "" || name == "" || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("headers: %q is not the name of a header, or its value holds a line break", name)
		}
	}
	return nil
}

// headerChars are what the name of a header is made of.
const headerChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// serves says whether a tool of the server is to be offered.
func (c Config) serves(name string) bool {
	matches := func(pattern string) bool { return match(pattern, name) }
	return (len(c.Include) == 0 || slices.ContainsFunc(c.Include, matches)) && !slices.ContainsFunc(c.Exclude, matches)
}

// effect is the one that Effects give to a tool, if they do.
func (c Config) effect(name string) (messages.Effect, bool) {
	best, found := "", false
	for pattern := range c.Effects {
		if match(pattern, name) && (!found || len(pattern) > len(best) || len(pattern) == len(best) && pattern < best) {
			best, found = pattern, true
		}
	}
	return c.Effects[best], found
}

// match says whether a name is the one of a pattern, in which * stands for
// anything and all other characters for themselves.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// extras are what a configuration says to Mulligan alone, under mulligan.
type extras struct {
	Include      []string                   `json:"include"`
	Exclude      []string                   `json:"exclude"`
	Prefix       *string                    `json:"prefix"`
	Queue        string                     `json:"queue"`
	Processes    int                        `json:"processes"`
	Restart      Restart                    `json:"restart"`
	Trust        bool                       `json:"trust"`
	Effects      map[string]messages.Effect `json:"effects"`
	Timeout      duration                   `json:"timeout"`
	StartTimeout duration                   `json:"start_timeout"`
}

// duration is written as Go does, in a string.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a duration in quotes, such as \"30s\"", b)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s", text)
	}
	*d = duration(v)
	return nil
}
