package exectool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mulligan/internal/schema"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/declared"
	"mulligan/pkg/tool/httptool"
)

// Declaration is one tool of a file.
type Declaration struct {
	Name        string          `yaml:"name"`
	Queue       string          `yaml:"queue"` // default "default"
	Description string          `yaml:"description"`
	Effect      messages.Effect `yaml:"effect"` // default unsafe (S7.1)
	Version     string          `yaml:"version"`
	// Schema is the JSON Schema of the input, written as YAML; SchemaFile names
	// a file of JSON or YAML that holds it. At most one; none allows any object.
	Schema     any    `yaml:"schema"`
	SchemaFile string `yaml:"schema_file"`
	// HTTP is the request that the tool is, in place of a command. The fields
	// from Command on but for Timeout and MaxOutput are of commands alone.
	HTTP *httptool.Request `yaml:"http"`
	// Command is the program and its arguments. A program without a slash is
	// looked up in the worker's PATH, one with a slash is relative to Dir.
	Command []string `yaml:"command"`
	Dir     string   `yaml:"dir"` // relative to the file's folder, which is the default
	// Env lists the variables that are passed on from the worker; SetEnv sets
	// others, and wins.
	Env    []string          `yaml:"env"`
	SetEnv map[string]string `yaml:"set_env"`
	// Timeout is of one execution; 0 means the worker's default.
	Timeout declared.Duration `yaml:"timeout"`
	// KillAfter is the time between SIGTERM and SIGKILL. Keep it below the
	// worker's grace, 5 s, or the execution counts as abandoned. Default 2 s.
	KillAfter declared.Duration `yaml:"kill_after"`
	// MaxOutput is the size at which a command that goes on printing, or a
	// response that goes on, is ended, in bytes or with KiB or MiB; an output
	// above it is a failure. Default and most: 16 MiB.
	MaxOutput declared.Size `yaml:"max_output"`
	// ExitCodes say what exit codes mean; others than 0 that are not named are
	// definite failures.
	ExitCodes map[int]declared.Rule `yaml:"exit_codes"`
	// ErrorFrom says where a failing result is read: stdout (default) or stderr.
	ErrorFrom string `yaml:"error_from"`
}

const defaultKillAfter = 2 * time.Second

// WithDefaults fills what is zero. Folder is where relative paths begin.
func (d Declaration) WithDefaults(folder string) Declaration {
	if d.MaxOutput == 0 {
		d.MaxOutput = messages.MaxPayload
	}
	if d.HTTP != nil {
		r := d.HTTP.WithDefaults()
		d.HTTP = &r
		return d
	}
	if !filepath.IsAbs(d.Dir) {
		d.Dir = filepath.Join(folder, d.Dir)
	}
	if d.KillAfter == 0 {
		d.KillAfter = declared.Duration(defaultKillAfter)
	}
	if d.ErrorFrom == "" {
		d.ErrorFrom = "stdout"
	}
	return d
}

// Validate names the field that cannot be used, its value and the way out.
func (d Declaration) Validate() error {
	if err := d.check(); err != nil {
		return fmt.Errorf("tool %q: %w", d.Name, err)
	}
	return nil
}

func (d Declaration) check() error {
	switch {
	case d.Schema != nil && d.SchemaFile != "":
		return errors.New("schema and schema_file are both given: give one")
	case d.Timeout < 0 || d.KillAfter < 0:
		return errors.New("timeout or kill_after is negative: give a duration such as 30s")
	case d.MaxOutput < 0 || d.MaxOutput > messages.MaxPayload:
		return fmt.Errorf("max_output is %d bytes: give 1 to %d", d.MaxOutput, messages.MaxPayload)
	case d.HTTP != nil:
		return d.checkHTTP()
	}
	return d.checkCommand()
}

func (d Declaration) checkHTTP() error {
	for field, given := range map[string]bool{
		"command": d.Command != nil, "dir": d.Dir != "", "env": d.Env != nil, "set_env": d.SetEnv != nil,
		"kill_after": d.KillAfter != 0, "exit_codes": d.ExitCodes != nil, "error_from": d.ErrorFrom != "",
	} {
		if given {
			return fmt.Errorf("%s belongs to a tool that is a command, and this one is a request: leave out %s or http", field, field)
		}
	}
	if err := d.HTTP.Validate(); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}

func (d Declaration) checkCommand() error {
	switch {
	case len(d.Command) == 0 || d.Command[0] == "":
		return errors.New("command is empty: give the program and its arguments as a list, or http")
	case slices.ContainsFunc(d.Command, hasNUL):
		return errors.New("command holds a NUL byte")
	case d.ErrorFrom != "stdout" && d.ErrorFrom != "stderr":
		return fmt.Errorf("error_from is %q: give stdout or stderr", d.ErrorFrom)
	}
	for code, r := range d.ExitCodes {
		if code < 1 || code > 255 {
			return fmt.Errorf("exit_codes: %d: give codes from 1 to 255: 0 is always a success", code)
		}
		if err := r.Check(declared.Failures()); err != nil {
			return fmt.Errorf("exit_codes: %d: %w", code, err)
		}
	}
	return d.checkEnv()
}

func (d Declaration) checkEnv() error {
	names := slices.Clone(d.Env)
	for n, v := range d.SetEnv {
		if hasNUL(v) {
			return fmt.Errorf("set_env: %s holds a NUL byte", n)
		}
		names = append(names, n)
	}
	for _, n := range names {
		if n == "" || strings.ContainsAny(n, "=\x00") {
			return fmt.Errorf("env: %q is not the name of a variable", n)
		}
		if strings.HasPrefix(n, "MULLIGAN_") {
			return fmt.Errorf("env: %s: names with MULLIGAN_ are set by the worker: choose another", n)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

// New makes the tool of a declaration whose relative paths begin at folder. It
// looks up the program, or the variables of a request, so that a missing one is
// found before any call is.
func New(d Declaration, folder string) (*tool.Tool, error) {
	d = d.WithDefaults(folder)
	if err := d.Validate(); err != nil {
		return nil, err
	}
	input, err := d.inputSchema(folder)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	run, err := d.runner()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	t := tool.Raw(d.Name, input, run, tool.Effect(d.Effect), tool.Queue(d.Queue), tool.Description(d.Description),
		tool.Version(d.Version), tool.Timeout(time.Duration(d.Timeout)))
	return t, t.Err()
}

type runner = func(context.Context, tool.Call) (tool.Output, error)

func (d Declaration) runner() (runner, error) {
	if d.HTTP != nil {
		run, err := httptool.New(d.Name, d.Effect, *d.HTTP, int(d.MaxOutput))
		if err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
		return run, nil
	}
	program := d.Command[0]
	if strings.ContainsRune(filepath.ToSlash(program), '/') && !filepath.IsAbs(program) {
		program = filepath.Join(d.Dir, program)
	}
	program, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	return (&command{d: d, program: program}).run, nil
}

func (d Declaration) inputSchema(folder string) (json.RawMessage, error) {
	v := d.Schema
	if d.SchemaFile != "" {
		path := d.SchemaFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		var err error
		if v, err = readSchema(path); err != nil {
			return nil, fmt.Errorf("schema_file: %w", err)
		}
	}
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("schema cannot be written as JSON: %w", err)
	}
	if _, err := schema.Compile(b); err != nil {
		return nil, err
	}
	return b, nil
}
