package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/inbox"
	"mulligan/internal/keys"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// KeyMeta is where the `_meta` of a request holds its idempotency key: the same
// place in which workers give it to the servers of MCP that they run.
const KeyMeta = "mulligan/idempotency-key"

// traceparent is of W3C's trace context, which MCP has in `_meta` under its own name.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// parting is how long a cancellation is tried to be stored.
const parting = 10 * time.Second

// callTool runs one call and waits for its end, or for what it needs first.
func (s *Server) callTool(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	p, err := s.pending(ctx, r)
	var refused *client.RefusedError
	if errors.As(err, &refused) {
		return s.finished(r, refusal(refused.Refusal)), nil
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	res, err := s.wait(ctx, r, p)
	if err != nil {
		return nil, s.parted(ctx, p, err)
	}
	if end, ok := res.(*result); ok {
		return s.finished(r, end), nil
	}
	return res, nil
}

// pending is the call of a request: a new one, or the one whose question it
// brings the answer to.
func (s *Server) pending(ctx context.Context, r *mcp.CallToolRequest) (*client.Pending, error) {
	// A cancellation in the middle would leave open whether there is a call to
	// cancel; the wait sees it in a moment. The patience of the client bounds this.
	ctx = context.WithoutCancel(ctx)
	if r.Params.RequestState == "" {
		return s.begin(ctx, r)
	}
	m, told, err := s.known(ctx, r.Params.RequestState)
	if err != nil {
		return nil, err
	}
	if told.Tool != r.Params.Name || !s.cfg.May.Answer {
		return nil, invalid("requestState is not of a question that this request may answer")
	}
	if err := s.answerAll(ctx, m.Run, m.Call, r.Params.InputResponses); err != nil {
		return nil, wrongAnswer(err)
	}
	p, err := s.cfg.Client.Attend(ctx, m.Run, m.Call)
	return p, troubled(err)
}

// begin submits the call of a request, or finds the one that its key stands for.
func (s *Server) begin(ctx context.Context, r *mcp.CallToolRequest) (*client.Pending, error) {
	name := r.Params.Name
	if !s.has(name) {
		return nil, s.unknownTool(name)
	}
	input := r.Params.Arguments
	if len(input) == 0 || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	sub := messages.Submission{Tool: name, Input: input}
	if s.asked(r.ClientCapabilities()) {
		sub.Policy = askPolicy
	}
	if trace, _ := r.Params.Meta["traceparent"].(string); traceparent.MatchString(trace) {
		sub.Trace = trace
	}
	key, given := r.Params.Meta[KeyMeta]
	if !given {
		p, err := s.cfg.Client.Batch().Begin(ctx, sub, false)
		return p, troubled(err)
	}
	id, err := s.identify(ctx, key, name, input)
	if err != nil {
		return nil, err
	}
	sub.Call = id
	batch, err := s.cfg.Client.OpenBatch(id, 0) // found again by its id
	if err != nil {
		return nil, err
	}
	p, err := batch.Begin(ctx, sub, true)
	return p, troubled(err)
}

// identify gives the call that a key stands for.
func (s *Server) identify(ctx context.Context, key any, tool string, input []byte) (string, error) {
	text, _ := key.(string)
	if err := keys.Check(text); err != nil {
		return "", invalid("_meta: %s: %v", KeyMeta, err)
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "tools/call\n%q\n", tool) // a hash takes anything
	_, _ = h.Write(input)
	id, err := keys.ID(ctx, s.cfg.Broker, s.cfg.Name, text, hex.EncodeToString(h.Sum(nil)))
	var reused *keys.ReusedError
	switch {
	case errors.As(err, &reused):
		return "", invalid("_meta: %s: %v", KeyMeta, reused)
	case errors.Is(err, messages.ErrForbidden):
		return "", invalid("_meta: %s: whoever this server is at NATS may not keep keys, which go into RUNS; leave the key out, or ask /mcp of a gateway", KeyMeta)
	case err != nil:
		return "", troubled(err)
	}
	return id, nil
}

// wait gives the end of a call, or a task or a question in place of it.
func (s *Server) wait(ctx context.Context, r *mcp.CallToolRequest, p *client.Pending) (mcp.Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	defer context.AfterFunc(s.stopping, func() { stop(errStopping) })()
	if s.cfg.Wait > 0 {
		defer time.AfterFunc(s.cfg.Wait, func() { stop(errWaitOver) }).Stop()
	}
	tasks := hasTasks(r.ProtocolVersion(), r.ClientCapabilities())
	if tasks {
		defer time.AfterFunc(s.cfg.Task, func() { stop(errTask) }).Stop()
	}
	question := make(chan *inbox.Question, 1)
	if s.asked(r.ClientCapabilities()) {
		group.Go(func() {
			err := s.ask(ctx, r, p.Run, p.Call, func(q *inbox.Question) {
				question <- q
				stop(errAsked)
			})
			if err != nil {
				stop(err)
			}
		})
	}
	told := s.follow(ctx, r, p.Call)
	ended, err := p.Wait(ctx)
	told(err == nil && (ended.Attempts > 1 || ended.Status != messages.Succeeded))
	switch whole := context.WithoutCancel(ctx); {
	case err == nil:
		return s.resultOf(ctx, ended)
	case errors.Is(err, errTask), errors.Is(err, errAsked) && tasks:
		return s.asTask(whole, r, p.Call)
	case errors.Is(err, errAsked):
		return s.wants(whole, <-question)
	}
	return nil, err
}

// resultOf is how a call ended, with its output.
func (s *Server) resultOf(ctx context.Context, ended messages.Result) (*result, error) {
	output, err := s.cfg.Client.Output(ctx, ended)
	if errors.Is(err, messages.ErrNotFound) {
		output, err = nil, nil
		ended.Reason = fmt.Sprintf("the output of %d bytes has outlived its retention; %s", ended.Output.Size(), ended.Reason)
		ended.IsError = true
	}
	if err != nil {
		return nil, err
	}
	return endOf(ended, output), nil
}

// parted words why a call was not waited for to its end, and cancels it where
// the client wished so: one that merely went away did not.
func (s *Server) parted(ctx context.Context, p *client.Pending, err error) error {
	switch {
	case errors.Is(err, errStopping), errors.Is(err, errWaitOver):
		cause := errWaitOver
		if errors.Is(err, errStopping) {
			cause = errStopping
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%v; call %s goes on, and the same request with the same %s waits on", cause, p.Call, KeyMeta)}
	case context.Cause(ctx) == context.Canceled: //nolint:errorlint // the wish of the client, and no other end, has no cause of its own
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
		if _, cerr := s.cfg.Client.Cancel(ctx, messages.CancelRequest{Run: p.Run, Call: p.Call, Reason: "cancelled by the client of MCP"}); cerr != nil {
			s.cfg.Log.Warn("a call was not cancelled", "call", p.Call, "error", cerr)
		}
		return context.Canceled
	case ctx.Err() != nil:
		s.cfg.Log.Info("whoever called is gone; the call goes on", "call", p.Call)
	}
	return troubled(err)
}

// troubled makes an error of the pool one of the protocol; what is one, and a
// refusal, stay.
func troubled(err error) error {
	var refused *client.RefusedError
	var said *jsonrpc.Error
	if err == nil || errors.As(err, &refused) || errors.As(err, &said) {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}
