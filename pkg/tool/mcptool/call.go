package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/excerpt"
	"mulligan/pkg/messages"
	"mulligan/pkg/tool"
	"mulligan/pkg/tool/declared"
	"mulligan/pkg/tool/httptool"
)

const (
	progressLines = 20  // of one call that the log takes
	maxProgress   = 500 // bytes of its message
)

// codeRejected is the code that the library gives to a request which HTTP
// refused without a word of the protocol.
const codeRejected = -32005

// call runs one tool of the server, which knows it as theirs and the pool as name.
func (s *Server) call(ctx context.Context, name, theirs string, c tool.Call) (tool.Output, error) {
	if in := bytes.TrimSpace(c.Input); len(in) == 0 || in[0] != '{' || !json.Valid(in) {
		return tool.Output{}, tool.Invalid(fmt.Errorf("the arguments of tool %q are not a JSON object", name))
	}
	on, err := s.choose(name)
	if err != nil {
		return tool.Output{}, err
	}
	x := &exchange{progress: s.logProgress(c.Log)}
	err = on.call(ctx, theirs, c.Key, c.Input, x)
	if answer, status, _ := x.known(); answer != nil && status < 300 {
		out, failed := s.answer(name, answer)
		if failed != nil && ctx.Err() != nil { // what it says of a request that was cancelled is no word on its effect
			return tool.Output{}, context.Cause(ctx)
		}
		return out, failed
	}
	return s.unanswered(ctx, name, on, x, err)
}

// logProgress is called by one goroutine.
func (s *Server) logProgress(log *slog.Logger) func(progress) {
	lines := 0
	return func(p progress) {
		if lines++; lines <= progressLines {
			log.Debug("progress of a tool", "progress", p.Progress, "total", p.Total, "message", excerpt.Of(s.finder.Hide(p.Message), maxProgress))
		}
	}
}

// answer is what the server said. It is definite, whatever it is, unless it
// cannot be read (S6.1).
func (s *Server) answer(name string, r *jsonrpc.Response) (tool.Output, error) {
	if r.Error != nil {
		return tool.Output{}, s.refusal(name, r.Error)
	}
	result, ok := readResult(r.Result)
	if !ok {
		return tool.Output{}, tool.Ambiguous(fmt.Errorf("Tool %q of MCP server %q answered with what is no result: %s",
			name, s.cfg.Name, excerpt.Of(string(r.Result), maxLogLine)))
	}
	out := result.output(r.Result)
	if !result.IsError {
		return tool.Output{Body: out}, nil
	}
	if len(out) == 0 {
		return tool.Output{}, fmt.Errorf("Tool %q failed without a text", name)
	}
	return tool.Output{}, &tool.Failure{Code: messages.CodeToolError, Text: excerpt.Of(result.text(), messages.MaxErrorText), Body: out}
}

// refusal reads an error of the protocol. One that is of no server is made by
// the transport, of a request that it lost.
func (s *Server) refusal(name string, err error) error {
	var said *jsonrpc.Error
	switch {
	case !errors.As(err, &said):
		return tool.ConnectionLost(fmt.Errorf("Tool %q of MCP server %q lost its answer: %s", name, s.cfg.Name, s.finder.Hide(err.Error())))
	case said.Code == jsonrpc.CodeInvalidParams:
		return tool.Invalid(errors.New(said.Message))
	case said.Message == "":
		return fmt.Errorf("MCP server %q failed with code %d and no text", s.cfg.Name, said.Code)
	}
	return errors.New(said.Message)
}

// unanswered is definite where nothing of the request was sent, or where the
// server refused it, and else ambiguous (S7.3).
func (s *Server) unanswered(ctx context.Context, name string, on *session, x *exchange, err error) (tool.Output, error) {
	_, status, after := x.known()
	var end *tool.Stop
	var said *jsonrpc.Error
	switch {
	case status >= 300 && errors.As(err, &said) && said.Code != codeRejected:
		return tool.Output{}, s.refusal(name, said)
	case errors.Is(err, mcp.ErrSessionMissing):
		on.kill(err)
		return tool.Output{}, tool.Unavailable(fmt.Errorf("Tool %q cannot be called now: MCP server %q has forgotten the session", name, s.cfg.Name), firstPause)
	case status >= 300:
		rule := declared.Rule{Outcome: httptool.ByStatus(status), After: after}
		return tool.Output{}, rule.Apply(fmt.Errorf("MCP server %q answered with HTTP %d: %s", s.cfg.Name, status, s.finder.Hide(err.Error())))
	case ctx.Err() != nil && x.sent.Load():
		return tool.Output{}, context.Cause(ctx)
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &end):
		return tool.Output{}, &tool.Failure{Code: end.Code, Text: fmt.Sprintf("Tool '%s' %s", name, end.Reason)}
	case ctx.Err() != nil:
		return tool.Output{}, tool.Definite(fmt.Errorf("Tool %q was not called: %w", name, context.Cause(ctx)))
	case !x.sent.Load():
		return tool.Output{}, tool.Unavailable(fmt.Errorf("Tool %q cannot be called now: MCP server %q could not be reached: %s", name, s.cfg.Name, s.reason(on, err)), firstPause)
	}
	return tool.Output{}, tool.ConnectionLost(fmt.Errorf("MCP server %q was lost while it ran tool %q: %s", s.cfg.Name, name, s.reason(on, err)))
}

// reason is why a session was lost: how its process ended, if it has one.
func (s *Server) reason(on *session, err error) string {
	if on.child != nil {
		err = on.ended()
	}
	return s.finder.Hide(err.Error())
}
