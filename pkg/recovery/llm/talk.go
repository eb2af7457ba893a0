package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/sony/gobreaker/v2"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

const (
	maxRepeats = 2 // of a request that the endpoint could not take for the moment
	maxManners = 7 // ways of asking that are tried for one question
)

// reply is what came of one request.
type reply struct {
	text  string
	usage messages.Usage
}

// trouble is why a request gave no answer that can be read.
type trouble struct {
	text     string
	endpoint bool // the endpoint is ill: its breaker counts it
	unsent   bool // nothing was learned of the endpoint
	taken    bool // the endpoint took the request, and its answer is of no use
	again    bool // the same request may do a moment later
	after    time.Duration

	status      int // of a refusal
	said, param string
}

func (t *trouble) Error() string { return t.text }

func asTrouble(err error) *trouble {
	var t *trouble
	errors.As(err, &t)
	return t
}

// talk asks until there is a text to read: in another manner when the endpoint
// refuses the one it was asked in, again when it could not answer for the
// moment. The usage is that of all requests.
func (r *Reflector) talk(ctx context.Context, q *question) (string, format, messages.Usage, error) {
	var usage messages.Usage
	pauses := pace.New(500*time.Millisecond, 4*time.Second)
	m := r.manners.forQuestion(q)
	for repeats, tried := 0, 1; ; {
		got, err := r.breaker.Execute(func() (reply, error) { return r.send(ctx, q, m) })
		usage = usage.Plus(got.usage)
		if err == nil {
			r.manners.took(q, m)
			return got.text, m.format, usage, nil
		}
		t := asTrouble(err)
		if t == nil { // the breaker's own
			return "", m.format, usage, fmt.Errorf("the model is not available: its breaker is %s", breakerState(err))
		}
		next, other := m.after(t.status, t.said, t.param)
		switch {
		case other && tried < maxManners:
			r.cfg.Log.Info("the endpoint refused a request, which is made in another manner", "model", r.cfg.Model, "said", t.text)
			m = next
			tried++
		case t.again && repeats < maxRepeats:
			if err := pause(ctx, max(t.after, pauses.Next())); err != nil {
				return "", m.format, usage, fmt.Errorf("%w; it was not tried again: %w", t, err)
			}
			repeats++
		default:
			if t.taken {
				r.manners.took(q, m)
			}
			return "", m.format, usage, t
		}
	}
}

func breakerState(err error) string {
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		return "half open, and another request tries it"
	}
	return fmt.Sprintf("open, after %d requests in a row that it did not answer", breakAfter)
}

// pause waits, unless that would take longer than there is time.
func pause(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return fmt.Errorf("that would be in %v at the soonest", d.Round(time.Millisecond))
	}
	if !pace.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// send makes one request.
func (r *Reflector) send(ctx context.Context, q *question, m manner) (reply, error) {
	if err := r.window.wait(ctx); err != nil {
		return reply{}, &trouble{text: err.Error(), unsent: true}
	}
	req, asked := r.request(q, m)
	ex := &exchange{zeroTemperature: !m.noTemperature}
	resp, err := r.client.CreateChatCompletion(withExchange(ctx, ex), req)
	if errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated) { // the library knows the model, and sent nothing
		return reply{}, &trouble{text: err.Error(), unsent: true, status: 400, said: "use max_completion_tokens", param: "max_tokens"}
	}
	out := reply{text: contentOf(resp)}
	out.usage = r.usage(resp, asked, len(out.text))
	if err != nil || ex.status >= 300 || len(resp.Choices) == 0 {
		return out, r.failed(ctx, ex, err)
	}
	return out, answerTrouble(resp.Choices[0], out.text)
}

// request is what is sent, and how many bytes of text are in it.
func (r *Reflector) request(q *question, m manner) (openai.ChatCompletionRequest, int) {
	system, user := q.system(r.cfg.SystemPrompt, m.format), q.user()
	req := openai.ChatCompletionRequest{Model: r.cfg.Model, ResponseFormat: q.responseFormat(m.format)}
	if m.noSystem {
		req.Messages = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: system + "\n\n" + user}}
	} else {
		req.Messages = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: system}, {Role: openai.ChatMessageRoleUser, Content: user}}
	}
	if m.completionTokens {
		req.MaxCompletionTokens = r.cfg.MaxTokens
	} else {
		req.MaxTokens = r.cfg.MaxTokens //nolint:staticcheck // local servers know no other name
	}
	return req, len(system) + len(user)
}

func contentOf(resp openai.ChatCompletionResponse) string {
	if len(resp.Choices) == 0 {
		return ""
	}
	m := resp.Choices[0].Message
	if m.Content != "" {
		return m.Content
	}
	var b strings.Builder
	for _, part := range m.MultiContent {
		b.WriteString(part.Text)
	}
	return b.String()
}

// answerTrouble is what is wrong with an answer before its text is read; an
// error only where there is something.
func answerTrouble(c openai.ChatCompletionChoice, text string) error {
	switch {
	case c.Message.Refusal != "":
		return &trouble{text: "the model refused to answer: " + quote(c.Message.Refusal), taken: true}
	case c.FinishReason == openai.FinishReasonLength:
		return &trouble{text: "the model's answer was truncated; it may need more tokens than it is given", taken: true}
	case c.FinishReason == openai.FinishReasonContentFilter:
		return &trouble{text: "the model's answer was withheld by a content filter", taken: true}
	case len(c.Message.ToolCalls) > 0 || c.Message.FunctionCall != nil:
		return &trouble{text: "the model called a tool in place of an answer", taken: true}
	case strings.TrimSpace(text) == "":
		return &trouble{text: "the model's answer is empty", taken: true}
	}
	return nil
}

// failed says what was wrong with the endpoint or the request.
func (r *Reflector) failed(ctx context.Context, ex *exchange, err error) *trouble {
	said, param := ex.complaint()
	shown := quote(r.redactor.withhold("endpoint").text(cut(said, 2000)))
	switch {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		return &trouble{text: cause.Error(), endpoint: errors.Is(ctx.Err(), context.DeadlineExceeded), unsent: errors.Is(ctx.Err(), context.Canceled)}
	case ex.tooLong:
		return &trouble{text: fmt.Sprintf("the endpoint's answer is longer than %d bytes", maxBody), endpoint: true}
	case ex.status == 0:
		return &trouble{text: "the endpoint cannot be reached: " + quote(r.redactor.withhold("endpoint").text(err.Error())), endpoint: true, again: true}
	case ex.status >= 300 && ex.status < 400:
		return &trouble{text: fmt.Sprintf("the endpoint answered with a redirect (status %d), which is not followed; give the address that it leads to", ex.status), endpoint: true}
	case ex.status == 429 || ex.status >= 500 || ex.status == 408 || ex.status == 425:
		again := ex.status != 501 && !mentions(said, "insufficient_quota")
		return &trouble{text: fmt.Sprintf("the endpoint answered with status %d: %s", ex.status, shown), endpoint: true, again: again, after: ex.retryAfter,
			status: ex.status, said: said, param: param}
	case ex.status >= 400:
		return &trouble{text: fmt.Sprintf("the endpoint refused the request with status %d: %s", ex.status, shown),
			endpoint: ex.status != 400 && ex.status != 413 && ex.status != 422, status: ex.status, said: said, param: param}
	case ex.saysError():
		status := cmp.Or(ex.innerStatus(), 500)
		return &trouble{text: "the endpoint answered with an error: " + shown, endpoint: true, again: status == 429 || status >= 500, after: ex.retryAfter,
			status: status, said: said, param: param}
	case err != nil:
		return &trouble{text: "the endpoint's answer is no chat completion: " + shown, endpoint: true}
	}
	return &trouble{text: "the endpoint's answer has no choices", endpoint: true}
}
