package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"mulligan/internal/strict"
	"mulligan/internal/suggest"
)

// maxConfig bounds a file of servers, in bytes.
const maxConfig = 1 << 20

// Load reads the servers of a file, in the order of their names. An error names
// the file, the server and the field.
func Load(path string) ([]Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	servers, err := Parse(b, folder, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return servers, nil
}

// document is what the files of other clients hold; the rest of them is theirs.
type document struct {
	Servers map[string]json.RawMessage `json:"mcpServers"`
	VSCode  map[string]json.RawMessage `json:"servers"`
}

// entry is one server as other clients write it, and what they add that means
// nothing here.
type entry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"cwd"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Disabled leaves a server out, as it does elsewhere.
	Disabled bool   `json:"disabled"`
	Mulligan extras `json:"mulligan"`

	Transport   string          `json:"transport"` // of some clients, for type
	AutoApprove json.RawMessage `json:"autoApprove"`
	AlwaysAllow json.RawMessage `json:"alwaysAllow"`
	Description json.RawMessage `json:"description"`
	Gallery     json.RawMessage `json:"gallery"`
	Version     json.RawMessage `json:"version"`
	Dev         json.RawMessage `json:"dev"`
}

// Parse reads servers from JSON, which may have comments and trailing commas.
// Folder is where a relative cwd begins; look finds variables. A field of a
// server that is not known is an error, since a typing error must not become a
// default.
func Parse(b []byte, folder string, look func(name string) (string, bool)) ([]Config, error) {
	if len(b) > maxConfig {
		return nil, fmt.Errorf("it is larger than %d bytes", maxConfig)
	}
	b, err := hujson.Standardize(bytes.Clone(b))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("it is not an object with mcpServers: %w", err)
	}
	if len(d.Servers) > 0 && len(d.VSCode) > 0 {
		return nil, errors.New("mcpServers and servers are both given: give one")
	}
	if len(d.Servers) == 0 {
		d.Servers = d.VSCode
	}
	if len(d.Servers) == 0 {
		return nil, errors.New(`no servers: give an object under mcpServers, such as {"mcpServers": {"files": {"command": "mcp-server-filesystem", "args": ["/data"]}}}`)
	}
	var out []Config
	for _, name := range slices.Sorted(maps.Keys(d.Servers)) {
		c, disabled, err := server(name, d.Servers[name], folder, look)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", name, err)
		}
		if disabled {
			continue
		}
		if err := c.WithDefaults().Validate(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("all of its servers are disabled")
	}
	return out, nil
}

func server(name string, raw json.RawMessage, folder string, look func(string) (string, bool)) (c Config, disabled bool, err error) {
	var e entry
	if err := strict.Decode(raw, &e); err != nil {
		return c, false, plain(err)
	}
	if e.Disabled {
		return c, true, nil
	}
	m := e.Mulligan
	c = Config{
		Name: name, Include: m.Include, Exclude: m.Exclude, Prefix: m.Prefix, Queue: m.Queue, Processes: m.Processes, Restart: m.Restart,
		Trust: m.Trust, Effects: m.Effects, Timeout: time.Duration(m.Timeout), StartTimeout: time.Duration(m.StartTimeout),
	}
	if err := c.transport(e); err != nil {
		return c, false, err
	}
	x := expander{look: look}
	for field, text := range map[string]*string{"command": &c.Command, "cwd": &c.Dir, "url": &c.URL} {
		if *text, err = x.expand(*text); err != nil {
			return c, false, fmt.Errorf("%s: %w", field, err)
		}
	}
	if c.Args, err = x.all(e.Args); err != nil {
		return c, false, fmt.Errorf("args: %w", err)
	}
	if c.Env, err = x.values(e.Env); err != nil {
		return c, false, fmt.Errorf("env: %w", err)
	}
	if c.Headers, err = x.values(e.Headers); err != nil {
		return c, false, fmt.Errorf("headers: %w", err)
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(folder, c.Dir)
	}
	c.withheld = withheld(c, x.used)
	return c, false, nil
}

// transport takes what says how the server is reached, before variables are filled in.
func (c *Config) transport(e entry) error {
	c.Command, c.Dir, c.URL = e.Command, e.Dir, e.URL
	kind := e.Type
	if kind == "" {
		kind = e.Transport
	}
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(kind)) {
	case "":
		return nil
	case "stdio":
		if e.URL != "" {
			return errors.New("type is stdio, and url is given: give command, or leave type out")
		}
	case "http", "streamablehttp":
		if e.Command != "" {
			return fmt.Errorf("type is %s, and command is given: give url, or leave type out", kind)
		}
	case "sse":
		if e.Command != "" {
			return errors.New("type is sse, and command is given: give url, or leave type out")
		}
		c.SSE = true
	default:
		return fmt.Errorf("type is %q: give stdio, http or sse", kind)
	}
	return nil
}

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// plain words what the decoder says in terms of Go.
func plain(err error) error {
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		outer, inner := fields(reflect.TypeFor[entry]()), fields(reflect.TypeFor[extras]())
		if slices.Contains(inner, m[1]) {
			return fmt.Errorf(`field %s belongs under mulligan: "mulligan": {"%s": …}`, m[1], m[1])
		}
		return fmt.Errorf("field %s is not known%s", m[1], suggest.Meant(m[1], append(outer, inner...)))
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Errorf("%s is a %s, not %s", mismatch.Field, mismatch.Value, wanted(mismatch.Type))
	}
	return err
}

func fields(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		if name := f.Tag.Get("json"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list of texts"
	case reflect.Map:
		return "an object of texts"
	case reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a text"
}
