package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"mulligan/internal/excerpt"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// problem is an error as RFC 9457 has it, with members of ours.
type problem struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail"`
	Code   messages.Code `json:"code"`
	// Field and Value are what cannot be used.
	Field      string          `json:"field,omitempty"`
	Value      string          `json:"value,omitempty"`
	Call       string          `json:"call,omitempty"`
	Ref        string          `json:"ref,omitempty"`
	RetryAfter messages.Millis `json:"retry_after_ms,omitempty"`
	RequestID  string          `json:"request_id"`

	allow string // methods
}

func (p *problem) Error() string { return p.Detail }

// Codes of the gateway's own; the others are those of docs/wire.md.
const (
	codeUnauthorized   messages.Code = "unauthorized"
	codeForbidden      messages.Code = "forbidden"
	codeNoSuchPath     messages.Code = "no_such_path"
	codeBadMethod      messages.Code = "bad_method"
	codeBadType        messages.Code = "bad_media_type"
	codeBadParameter   messages.Code = "bad_parameter"
	codeTooManyCalls   messages.Code = "too_many_calls"
	codeTooManyAsked   messages.Code = "too_many_requests"
	codeBusy           messages.Code = "busy"
	codeKeyReused      messages.Code = "key_reused"
	codeUnreachable    messages.Code = "pool_unreachable"
	codeUncertain      messages.Code = "uncertain"
	codeSlow           messages.Code = "request_timeout"
	codeBroken         messages.Code = "bad_request"
	codeNotFinished    messages.Code = "not_finished"
	codeInternal       messages.Code = "internal"
	codeCrossOrigin    messages.Code = "cross_origin"
	codeForeignHost    messages.Code = "foreign_host"
	codeNotReady       messages.Code = "not_ready"
	codeAnswerRefused  messages.Code = "answer_refused"
	maxShownValue                    = 80
	problemType                      = "application/problem+json"
	problemNamespace                 = "urn:mulligan:problem:"
	retryWhenBusy                    = time.Second
	retryWhenUncertain               = time.Second
)

func fail(status int, code messages.Code, format string, args ...any) *problem {
	return &problem{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// about names the field and the value that cannot be used.
func (p *problem) about(field, value string) *problem {
	p.Field, p.Value = field, excerpt.Head(value, maxShownValue)
	return p
}

func (p *problem) after(d time.Duration) *problem {
	p.RetryAfter = messages.Millis(d)
	return p
}

// complete fills what follows from the rest.
func (p *problem) complete(id string) {
	p.Type, p.Title, p.RequestID = problemNamespace+string(p.Code), http.StatusText(p.Status), id
}

// send answers with the problem.
func (p *problem) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", problemType)
	if p.RetryAfter > 0 {
		seconds := (p.RetryAfter.Duration() + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="mulligan"`)
	}
	b, err := json.Marshal(p)
	if err != nil {
		b = []byte(`{}`) // it holds texts and numbers only
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n')) // whoever asked may be gone
}

// problemOf words any error for whoever asked. What it cannot word is told as
// little as possible of; the log has the rest.
func problemOf(err error) *problem {
	var p *problem
	var refused *client.RefusedError
	var uncertain *client.UncertainError
	var answer *client.AnswerError
	var unreadable *client.UnreadableError
	var run *client.RunError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused):
		return refusal(refused.Refusal)
	case errors.As(err, &answer):
		return refusedAnswer(answer)
	case errors.As(err, &run):
		return refusedRun(run)
	case errors.As(err, &uncertain):
		return fail(http.StatusServiceUnavailable, codeUncertain,
			"no coordinator confirmed the submission, and the calls may have been accepted; ask again with the same Idempotency-Key, which runs nothing twice").after(retryWhenUncertain)
	case errors.As(err, &unreadable):
		return fail(http.StatusBadGateway, messages.CodeVersion, "%v", unreadable)
	case errors.Is(err, messages.ErrNoResponder):
		return fail(http.StatusServiceUnavailable, codeUnreachable, "no coordinator answers; try again in a moment").after(retryWhenUncertain)
	case errors.Is(err, messages.ErrForbidden):
		return fail(http.StatusInternalServerError, codeInternal, "the gateway itself may not do this at the broker; tell who operates it")
	case errors.Is(err, messages.ErrNotFound):
		return fail(http.StatusNotFound, messages.CodeNotFound, "there is no such call, or its retention is over")
	case errors.Is(err, client.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, errStopping):
		return fail(http.StatusServiceUnavailable, codeUnreachable, "the pool did not answer in time; try again in a moment").after(retryWhenUncertain)
	}
	return fail(http.StatusInternalServerError, codeInternal, "the gateway failed; its log says why, under this request_id")
}

// refusal words why a call was not accepted.
func refusal(r messages.Refusal) *problem {
	status := http.StatusUnprocessableEntity
	switch r.Code {
	case messages.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case messages.CodeQueueFull, messages.CodeRunFull, messages.CodeNotStored:
		status = http.StatusServiceUnavailable
	case messages.CodeDeadlinePassed, messages.CodeTooOld, messages.CodeRunIsOver, messages.CodeRunClosed:
		status = http.StatusConflict
	}
	return &problem{Status: status, Code: r.Code, Detail: r.Text, Call: r.Call, Ref: r.Ref, RetryAfter: r.RetryAfter}
}

// refusedAnswer words why an answer to a question does not count.
func refusedAnswer(e *client.AnswerError) *problem {
	status := http.StatusConflict
	switch e.Code {
	case messages.CodeNotFound:
		status = http.StatusNotFound
	case messages.CodeBadCall, messages.CodeInvalidArguments:
		status = http.StatusUnprocessableEntity
	case messages.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	}
	code := e.Code
	if code == "" {
		code = codeAnswerRefused
	}
	return &problem{Status: status, Code: code, Detail: e.Text, Call: e.Call}
}
