package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/excerpt"
	"mulligan/internal/keys"
	"mulligan/internal/story"
	"mulligan/pkg/messages"
)

// TasksExtension is the name of the extension for tasks (SEP-2663). A task is a
// call, under its id.
const TasksExtension = "io.modelcontextprotocol/tasks"

// Methods of the extension.
const (
	methodTaskGet    = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
)

// pollEvery is how often a client is to ask about a task.
const pollEvery = time.Second

// taskParams are those of all methods of the extension.
type taskParams struct {
	mcp.ParamsBase
	TaskID    string               `json:"taskId"`
	Responses mcp.InputResponseMap `json:"inputResponses,omitempty"` // of an update
}

// taskStatus is where a task stands.
type taskStatus string

// The statuses.
const (
	taskWorking   taskStatus = "working"
	taskInput     taskStatus = "input_required"
	taskCompleted taskStatus = "completed"
	taskFailed    taskStatus = "failed" // by an error of the protocol; a tool's own is completed
	taskCancelled taskStatus = "cancelled"
)

// task is a call as the extension has it.
type task struct {
	mcp.ResultBase
	ResultType string              `json:"resultType"`
	ID         string              `json:"taskId"`
	Status     taskStatus          `json:"status"`
	Message    string              `json:"statusMessage,omitempty"`
	Created    time.Time           `json:"createdAt"`
	Updated    time.Time           `json:"lastUpdatedAt"`
	TTL        int64               `json:"ttlMs"`
	Poll       int64               `json:"pollIntervalMs"`
	Requests   mcp.InputRequestMap `json:"inputRequests,omitempty"`
	Result     *result             `json:"result,omitempty"`
	Error      *jsonrpc.Error      `json:"error,omitempty"`
}

// done acknowledges.
type done struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// hasTasks says whether a client said that it takes tasks. Before 2026-07-28
// there is no such extension.
func hasTasks(version string, caps *mcp.ClientCapabilities) bool {
	if version < stateless || caps == nil {
		return false
	}
	_, there := caps.Extensions[TasksExtension]
	return there
}

// addTasks makes the SDK take the methods of the extension; they are handled in
// intercept, which sees the whole request.
func addTasks(s *mcp.Server) error {
	for _, method := range []string{methodTaskGet, methodTaskUpdate, methodTaskCancel} {
		err := mcp.AddReceivingCustomMethod(s, method, func(context.Context, *mcp.ServerSession, *taskParams) (*done, error) {
			return nil, errors.New("tasks are handled before")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// aboutTask handles the methods of the extension.
func (s *Server) aboutTask(ctx context.Context, method string, r *mcp.ServerRequest[*taskParams]) (mcp.Result, error) {
	if !hasTasks(r.ProtocolVersion(), r.ClientCapabilities()) {
		data, err := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{TasksExtension: map[string]any{}}}})
		if err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client has not said that it takes tasks: " + TasksExtension, Data: data}
	}
	if r.Params == nil {
		return nil, invalid("params: taskId is missing")
	}
	m, told, err := s.known(ctx, r.Params.TaskID)
	if err != nil {
		return nil, err
	}
	switch method {
	case methodTaskUpdate:
		if !s.cfg.May.Answer {
			return nil, invalid("this client may not answer for a human")
		}
		return &done{ResultType: "complete"}, wrongAnswer(s.answerAll(ctx, m.Run, m.Call, r.Params.Responses))
	case methodTaskCancel:
		if !s.cfg.May.Cancel {
			return nil, invalid("this client may not cancel tasks; the call goes on")
		}
		_, err := s.cfg.Client.Cancel(ctx, messages.CancelRequest{Run: m.Run, Call: m.Call, Reason: "cancelled by the client of MCP"})
		return &done{ResultType: "complete"}, troubled(err)
	}
	t, err := s.taskOf(ctx, r.ClientCapabilities(), m, told)
	if err != nil {
		return nil, troubled(err)
	}
	t.ResultType = "complete"
	return t, nil
}

// wrongAnswer words an answer that cannot be used as an error of the protocol.
func wrongAnswer(err error) error {
	var wrong *answerError
	if errors.As(err, &wrong) {
		return invalid("inputResponses: %s", wrong.text)
	}
	return troubled(err)
}

// known finds a call that this server's clients may see.
func (s *Server) known(ctx context.Context, id string) (*story.Material, story.Story, error) {
	unknown := invalid("there is no task %.60q, or it is kept no longer", id)
	if messages.CheckCallID(id) != nil {
		return nil, story.Story{}, unknown
	}
	m, err := story.Gather(ctx, s.cfg.Broker, id)
	if errors.Is(err, messages.ErrNotFound) {
		return nil, story.Story{}, unknown
	}
	if err != nil {
		return nil, story.Story{}, troubled(err)
	}
	told := story.Build(m, time.Now())
	if !s.has(told.Tool) && (told.Queue == "" || !s.cfg.Allowed(told.Tool, told.Queue)) {
		return nil, story.Story{}, unknown
	}
	return m, told, nil
}

// taskOf is where a call stands.
func (s *Server) taskOf(ctx context.Context, caps *mcp.ClientCapabilities, m *story.Material, told story.Story) (*task, error) {
	now := time.Now()
	t := &task{
		ID: m.Call, Status: taskWorking, Message: excerpt.Of(told.Now, maxSaid), Created: told.Submitted, Updated: updated(told),
		TTL: (now.Sub(told.Submitted) + keys.Kept).Milliseconds(), Poll: pollEvery.Milliseconds(),
	}
	if m.Record != nil && m.Record.Updated.After(t.Updated) {
		t.Updated = m.Record.Updated
	}
	switch {
	case m.Result != nil:
		return t, s.end(ctx, t, *m.Result)
	case slices.Contains(m.Unreadable, s.cfg.Broker.Names().ResultSubject(m.Run, m.Call)):
		t.Status, t.Message = taskFailed, "the call has ended, but its result cannot be read by this version"
		t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Message}
	case told.State == story.Parked && s.asked(caps):
		q, err := s.question(ctx, m.Run, m.Call)
		if err != nil || q == nil { // answered meanwhile
			return t, err
		}
		t.Status = taskInput
		t.Requests, err = s.requests(ctx, q)
		return t, err
	}
	return t, nil
}

// end fills in how a call ended. It is kept for a day from then.
func (s *Server) end(ctx context.Context, t *task, r messages.Result) error {
	t.Updated, t.TTL = r.Ended, (r.Ended.Sub(t.Created) + keys.Kept).Milliseconds()
	if r.Status == messages.Cancelled {
		t.Status, t.Message = taskCancelled, excerpt.Of(r.Reason, maxSaid)
		return nil
	}
	res, err := s.resultOf(ctx, r)
	if err != nil {
		return err
	}
	t.Status, t.Result = taskCompleted, res
	return nil
}

// updated is when something last happened to a call.
func updated(s story.Story) time.Time {
	last := s.Submitted
	for _, d := range s.Dispatches {
		for _, at := range []time.Time{d.Started, d.Failed} {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// asTask answers a request with its call as a task.
func (s *Server) asTask(ctx context.Context, r *mcp.CallToolRequest, call string) (mcp.Result, error) {
	m, told, err := s.known(ctx, call)
	if err != nil {
		return nil, fmt.Errorf("call %s goes on: %w", call, err)
	}
	t, err := s.taskOf(ctx, r.ClientCapabilities(), m, told)
	if err != nil {
		return nil, troubled(err)
	}
	if t.Result != nil { // it has just ended
		return s.finished(r, t.Result), nil
	}
	t.ResultType, t.Requests = "task", nil
	return t, nil
}
