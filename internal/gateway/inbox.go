package gateway

import (
	"errors"
	"net/http"
	"strconv"

	"mulligan/internal/inbox"
	"mulligan/internal/strict"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Of listing: how many are given where nobody says, and at the most.
const (
	someListed = 50
	mostListed = 1000
)

// limit reads the parameter limit.
func (x *exchange) limit() (int, error) {
	given := x.r.URL.Query().Get(paramLimit)
	if given == "" {
		return someListed, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > mostListed {
		return 0, fail(http.StatusBadRequest, codeBadParameter, "limit is no number from 1 to %d", mostListed).about(paramLimit, given)
	}
	return n, nil
}

// getInbox lists the calls that wait for a human, what ends soonest first.
func (x *exchange) getInbox() error {
	if err := x.parameters("tool", paramRun, paramLimit); err != nil {
		return err
	}
	n, err := x.limit()
	if err != nil {
		return err
	}
	run, q := inbox.AnyRun, x.r.URL.Query()
	if name := q.Get(paramRun); name != "" {
		run = messages.NamedRun(name)
		if err := run.Check(); err != nil {
			return fail(http.StatusBadRequest, codeBadParameter, "%v", err).about(paramRun, name)
		}
	}
	places, err := inbox.Places(x.ctx(), x.g.cfg.Broker, run)
	if err != nil {
		return err
	}
	var looked error
	keep := func(a *inbox.Question) bool {
		if tool := q.Get("tool"); tool != "" && a.Tool != tool {
			return false
		}
		ok, err := x.g.mayCall(x.ctx(), x.who, a.Tool)
		looked = errors.Join(looked, err)
		return ok
	}
	skip := func(e *inbox.UnreadableError) {
		x.g.cfg.Log.Warn("a question cannot be read and is left out", "call", e.Call, "error", e.Err)
	}
	asked, err := inbox.Read(x.ctx(), x.g.cfg.Broker, places, n, keep, skip)
	if err = errors.Join(err, looked); err != nil {
		return err
	}
	if asked == nil {
		asked = []*inbox.Question{}
	}
	return x.json(http.StatusOK, asked)
}

// answerBody is an answer to a question.
type answerBody struct {
	Answer string `json:"answer"`
	// Input is the new one, of edit. Text is it where it is no JSON, or to be kept byte for byte.
	Input  rawInput `json:"input"`
	Text   *string  `json:"input_text"`
	Reason string   `json:"reason"`
	// Dispatch is the one that was asked about, so that the answer meets the
	// question that was read; left out, it is for what is asked now.
	Dispatch *int `json:"dispatch"`
}

// rawInput is JSON as it was written.
type rawInput []byte

// UnmarshalJSON keeps the bytes.
func (r *rawInput) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

// answerGiven says that an answer counts, as `mulligan answer -o json` does.
type answerGiven struct {
	Call     string              `json:"call"`
	Answer   messages.AnswerKind `json:"answer"`
	Counts   bool                `json:"counts"`
	Dispatch int                 `json:"dispatch"`
}

// postAnswer answers a question.
func (x *exchange) postAnswer() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, call, err := x.named()
	if err != nil {
		return err
	}
	if !x.who.may(mayAnswer) {
		return notEntitled(x.who, mayAnswer)
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	r, err := answerRequest(body)
	if err != nil {
		return err
	}
	r.Run, r.Call = run, call
	if err := x.question(&r); err != nil {
		return err
	}
	if err := x.who.client.Answer(x.ctx(), r); err != nil {
		return err
	}
	return x.json(http.StatusOK, answerGiven{Call: call, Answer: r.Kind, Counts: true, Dispatch: r.Dispatch})
}

// noDispatch says that the answer is for what is asked now.
const noDispatch = -1

func answerRequest(body []byte) (messages.AnswerRequest, error) {
	var given answerBody
	if err := strict.Decode(body, &given); err != nil {
		return messages.AnswerRequest{}, fail(http.StatusBadRequest, codeBroken, `the body is not {"answer": "approve"}: %v`, err)
	}
	r := messages.AnswerRequest{Kind: messages.AnswerKind(given.Answer), Reason: given.Reason, Dispatch: noDispatch}
	if given.Dispatch != nil {
		r.Dispatch = *given.Dispatch
	}
	kind := r.Kind
	if err := kind.UnmarshalText([]byte(given.Answer)); err != nil || kind == messages.AnswerTimedOut {
		return r, fail(http.StatusUnprocessableEntity, messages.CodeBadCall, "answer is none of approve, edit, retry, skip, fail").about("answer", given.Answer)
	}
	switch {
	case given.Input != nil && given.Text != nil:
		return r, fail(http.StatusUnprocessableEntity, messages.CodeBadCall, "both input and input_text are given; give one")
	case given.Input != nil:
		r.Input = &messages.Body{Inline: given.Input}
	case given.Text != nil:
		r.Input = &messages.Body{Inline: []byte(*given.Text)}
	}
	if (kind == messages.AnswerEdit) != (r.Input != nil) {
		return r, fail(http.StatusUnprocessableEntity, messages.CodeBadCall, "input belongs to the answer edit, and edit needs one").about("answer", string(kind))
	}
	return r, nil
}

// question finds the question that is answered, and whether it is for this token.
// One that was answered is asked about again, so that the answer says who was first.
func (x *exchange) question(r *messages.AnswerRequest) error {
	s, err := x.g.look(x.ctx(), x.who, r.Run, r.Call)
	if err != nil {
		return err
	}
	if r.Dispatch != noDispatch {
		return nil
	}
	place, err := inbox.At(x.ctx(), x.g.cfg.Broker, r.Call)
	if err == nil {
		r.Dispatch = place.Dispatch
		return nil
	}
	if !errors.Is(err, messages.ErrNotFound) {
		return err
	}
	for _, d := range s.Dispatches {
		if d.Answer != nil {
			r.Dispatch = d.N
		}
	}
	if r.Dispatch == noDispatch {
		return &client.AnswerError{Call: r.Call, Code: messages.CodeNotParked, Text: "the call asks nothing; GET /v1/inbox lists those that do"}
	}
	return nil
}
