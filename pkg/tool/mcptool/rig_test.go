package mcptool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/mcptool"
)

// patience is how long a test waits for what comes in a moment.
const patience = 2 * time.Minute

// fake is the configuration of a server that this test binary is.
func fake(t *testing.T, name string, change ...func(*mcptool.Config)) mcptool.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := mcptool.Config{Name: name, Command: self, Env: map[string]string{fakeEnv: name}, Prefix: new("")}
	for _, f := range change {
		f(&c)
	}
	return c
}

func trusted(c *mcptool.Config) { c.Trust = true }

// rig is a running server and its log.
type rig struct {
	*mcptool.Server
	t   *testing.T
	log *buffer
}

// start starts a server that ends with the test, and waits until it was tried.
func start(t *testing.T, c mcptool.Config) *rig {
	t.Helper()
	log := &buffer{}
	s, err := mcptool.New(c, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	r := &rig{Server: s, t: t, log: log}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	select {
	case <-s.Started():
	case <-time.After(patience):
		t.Fatalf("not started; its log: %s", log)
	}
	return r
}

// names of the tools that there are now.
func (r *rig) names() []string {
	var out []string
	now, _ := r.Tools()
	for _, t := range now {
		out = append(out, t.Name())
	}
	return out
}

func (r *rig) find(name string) *tool.Tool {
	now, _ := r.Tools()
	for _, t := range now {
		if t.Name() == name {
			return t
		}
	}
	return nil
}

// until waits until the tools are as wanted.
func (r *rig) until(what string, ok func(names []string) bool) {
	r.t.Helper()
	late := time.After(patience)
	for {
		_, changed := r.Tools()
		if ok(r.names()) {
			return
		}
		select {
		case <-changed:
		case <-late:
			r.t.Fatalf("the tools are not %s: %v", what, r.names())
		}
	}
}

// call runs a tool as a worker does.
func (r *rig) call(name, input string) tool.Execution {
	r.t.Helper()
	return r.callWithin(context.WithoutCancel(r.t.Context()), name, input, patience)
}

func (r *rig) callWithin(ctx context.Context, name, input string, limit time.Duration) tool.Execution {
	r.t.Helper()
	t := r.find(name)
	if t == nil {
		r.t.Fatalf("no tool %q: %v", name, r.names())
	}
	c := tool.Call{Input: []byte(input), Key: "the-key", Log: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	return t.Execute(ctx, c, tool.Limits{Timeout: limit, Grace: patience})
}

// well calls a tool that is to succeed.
func (r *rig) well(name, input string) string {
	r.t.Helper()
	e := r.call(name, input)
	if e.Failure != nil {
		r.t.Fatalf("%s: %+v", name, e.Failure)
	}
	return string(e.Output.Body)
}

// again calls a tool until it is not merely unavailable, as the pool does.
func (r *rig) again(name, input string) tool.Execution {
	r.t.Helper()
	for late := time.Now().Add(patience); ; {
		e := r.call(name, input)
		if e.Failure == nil || e.Failure.Code != messages.CodeUnavailable {
			return e
		}
		if f := e.Failure; f.Ambiguous || !f.NothingDone || f.RetryAfter <= 0 {
			r.t.Fatalf("unavailable, and not for later: %+v", f)
		}
		if time.Now().After(late) {
			r.t.Fatalf("still unavailable: %+v", e.Failure)
		}
		pause(r.t.Context(), e.Failure.RetryAfter)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// has waits until the log holds a text.
func (r *rig) has(text string) {
	r.t.Helper()
	for late := time.Now().Add(patience); !strings.Contains(r.log.String(), text); {
		if time.Now().After(late) {
			r.t.Fatalf("the log does not say %q: %s", text, r.log)
		}
		pause(r.t.Context(), 5*time.Millisecond)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
