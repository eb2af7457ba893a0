package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/lifecycle"
)

const (
	// maxSilent is how many calls in a row may run into their time-out, while the
	// server says nothing at all, before it counts as hung.
	maxSilent = 3
	// maxPages bounds the pages of a list of tools.
	maxPages = 1000
)

// session is one connection to a server that can be used.
type session struct {
	*mcp.ClientSession
	tap    *tap
	child  *child        // nil for a server with a URL
	change chan struct{} // its list may be another
	over   chan struct{} // it has ended

	calls  atomic.Int64 // under way; what chooses between sessions looks at it
	tokens atomic.Int64
	silent atomic.Int64 // calls in a row without any sign of life
}

var errHung = fmt.Errorf("%d calls in a row ran into their time-out while it said nothing", maxSilent)

// connect starts a session. It has until the start time-out of the server; it
// ends with ctx.
func connect(ctx context.Context, c Config, program string, log *slog.Logger, tail *logTail) (*session, error) {
	ctx, stop := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.StartTimeout, func() {
		stop(fmt.Errorf("it could not be used within %s (start_timeout)", c.StartTimeout))
	})
	s, err := open(ctx, c, program, log, tail)
	inTime := late.Stop()
	if err == nil && !inTime {
		s.end()
		err = context.Cause(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, lifecycle.ErrStopping) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		stop(nil)
		return nil, err
	}
	go func() {
		defer stop(nil)
		_ = s.Wait() // why is told by the calls and by the process
		close(s.over)
	}()
	return s, nil
}

func open(ctx context.Context, c Config, program string, log *slog.Logger, tail *logTail) (*session, error) {
	s := &session{change: make(chan struct{}, 1), over: make(chan struct{})}
	var transport mcp.Transport
	var err error
	if c.URL == "" {
		if s.child, err = startChild(c, program, log, tail); err != nil {
			return nil, err
		}
		transport = s.child
	} else if transport, err = remote(c); err != nil {
		return nil, err
	}
	s.tap = newTap(transport)
	client := mcp.NewClient(&mcp.Implementation{Name: "mulligan", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{}, // nothing that a tool could ask of whoever calls it
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.tap.changed.Store(false)
			select {
			case s.change <- struct{}{}:
			default:
			}
		},
	})
	s.ClientSession, err = client.Connect(ctx, s.tap, nil)
	if err == nil {
		return s, nil
	}
	if s.child != nil {
		if ctx.Err() != nil {
			s.child.kill("it was not ready")
		}
		_ = s.child.Close()
		err = fmt.Errorf("%w; %w", err, s.child.wait())
	}
	return nil, err
}

// list asks for all tools, page by page, up to one more than most.
func (x *session) list(ctx context.Context, most int) ([]*mcp.Tool, error) {
	var out []*mcp.Tool
	params := &mcp.ListToolsParams{}
	for range maxPages {
		page, err := x.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Tools...)
		if page.NextCursor == "" || page.NextCursor == params.Cursor || len(out) > most {
			return out, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return out, nil
}

// keyMeta is the name of the idempotency key in the _meta of a request.
const keyMeta = "mulligan/idempotency-key"

// call sends one call and returns what became of the exchange.
func (x *session) call(ctx context.Context, name, key string, input []byte, e *exchange) error {
	x.calls.Add(1)
	defer x.calls.Add(-1)
	ctx, cancel := context.WithCancel(ctx) // ends what the server goes on sending after its answer
	defer cancel()
	token := strconv.FormatInt(x.tokens.Add(1), 10)
	defer x.tap.track(token, e)()
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(input)}
	params.Meta = mcp.Meta{}
	if key != "" {
		params.Meta[keyMeta] = key
	}
	params.SetProgressToken(token)
	heard := x.tap.heard.Load()
	_, err := x.CallTool(e.within(ctx), params)
	if x.tap.heard.Load() != heard {
		x.silent.Store(0)
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) && x.silent.Add(1) >= maxSilent {
		x.kill(errHung)
	}
	return err
}

// kill ends the session without waiting for the calls that it has.
func (x *session) kill(why error) {
	if x.child != nil {
		x.child.kill(why.Error())
		return
	}
	_ = x.tap.Close() // it is of no use any more
}

// end closes the session, and waits until nothing of it is left.
func (x *session) end() {
	_ = x.tap.Close() // first, since the library waits for the calls that it has
	_ = x.Close()
	if x.child != nil {
		<-x.child.exited
	}
}
