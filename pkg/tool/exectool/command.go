package exectool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"mulligan/internal/process"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
)

// command runs one declared program; it is immutable.
type command struct {
	d       Declaration
	program string
}

// errOutput ends a command that prints too much.
var errOutput = errors.New("its output exceeds max_output")

func (c *command) run(ctx context.Context, call tool.Call) (tool.Output, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(ctx, c.program, c.d.Command[1:]...)
	cmd.Dir, cmd.Env = c.d.Dir, c.env(call)
	cmd.Stdin = bytes.NewReader(call.Input)
	stdout := &capped{limit: int(c.d.MaxOutput), full: func() { stop(errOutput) }}
	stderr := &tail{limit: messages.MaxStderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Duration(c.d.KillAfter)
	process.Group(cmd)
	cmd.Cancel = func() error { return process.Terminate(cmd) }

	if err := cmd.Start(); err != nil {
		return tool.Output{}, c.notStarted(ctx, err)
	}
	err := cmd.Wait()
	process.Kill(cmd) // what of it is left: nothing outlives the execution it belongs to
	out := tool.Output{Stderr: stderr.String()}
	if stdout.over() {
		return out, c.failure(messages.CodeOutputTooLarge, true, "was ended: it printed more than %d bytes", c.d.MaxOutput)
	}
	return c.conclude(ctx, cmd.ProcessState, err, stdout.bytes(), out)
}

// notStarted is definite, whatever the reason: nothing ran.
func (c *command) notStarted(ctx context.Context, err error) error {
	var end *tool.Stop
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &end) {
		return &tool.Failure{Code: end.Code, Text: fmt.Sprintf("Tool '%s' %s", c.d.Name, end.Reason)}
	}
	return c.failure(messages.CodeToolError, false, "could not be started: %v", err)
}

// conclude reads how the process ended. After the end of ctx only a success or
// a declared exit code is its own word.
func (c *command) conclude(ctx context.Context, state *os.ProcessState, err error, stdout []byte, out tool.Output) (tool.Output, error) {
	rule, declared := c.d.ExitCodes[state.ExitCode()]
	switch {
	case state.Success() && !(ctx.Err() != nil && errors.Is(err, exec.ErrWaitDelay)):
		out.Body = stdout
		return out, nil
	case declared:
		return out, rule.Apply(c.failing(state, stdout, out.Stderr))
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case !state.Exited():
		return out, c.failure(messages.CodePanic, true, "panicked: its process ended by %v", state) // without an answer
	}
	return out, tool.Definite(c.failing(state, stdout, out.Stderr))
}

// failing is the failing result: what was printed, or else a text (S6.1).
func (c *command) failing(state *os.ProcessState, stdout []byte, stderr string) error {
	body := stdout
	if c.d.ErrorFrom == "stderr" {
		body = []byte(stderr)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return c.failure(messages.CodeToolError, false, "exited with code %d and no output", state.ExitCode())
	}
	return tool.Failed(body)
}

func (c *command) failure(code messages.Code, ambiguous bool, format string, args ...any) error {
	return &tool.Failure{Code: code, Ambiguous: ambiguous, Text: fmt.Sprintf("Tool %q ", c.d.Name) + fmt.Sprintf(format, args...)}
}

func (c *command) env(call tool.Call) []string {
	vars := make(map[string]string)
	for _, n := range c.d.Env {
		if v, ok := os.LookupEnv(n); ok {
			vars[n] = v
		}
	}
	maps.Copy(vars, c.d.SetEnv)
	maps.Copy(vars, map[string]string{
		"MULLIGAN_CALL": call.ID, "MULLIGAN_KEY": call.Key,
		"MULLIGAN_ATTEMPT": strconv.Itoa(call.Attempt), "MULLIGAN_DISPATCH": strconv.Itoa(call.Dispatch),
	})
	// A name may hold any character, and a variable of the environment not NUL.
	for n, v := range map[string]string{"MULLIGAN_TOOL": c.d.Name, "MULLIGAN_RUN": call.Run.Name(), "MULLIGAN_REF": call.Ref} {
		if v != "" && !hasNUL(v) {
			vars[n] = v
		}
	}
	if !call.Deadline.IsZero() {
		vars["MULLIGAN_DEADLINE"] = call.Deadline.UTC().Format(time.RFC3339Nano)
	}
	env := make([]string, 0, len(vars)+1)
	for _, n := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, n+"="+vars[n])
	}
	return env
}

// capped keeps what is written up to a limit. Beyond it, it calls full once
// and goes on reading, so that the process can be told to end.
type capped struct {
	limit int
	full  func()

	mu  sync.Mutex
	buf bytes.Buffer
	n   int
}

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.n > c.limit
	c.n = min(c.n+len(p), c.limit+1)
	if room := c.limit - c.buf.Len(); room > 0 {
		c.buf.Write(p[:min(room, len(p))])
	}
	if c.n > c.limit && !was {
		c.full()
	}
	return len(p), nil
}

func (c *capped) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > c.limit
}

func (c *capped) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf.Bytes())
}

// tail keeps the last bytes that are written.
type tail struct {
	limit int

	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-t.limit):]...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
