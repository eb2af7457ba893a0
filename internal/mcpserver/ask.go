package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mulligan/internal/inbox"
	"mulligan/internal/pace"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// askPolicy is of the calls of a client that can be asked: what needs a human
// waits for one, who is there.
var askPolicy = json.RawMessage(`{"ask_user":"park"}`)

// asked says whether the client of a request can be asked by a form, and this
// server may answer for it.
func (s *Server) asked(caps *mcp.ClientCapabilities) bool {
	if !s.cfg.May.Answer || caps == nil || caps.Elicitation == nil {
		return false
	}
	return caps.Elicitation.Form != nil || caps.Elicitation.URL == nil // neither stands for forms (before 2025-11-25)
}

// ask puts the questions of a call to the client as long as ctx lasts: directly
// where the revision has requests of servers, else by handing them to ask.
func (s *Server) ask(ctx context.Context, r *mcp.CallToolRequest, run messages.Run, call string, ask func(*inbox.Question)) error {
	told := -1
	for p := pace.New(firstLook, lastLook); p.Wait(ctx); {
		q, err := s.question(ctx, run, call)
		if err != nil || q == nil || q.Dispatch == told {
			continue // it is looked again
		}
		told = q.Dispatch
		if r.ProtocolVersion() >= stateless {
			ask(q)
			return nil
		}
		form, err := s.form(ctx, q)
		if err != nil {
			continue
		}
		given, err := r.Session.Elicit(ctx, form)
		if err != nil {
			s.cfg.Log.Debug("a question was not answered, and waits for somebody else", "call", call, "error", err)
			continue
		}
		if err := s.answer(ctx, q, given); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// question is what a call asks now; nil for nothing.
func (s *Server) question(ctx context.Context, run messages.Run, call string) (*inbox.Question, error) {
	e, err := s.cfg.Broker.Load(ctx, messages.BucketAttempts, messages.CallKey(run, call))
	if errors.Is(err, messages.ErrNotFound) {
		return nil, nil // it never failed
	}
	if err != nil {
		return nil, err
	}
	r, err := messages.DecodeRecord(e.Value)
	if err != nil || r.State != messages.Parked {
		return nil, err
	}
	return inbox.Ask(ctx, s.cfg.Broker, inbox.Place{Run: run, Call: call, Dispatch: r.N, AnswerBy: r.AnswerBy})
}

// Fields of the form, and of what it is answered with.
const (
	fieldAnswer = "answer"
	fieldInput  = "input"
	fieldReason = "reason"
)

// form is a question as an elicitation: all that there is to read before one
// answers, and what can be answered.
func (s *Server) form(ctx context.Context, q *inbox.Question) (*mcp.ElicitParams, error) {
	if err := q.AddInput(ctx, s.cfg.Broker); err != nil {
		return nil, err
	}
	var text strings.Builder
	_ = q.WriteText(&text, time.Now()) // a builder takes anything
	properties := map[string]any{
		fieldAnswer: map[string]any{"type": "string", "enum": q.Answers, "title": "Answer", "description": explain(q.Answers)},
		fieldReason: map[string]any{"type": "string", "title": "Reason", "description": "Why; the caller's model reads it."},
	}
	if slices.Contains(q.Answers, messages.AnswerEdit) {
		properties[fieldInput] = map[string]any{"type": "string", "title": "Input", "description": "The whole arguments as JSON, with the answer edit alone."}
	}
	return &mcp.ElicitParams{Mode: "form", Message: text.String(), RequestedSchema: map[string]any{
		"type": "object", "properties": properties, "required": []string{fieldAnswer},
	}}, nil
}

func explain(answers []messages.AnswerKind) string {
	means := map[messages.AnswerKind]string{
		messages.AnswerApprove: "approve: run it with what is proposed", messages.AnswerEdit: "edit: run it with other arguments", messages.AnswerRetry: "retry: run it again as it is",
		messages.AnswerSkip: "skip: it is not needed", messages.AnswerFail: "fail: it must not be done",
	}
	var out []string
	for _, a := range answers {
		out = append(out, means[a])
	}
	return strings.Join(out, "; ") + "."
}

// answerError says that what was given is no answer to a question.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// answer makes what came of an elicitation the answer of a question. Who
// declined said no, and who closed the form that the call is not needed. That
// somebody else was first is no error: their answer counts.
func (s *Server) answer(ctx context.Context, q *inbox.Question, given *mcp.ElicitResult) error {
	a := messages.AnswerRequest{Run: q.Place.Run, Call: q.Call, Dispatch: q.Dispatch}
	switch given.Action {
	case "decline":
		a.Kind, a.Reason = messages.AnswerFail, "declined"
	case "cancel":
		a.Kind, a.Reason = messages.AnswerSkip, "closed without an answer"
	case "accept":
		word, _ := given.Content[fieldAnswer].(string)
		if a.Kind = messages.AnswerKind(word); !slices.Contains(q.Answers, a.Kind) {
			return &answerError{fmt.Sprintf("%s is none of %v", fieldAnswer, q.Answers)}
		}
		a.Reason, _ = given.Content[fieldReason].(string)
		if input, _ := given.Content[fieldInput].(string); a.Kind == messages.AnswerEdit {
			a.Input = &messages.Body{Inline: []byte(input)}
		}
	default:
		return &answerError{fmt.Sprintf("action %.40q is none of accept, decline, cancel", given.Action)}
	}
	if len(a.Reason) > messages.MaxText {
		return &answerError{fmt.Sprintf("%s is %d bytes long, the limit is %d", fieldReason, len(a.Reason), messages.MaxText)}
	}
	err := s.cfg.Client.Answer(ctx, a)
	var refused *client.AnswerError
	if errors.As(err, &refused) {
		if refused.First != nil || refused.Code == messages.CodeNotParked || refused.Code == messages.CodeNotFound {
			return nil
		}
		return &answerError{refused.Text}
	}
	return err
}

// questionKey names a question among those of a call, which are never two at a time.
func questionKey(dispatch int) string { return "question-" + strconv.Itoa(dispatch) }

// answerAll answers what a call asks by what a client brought; keys of other
// questions are left alone.
func (s *Server) answerAll(ctx context.Context, run messages.Run, call string, given mcp.InputResponseMap) error {
	q, err := s.question(ctx, run, call)
	if err != nil || q == nil {
		return err
	}
	r, there := given[questionKey(q.Dispatch)]
	if !there {
		return nil
	}
	form, ok := r.(*mcp.ElicitResult)
	if !ok {
		return &answerError{"the response is of another kind than the request, which was an elicitation"}
	}
	return s.answer(ctx, q, form)
}

// requests are a question as the requests that a client answers in a message of
// its own.
func (s *Server) requests(ctx context.Context, q *inbox.Question) (mcp.InputRequestMap, error) {
	form, err := s.form(ctx, q)
	if err != nil {
		return nil, err
	}
	return mcp.InputRequestMap{questionKey(q.Dispatch): form}, nil
}

// wanted is the result of a request that is asked again with answers.
type wanted struct {
	mcp.ResultBase
	ResultType string              `json:"resultType"`
	Requests   mcp.InputRequestMap `json:"inputRequests"`
	// State is the id of the call. It opens nothing that the client may not see
	// and answer by the id of a call anyway, which is looked at again.
	State string `json:"requestState"`
}

func (s *Server) wants(ctx context.Context, q *inbox.Question) (mcp.Result, error) {
	requests, err := s.requests(ctx, q)
	if err != nil {
		return nil, troubled(err)
	}
	return &wanted{ResultType: "input_required", Requests: requests, State: q.Call}, nil
}
