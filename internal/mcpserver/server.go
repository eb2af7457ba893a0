package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/suggest"
)

// Server is a pool as a server of MCP. All methods may be called concurrently.
type Server struct {
	cfg Config
	mcp *mcp.Server

	stopping context.Context // ends when those who wait are told to come back
	stop     context.CancelCauseFunc

	mu    sync.Mutex
	tools map[string]offered
}

// Why a wait is cut short; the call goes on.
var (
	errStopping = errors.New("the server stops")
	errTask     = errors.New("the call is a task now")
	errAsked    = errors.New("the call waits for a human")
	errWaitOver = errors.New("the call has not ended in the time that a request waits")
)

// instructions are what a client may put before its model.
const instructions = "The tools of a pool that looks into failures, corrects what it safely can and tries again. " +
	"Of a call that failed all the same, the first texts are the tool's own words, and the last says what was found out and what to do next."

// New makes a server of the tools that the registry knows. Close it when it is
// not needed any more.
func New(cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, tools: make(map[string]offered)}
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "mulligan", Version: cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions, PageSize: cfg.Page, Logger: aside(cfg.Log),
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Extensions: map[string]any{TasksExtension: map[string]any{}},
		},
	})
	if err := addTasks(s.mcp); err != nil {
		return nil, err
	}
	s.mcp.AddReceivingMiddleware(s.intercept)
	cfg.Registry.add(s)
	return s, nil
}

// Close ends the waits for results, whose calls go on.
func (s *Server) Close() {
	s.cfg.Registry.remove(s)
	s.stop(errStopping)
}

// Serve serves one connection until the other side ends it, which is no error,
// or ctx is done. Calls that nobody cancelled go on.
func (s *Server) Serve(ctx context.Context, t mcp.Transport) error {
	ss, err := s.mcp.Connect(ctx, t, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ss.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		s.stop(errStopping) // else closing waits for what is waited for
		_ = ss.Close()
		<-ended
		return context.Cause(ctx)
	}
}

// intercept takes over what concerns calls; the rest is the SDK's.
func (s *Server) intercept(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if call, ok := r.(*mcp.CallToolRequest); ok {
			return s.callTool(ctx, call)
		}
		if about, ok := r.(*mcp.ServerRequest[*taskParams]); ok {
			return s.aboutTask(ctx, method, about)
		}
		if method == "subscriptions/listen" { // it lasts until somebody ends it
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(ctx)
			defer stop()
			defer context.AfterFunc(s.stopping, stop)()
		}
		return next(ctx, method, r)
	}
}

// unknownTool says that there is no such tool, as the protocol has it.
func (s *Server) unknownTool(name string) error {
	return invalid("%s", suggest.ToolNotAvailable(name, s.names()))
}

// invalid is an error of the protocol about what was asked.
func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// maxMessage is the size in bytes of the largest message that is read of a
// client: the largest input, with room around it.
const maxMessage = 32 << 20

// ServeIO is Serve over a pair of streams, one message a line, as of standard
// input and output. It closes neither.
func (s *Server) ServeIO(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Serve(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: open{out}, MaxLineLength: maxMessage})
}

// open is a writer that stays open.
type open struct{ io.Writer }

func (open) Close() error { return nil }
