package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/process"
)

const (
	// maxMessage is the size in bytes of the largest message that is read of a
	// server: the largest output, in base64 and with room around it.
	maxMessage = 32 << 20
	// maxJunk is how many lines in a row may be no message before a server counts
	// as none of MCP. Some print a greeting.
	maxJunk = 1000
	// endPatience is how long a server may take to end by itself when its input
	// has ended, and once more after SIGTERM.
	endPatience = 2 * time.Second
	// lastWords is how long what a server has written is read after it ended.
	lastWords = time.Second
	// writePatience is how long a write may go on after the end of its call.
	writePatience = time.Second
)

// child is a server that is a process: its transport and its one connection.
// What it prints in place of a message is skipped, as the clients that it was
// written for do.
type child struct {
	cmd    *exec.Cmd
	log    *slog.Logger
	stdin  io.WriteCloser
	stdout *os.File
	lines  *bufio.Reader
	queue  []jsonrpc.Message // of a batch; Read's own
	junk   int               // Read's own
	stderr *logTail

	writing sync.Mutex
	closing sync.Once
	closed  chan struct{} // nothing more is sent
	exited  chan struct{} // then state is there

	mu    sync.Mutex
	state string // how it ended
	why   string // why it was ended by us
}

// inherited are the variables that a server gets of the worker's own, as other
// clients do it; the worker's secrets are not among them.
func inherited() []string {
	if runtime.GOOS == "windows" {
		return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
	}
	return []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
}

func environment(c Config) []string {
	vars := make(map[string]string)
	for _, n := range inherited() {
		if v, ok := os.LookupEnv(n); ok {
			vars[n] = v
		}
	}
	if c.Inherit {
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
	}
	maps.Copy(vars, c.Env)
	env := make([]string, 0, len(vars))
	for _, n := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, n+"="+vars[n])
	}
	return env
}

// startChild starts the process. It is ended by Close or kill, and [child.wait]
// returns when nothing of it is left.
func startChild(c Config, program string, log *slog.Logger, stderr *logTail) (*child, error) {
	cmd := exec.Command(program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, environment(c)
	process.Group(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Pipes of our own, since those of exec hold up Wait for as long as anything
	// that the server started keeps them open.
	out, outEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	errs, errsEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), out.Close(), outEnd.Close())
	}
	cmd.Stdout, cmd.Stderr = outEnd, errsEnd
	err = cmd.Start()
	_ = outEnd.Close() // the process has its own
	_ = errsEnd.Close()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), out.Close(), errs.Close())
	}
	p := &child{
		cmd: cmd, log: log.With("pid", cmd.Process.Pid), stdin: stdin, stdout: out, lines: bufio.NewReaderSize(out, 64<<10), stderr: stderr,
		closed: make(chan struct{}), exited: make(chan struct{}),
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		stderr.follow(errs)
	}()
	go p.reap(errs, heard)
	return p, nil
}

// reap waits for the end of the process and of what it left behind.
func (p *child) reap(errs *os.File, heard <-chan struct{}) {
	err := p.cmd.Wait()
	process.Kill(p.cmd) // what of its group is left
	p.mu.Lock()
	p.state = p.cmd.ProcessState.String()
	if err == nil {
		p.state = "exit status 0"
	}
	p.mu.Unlock()
	// Whoever else holds the pipes open keeps neither reader.
	last := time.AfterFunc(lastWords, func() { _ = errs.Close() })
	<-heard
	last.Stop()
	_ = errs.Close()
	close(p.exited)
	time.AfterFunc(lastWords, func() { _ = p.stdout.Close() })
}

// Connect is the transport's part of a child: it is connected already.
func (p *child) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID is of other transports.
func (*child) SessionID() string { return "" }

// Read gives the next message. It is called by one goroutine.
func (p *child) Read(context.Context) (jsonrpc.Message, error) {
	for len(p.queue) == 0 {
		line, err := p.line()
		if err != nil {
			return nil, err
		}
		if err := p.take(line); err != nil {
			return nil, err
		}
	}
	next := p.queue[0]
	p.queue = p.queue[1:]
	return next, nil
}

// take puts the messages of a line into the queue. What is none is skipped.
func (p *child) take(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	parts := []json.RawMessage{line}
	if line[0] == '[' && json.Unmarshal(line, &parts) != nil {
		parts = []json.RawMessage{line}
	}
	for _, part := range parts {
		m, err := jsonrpc.DecodeMessage(part)
		if err != nil {
			if p.junk++; p.junk == 1 {
				p.log.Warn("an MCP server printed what is no message, which is skipped", "bytes", len(part), "error", p.stderr.hide(err.Error()))
			}
			if p.junk >= maxJunk {
				p.kill(fmt.Sprintf("it printed %d lines in a row that are no message of MCP", p.junk))
				return io.EOF
			}
			continue
		}
		p.junk = 0
		p.queue = append(p.queue, m)
	}
	return nil
}

// line reads up to the next line break, or to the bound of a message.
func (p *child) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		if len(whole)+len(part) > maxMessage {
			p.kill(fmt.Sprintf("it wrote a message of more than %d bytes", maxMessage))
			return nil, io.EOF
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, io.EOF // what it began to write is no message
		}
	}
}

// Write sends a message. A server that does not read its input holds up
// whoever writes to it, so it is killed when the call has long ended.
func (p *child) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	var late *time.Timer
	var mu sync.Mutex
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		late = time.AfterFunc(writePatience, func() { p.kill("it does not read its input") })
	})
	defer func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if late != nil {
			late.Stop()
		}
	}()
	p.writing.Lock()
	defer p.writing.Unlock()
	select {
	case <-p.closed:
		return mcp.ErrConnectionClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// A message that was not written whole is none.
	if _, err = p.stdin.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("%w: %w", mcp.ErrConnectionClosed, err)
	}
	sent(ctx)
	return nil
}

// Close ends the server's input, and the server if it does not end by itself.
// It does not wait for that.
func (p *child) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		go func() {
			_ = p.stdin.Close() // unblocks a write too; an error means that it has ended
			for _, end := range []func(){func() { _ = process.Terminate(p.cmd) }, func() { process.Kill(p.cmd) }} {
				t := time.NewTimer(endPatience)
				select {
				case <-p.exited:
					t.Stop()
					return
				case <-t.C:
					end()
				}
			}
		}()
	})
	return nil
}

// kill ends the server at once, and says why in the errors of its calls.
func (p *child) kill(why string) {
	p.mu.Lock()
	if p.why == "" {
		p.why = why
	}
	p.mu.Unlock()
	select {
	case <-p.exited: // its number may be another's
	default:
		process.Kill(p.cmd)
	}
	_ = p.Close()
}

// wait waits until nothing of the server is left and says how it ended.
func (p *child) wait() error {
	<-p.exited
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != "" {
		return errors.New("it was ended: " + p.why)
	}
	text := "it ended with " + p.state
	if said := p.stderr.last(); said != "" {
		text += ": " + said
	}
	return errors.New(strings.ToValidUTF8(text, "\uFFFD"))
}
