package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"mulligan/jetstream/embedded"
)

// The broker of a measurement runs in a process of its own, so that its
// processor time and memory can be told from ours. That process is this
// program, started with Options.Server as its arguments. They talk in lines of
// JSON: the configuration, the address, then a question and an answer each time.

// serverConfig is the first line to the server.
type serverConfig struct {
	Dir        string   `json:"dir"`
	Always     bool     `json:"always"` // sync each message
	Name       string   `json:"name,omitempty"`
	RoutePort  int      `json:"route_port,omitempty"` // of a cluster
	Routes     []string `json:"routes,omitempty"`
	StoreLimit int64    `json:"store_limit"`
}

// serverAddress is the first line from it.
type serverAddress struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	Error string `json:"error,omitempty"`
}

// token is shared by all servers of a cluster; they listen on loopback only.
const token = "mulligan-bench"

// ServeBroker is the server's side: it runs a broker until in ends.
func ServeBroker(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("bench server: no configuration: %w", err)
	}
	var cfg serverConfig
	if err := json.Unmarshal(first, &cfg); err != nil {
		return fmt.Errorf("bench server: configuration: %w", err)
	}
	say := json.NewEncoder(out)
	s, err := embedded.Start(cfg.embedded())
	if err != nil {
		return errors.Join(err, say.Encode(serverAddress{Error: err.Error()}))
	}
	if err := say.Encode(serverAddress{URL: s.ClientURL(), Token: s.Token()}); err != nil {
		return errors.Join(err, s.Shutdown())
	}
	var asked profiling
	for {
		question, err := lines.ReadString('\n')
		if err != nil { // the asker has gone
			return s.Shutdown()
		}
		var answer any
		if path, ok := strings.CutPrefix(question, profileTo); ok {
			answer = asked.turn(strings.TrimSuffix(path, "\n"))
		} else {
			u := usageNow(question == settled)
			u.Messages, _ = s.Messages() // 0 is not what any scenario sends, and refused by its test
			answer = u
		}
		if err := say.Encode(answer); err != nil {
			return errors.Join(err, s.Shutdown())
		}
	}
}

// profileTo is the third question: a profile begins, whose files have names that
// begin with what follows, or ends where nothing follows.
const profileTo = "profile "

// profiling is that of a broker's process.
type profiling struct{ now *profile }

type profileAnswer struct {
	Error string `json:"error,omitempty"`
}

func (p *profiling) turn(path string) profileAnswer {
	var err error
	switch {
	case path != "":
		p.now, err = beginProfile(path)
	case p.now != nil:
		err = p.now.end()
	}
	if err != nil {
		return profileAnswer{err.Error()}
	}
	return profileAnswer{}
}

func (c serverConfig) embedded() embedded.Config {
	e := embedded.Config{
		Dir: c.Dir, Token: token, StoreLimit: c.StoreLimit, StartTimeout: 2 * time.Minute,
		Name: c.Name, RoutePort: c.RoutePort, Routes: c.Routes,
	}
	if c.Always {
		e.Durability = embedded.Always
	}
	return e
}

// The two questions: what was used up to now, and the same after a collection,
// so that the heap is what is really held.
const (
	running = "now\n"
	settled = "settled\n"
)

// usage is what a process has used since it began, and holds now.
type usage struct {
	CPU    time.Duration `json:"cpu_ns"`
	Allocs uint64        `json:"allocs"`
	Bytes  uint64        `json:"bytes"` // allocated in all
	Heap   uint64        `json:"heap"`  // in use
	// Messages is how many a broker got from its clients and sent them; of the
	// broker's process only.
	Messages uint64 `json:"messages"`
}

func usageNow(collect bool) usage {
	if collect {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{CPU: cpuTime(), Allocs: m.Mallocs, Bytes: m.TotalAlloc, Heap: m.HeapAlloc}
}

// since is what was used after before; the heap is that of now.
func (u usage) since(before usage) usage {
	return usage{
		CPU: u.CPU - before.CPU, Allocs: u.Allocs - before.Allocs, Bytes: u.Bytes - before.Bytes, Heap: u.Heap,
		Messages: u.Messages - before.Messages,
	}
}

func (u usage) plus(o usage) usage {
	return usage{
		CPU: u.CPU + o.CPU, Allocs: u.Allocs + o.Allocs, Bytes: u.Bytes + o.Bytes, Heap: u.Heap + o.Heap,
		Messages: u.Messages + o.Messages,
	}
}

// server is a broker in a process of its own.
type server struct {
	serverAddress
	cmd *exec.Cmd
	in  io.WriteCloser

	mu  sync.Mutex
	out *bufio.Reader
}

func startServer(ctx context.Context, command []string, cfg serverConfig) (*server, error) {
	s := &server{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.cmd.Stderr = os.Stderr
	s.cmd.WaitDelay = 10 * time.Second
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	if err := s.ask(cfg, &s.serverAddress); err != nil {
		return nil, errors.Join(fmt.Errorf("start the broker: %w", err), s.stop())
	}
	if s.Error != "" {
		return nil, errors.Join(fmt.Errorf("start the broker: %s", s.Error), s.stop())
	}
	return s, nil
}

func (s *server) ask(question, answer any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := question.(string)
	if !ok {
		j, err := json.Marshal(question)
		if err != nil {
			return err
		}
		b = string(j) + "\n"
	}
	if _, err := io.WriteString(s.in, b); err != nil {
		return err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the broker's process said nothing: %w", err)
	}
	return json.Unmarshal(line, answer)
}

func (s *server) usage(question string) (u usage, err error) {
	err = s.ask(question, &u)
	return u, err
}

// profile begins a profile of the broker's process, or ends it where path is empty.
func (s *server) profile(path string) error {
	var answer profileAnswer
	err := s.ask(profileTo+path+"\n", &answer)
	if err == nil && answer.Error != "" {
		err = fmt.Errorf("profile the broker: %s", answer.Error)
	}
	return err
}

// stop ends it cleanly.
func (s *server) stop() error {
	_ = s.in.Close() // which asks it to end
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the broker's process: %w", err)
	}
	return nil
}
