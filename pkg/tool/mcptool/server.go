package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"mulligan/internal/lifecycle"
	"mulligan/internal/pace"
	"mulligan/internal/secrets"
	"mulligan/pkg/tool"
)

const (
	firstPause   = 500 * time.Millisecond // before a server that ended is started again
	longestPause = 30 * time.Second
	steady       = time.Minute // a server that ran for so long begins with the first pause again
	listPause    = time.Second // between two looks at a list that keeps changing
)

// Server is an MCP server that is kept running, and its tools; a worker serves
// them as its Live. Started means that every process of it can be used or has
// failed to once. Stop ends the processes: stop the worker first, so that the
// calls that run can end.
//
// See [lifecycle.Service] for Start, Started, Stop and Stopped.
type Server struct {
	*lifecycle.Service

	cfg     Config
	program string // of the command
	log     *slog.Logger
	finder  *secrets.Finder
	tail    *logTail

	mu       sync.Mutex
	sessions []*session
	tools    []*tool.Tool
	digest   string        // of the tools
	changed  chan struct{} // closed when the tools are others
	alive    int           // processes that run or will
	why      error         // why the last session ended or did not begin
	again    time.Time     // when the next one is tried
}

// New makes a server, which does nothing before Start. The program of a command
// is looked up, so that a missing one is found before any call is. A nil log
// discards.
func New(c Config, log *slog.Logger) (*Server, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	finder, err := secrets.NewFinder(nil, append(withheld(c, nil), c.withheld...)...)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, log: log.With("mcp_server", c.Name), finder: finder, changed: make(chan struct{}), alive: c.Processes}
	s.tail = newLogTail(s.log, finder)
	if c.Command != "" {
		if s.program, err = exec.LookPath(c.Command); err != nil {
			return nil, fmt.Errorf("server %q: command: %w", c.Name, err)
		}
	}
	s.Service = lifecycle.New(s.run)
	return s, nil
}

// Name is the server's.
func (s *Server) Name() string { return s.cfg.Name }

// Queue is the one of all its tools.
func (s *Server) Queue() string { return s.cfg.Queue }

// Tools are those that there are now; the channel is closed when they are others.
func (s *Server) Tools() ([]*tool.Tool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools, s.changed
}

// Trouble is why the last connection to the server ended or did not come about;
// nil while that is not so.
func (s *Server) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil || len(s.sessions) > 0 {
		return nil
	}
	return errors.New(s.finder.Hide(s.why.Error()))
}

func (s *Server) run(ctx context.Context, started func()) error {
	var keepers, first sync.WaitGroup
	first.Add(s.cfg.Processes)
	for range s.cfg.Processes {
		keepers.Go(func() { s.keep(ctx, sync.OnceFunc(first.Done)) })
	}
	keepers.Go(func() {
		first.Wait()
		started()
	})
	keepers.Wait()
	<-ctx.Done() // without a process left there is nothing to do, and nobody to tell
	return context.Cause(ctx)
}

// keep has one session after the other until ctx is done. tried is called when
// the first can be used, or cannot.
func (s *Server) keep(ctx context.Context, tried func()) {
	defer tried()
	for p := pace.New(firstPause, longestPause); ; {
		began := time.Now()
		err := s.serve(ctx, tried)
		if ctx.Err() != nil {
			return
		}
		if s.cfg.Restart == RestartNever {
			s.log.Error("an MCP server is gone and not started again", "error", s.finder.Hide(err.Error()))
			s.lost(err, 0)
			return
		}
		if time.Since(began) > steady {
			p = pace.New(firstPause, longestPause)
		}
		pause := p.Next()
		s.log.Warn("an MCP server is gone and will be started again", "error", s.finder.Hide(err.Error()), "pause", pause)
		s.lost(err, pause)
		tried()
		if !pace.Sleep(ctx, pause) {
			return
		}
	}
}

// lost notes that a session ended, and when the next is tried; 0 for never.
func (s *Server) lost(err error, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why, s.again = err, time.Now().Add(pause)
	if pause > 0 {
		return
	}
	if s.alive--; s.alive == 0 {
		s.replace(nil, "")
	}
}

// serve has a session until it ends, and says why it did.
func (s *Server) serve(ctx context.Context, ready func()) error {
	x, err := connect(ctx, s.cfg, s.program, s.log, s.tail)
	if err != nil {
		return err
	}
	defer x.end()
	if err := s.look(ctx, x); err != nil {
		return err
	}
	s.join(x)
	defer s.leave(x)
	ready()
	s.log.Info("an MCP server can be used", "protocol", x.InitializeResult().ProtocolVersion)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.over:
			return x.ended()
		case <-x.change:
			if err := s.look(ctx, x); err != nil && ctx.Err() == nil {
				s.log.Warn("an MCP server has other tools and does not tell which", "error", s.finder.Hide(err.Error()))
			}
			select { // what else changes meanwhile is seen with one look
			case <-time.After(listPause):
			case <-x.over:
			case <-ctx.Done():
			}
		}
	}
}

// ended says why a session is over.
func (x *session) ended() error {
	if x.child != nil {
		_ = x.child.Close()
		return x.child.wait()
	}
	return errors.New("the connection is closed")
}

// look asks a session for its tools and makes them those of the server.
func (s *Server) look(ctx context.Context, x *session) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	list, err := x.list(ctx, maxTools)
	if err != nil {
		return fmt.Errorf("its tools could not be listed: %w", err)
	}
	tools, digest, left := s.toolsOf(list, x.InitializeResult())
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest != s.digest && left.n > 0 {
		s.log.Warn("tools of an MCP server are left out", "tools", left.n, "such_as", left.first, "error", left.why)
	}
	s.replace(tools, digest)
	return nil
}

// replace wants the lock held.
func (s *Server) replace(tools []*tool.Tool, digest string) {
	if digest == s.digest {
		return
	}
	s.tools, s.digest = tools, digest
	close(s.changed)
	s.changed = make(chan struct{})
	s.log.Info("the tools of an MCP server", "tools", len(tools))
}

func (s *Server) join(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, x)
}

func (s *Server) leave(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.sessions {
		if other == x {
			s.sessions = append(s.sessions[:i:i], s.sessions[i+1:]...)
			return
		}
	}
}

// choose gives the session with the fewest calls. Without any the error says
// why, and when to come back.
func (s *Server) choose(name string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *session
	for _, x := range s.sessions {
		select {
		case <-x.over:
			continue
		default:
		}
		if best == nil || x.calls.Load() < best.calls.Load() {
			best = x
		}
	}
	if best != nil {
		return best, nil
	}
	err := fmt.Errorf("Tool %q cannot be called now: MCP server %q is not running", name, s.cfg.Name)
	if s.why != nil {
		err = fmt.Errorf("%w: %s", err, s.finder.Hide(s.why.Error()))
	}
	return nil, tool.Unavailable(err, max(time.Until(s.again), firstPause))
}
