package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mulligan/examples/shop/serve"
)

// Program is the shop command, as processes of it are started.
type Program struct {
	Path string
	// Env stands beside the environment of this process.
	Env []string
}

// process is a running shop command. What it says goes to a file, so that it
// can be read when something went wrong.
type process struct {
	what string
	cmd  *exec.Cmd
	log  *os.File
}

// stopTime is how long a process may take to end by itself.
const stopTime = 20 * time.Second

// command makes a process that ends with ctx, or when it is stopped.
func (p Program) command(ctx context.Context, dir, what string, args ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, what+".log"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	c := exec.CommandContext(ctx, p.Path, args...)
	c.Env = append(slices.DeleteFunc(os.Environ(), isSetting), p.Env...)
	c.Stderr = log
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = stopTime
	return &process{what: what, cmd: c, log: log}, nil
}

// isSetting finds what configures a command of Mulligan: it is meant for the pool
// of whoever runs this, not for ours.
func isSetting(env string) bool { return strings.HasPrefix(env, "MULLIGAN_") }

// stop asks the process to end, and waits for it. One that ended by itself, or
// not cleanly, is an error.
func (p *process) stop() error {
	if err := p.cmd.Cancel(); err != nil {
		_ = p.wait()
		return fmt.Errorf("%s had ended: %v; its log is %s", p.what, p.cmd.ProcessState, p.log.Name())
	}
	kill := time.AfterFunc(stopTime, func() { _ = p.cmd.Process.Kill() }) // it may have ended meanwhile
	defer kill.Stop()
	return p.wait()
}

func (p *process) wait() error {
	err := p.cmd.Wait()
	if cerr := p.log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w; its log is %s", p.what, err, p.log.Name())
	}
	return nil
}

// startShop starts a shop and waits until it answers calls.
func (p Program) startShop(ctx context.Context, dir string, args []string) (*process, serve.Address, error) {
	var at serve.Address
	s, err := p.command(ctx, dir, "shop", append([]string{"serve"}, args...)...)
	if err != nil {
		return nil, at, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, at, fmt.Errorf("shop: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err != nil {
		return nil, at, fmt.Errorf("the shop did not say where it is (%w): %w", err, s.stop())
	}
	return s, at, nil
}

// startWorker starts a worker process; its offer tells when it is ready.
func (p Program) startWorker(ctx context.Context, dir, name, token string, args []string) (*process, error) {
	w, err := p.command(ctx, dir, name, append([]string{"worker", "--name", name}, args...)...)
	if err != nil {
		return nil, err
	}
	w.cmd.Env = append(w.cmd.Env, "MULLIGAN_TOKEN="+token)
	w.cmd.Dir = dir // where no mulligan.yaml is
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return w, nil
}
