package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/format"
	"mulligan/internal/story"
	"mulligan/internal/strict"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// accepted is a call whose result nobody waited for.
type accepted struct {
	Call     string `json:"call"`
	Ref      string `json:"ref,omitempty"`
	Run      string `json:"run"`      // as the submitter named it
	Location string `json:"location"` // where its state and its result are
}

// callState is where a call stands; Result is there when it has ended.
type callState struct {
	Call   string        `json:"call"`
	Ref    string        `json:"ref,omitempty"`
	Run    string        `json:"run"`
	State  story.State   `json:"state"`
	Now    string        `json:"now"` // where it is, as a sentence
	Result *calls.Result `json:"result,omitempty"`
}

// location is where a call is.
func location(run messages.Run, call string) string {
	return "/v1/calls/" + url.PathEscape(string(run)) + "/" + call
}

// postCall runs one call.
func (x *exchange) postCall() error {
	if err := x.parameters("wait"); err != nil {
		return err
	}
	want, err := x.wish(0)
	if err != nil {
		return err
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	s, err := format.Parse(body)
	if err != nil {
		return &problem{Status: http.StatusBadRequest, Code: messages.CodeBadCall, Detail: err.Error(), Ref: s.Ref}
	}
	if ok, err := x.g.mayCall(x.ctx(), x.who, s.Tool); err != nil || !ok {
		return errors.Join(err, notAllowed(ok, s.Tool))
	}
	sum, err := x.digest(bytes.NewReader(body))
	if err != nil {
		return err
	}
	id, err := x.identity(sum)
	if err != nil {
		return err
	}
	s.Call, s.Trace = id.base, x.trace()
	batch := x.who.client.Batch()
	if id.keyed { // found again by its id
		if batch, err = x.who.client.OpenBatch(id.base, 0); err != nil {
			return err
		}
	}
	p, err := batch.Begin(x.ctx(), s, id.keyed)
	if err != nil {
		return err
	}
	defer p.Close()
	return x.result(p, s.Ref, want.wait)
}

// result waits for the result of a call and answers with it, or with where it
// will be.
func (x *exchange) result(p *client.Pending, ref string, wait time.Duration) error {
	ctx, stop := x.waiting(wait)
	defer stop()
	var r messages.Result
	err := errWaitOver
	if wait > 0 {
		r, err = p.Wait(ctx)
	}
	if wait == 0 || cameBack(ctx, err) {
		a := accepted{Call: p.Call, Ref: ref, Run: p.Run.Name(), Location: location(p.Run, p.Call)}
		x.Header().Set("Location", a.Location)
		return x.json(http.StatusAccepted, a)
	}
	if err != nil {
		return err
	}
	l, err := x.g.line(x.ctx(), x.who.client, r)
	if err != nil {
		return err
	}
	x.Header().Set("Content-Location", location(r.Run, r.Call))
	return x.json(http.StatusOK, l)
}

// line is a result with its output. An output that has outlived its retention
// is told.
func (g *Gateway) line(ctx context.Context, c *client.Client, r messages.Result) (calls.Result, error) {
	output, err := c.Output(ctx, r)
	if errors.Is(err, messages.ErrNotFound) {
		r.Reason, err = calls.OutputGone(r), nil
	}
	return calls.Ended(r, output), err
}

// named reads the run and the call of a path. A run stands there as in subjects
// (docs/wire.md#2-names); a name that is none of these forms may stand for itself.
func (x *exchange) named() (messages.Run, string, error) {
	call := x.r.PathValue("call")
	if err := messages.CheckCallID(call); err != nil {
		return "", "", fail(http.StatusBadRequest, codeBadParameter, "%v; results hold it in the field call", err).about("call", call)
	}
	run, err := x.run()
	return run, call, err
}

func (x *exchange) run() (messages.Run, error) {
	return runNamed(x.r.PathValue("run"), "run")
}

// runNamed reads a run as it stands in paths; field is where it was given.
func runNamed(given, field string) (messages.Run, error) {
	run := messages.Run(given)
	if run.Check() != nil {
		run = messages.NamedRun(given)
	}
	if err := run.Check(); err != nil {
		return "", fail(http.StatusBadRequest, codeBadParameter, "%v", err).about(field, given)
	}
	return run, nil
}

// getCall says where a call stands, or waits for its result.
func (x *exchange) getCall() error {
	if err := x.parameters("wait"); err != nil {
		return err
	}
	want, err := x.wish(0)
	if err != nil {
		return err
	}
	run, call, err := x.named()
	if err != nil {
		return err
	}
	if want.wait > 0 {
		if err := x.await(run, call, want.wait); err != nil {
			return err
		}
	}
	s, err := x.g.look(x.ctx(), x.who, run, call)
	if err != nil {
		return err
	}
	state := callState{Call: call, Ref: s.Ref, Run: run.Name(), State: s.State, Now: s.Now}
	r, err := x.who.client.Ended(x.ctx(), run, call)
	switch {
	case err == nil:
		l, err := x.g.line(x.ctx(), x.who.client, r)
		if err != nil {
			return err
		}
		state.State, state.Result = story.Ended, &l
	case !errors.Is(err, messages.ErrNotFound):
		return err
	}
	return x.json(http.StatusOK, state)
}

// await returns when a call that there is has ended, or the wait is over.
func (x *exchange) await(run messages.Run, call string, wait time.Duration) error {
	known, err := x.who.client.Known(x.ctx(), run, call)
	if err != nil || !known {
		return err // of one that is not known, look says so
	}
	p, err := x.who.client.Attend(x.ctx(), run, call)
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, stop := x.waiting(wait)
	defer stop()
	if _, err = p.Wait(ctx); cameBack(ctx, err) {
		return nil
	}
	return err
}

// look tells the story of a call that the token may see.
func (g *Gateway) look(ctx context.Context, who *Token, run messages.Run, call string) (story.Story, error) {
	m, err := story.Gather(ctx, g.cfg.Broker, call)
	if err != nil {
		return story.Story{}, err
	}
	s := story.Build(m, time.Now())
	if m.Run != run {
		return s, messages.ErrNotFound
	}
	if ok, err := g.mayCall(ctx, who, s.Tool); err != nil || !ok {
		return s, errors.Join(err, messages.ErrNotFound)
	}
	return s, nil
}

// getStory tells what happened to a call, without what looks like a secret.
func (x *exchange) getStory() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, call, err := x.named()
	if err != nil {
		return err
	}
	s, err := x.g.look(x.ctx(), x.who, run, call)
	if err != nil {
		return err
	}
	return x.veiled(s)
}

// cancelCall ends a call.
func (x *exchange) cancelCall() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, call, err := x.named()
	if err != nil {
		return err
	}
	if !x.who.may(mayCancel) {
		return notEntitled(x.who, mayCancel)
	}
	reason, err := x.reason()
	if err != nil {
		return err
	}
	if _, err := x.g.look(x.ctx(), x.who, run, call); err != nil {
		return err
	}
	return x.cancel(messages.CancelRequest{Run: run, Call: call, Reason: reason})
}

// cancelled says that a cancellation is stored, as `mulligan cancel -o json` does.
type cancelled struct {
	Call        string `json:"call"` // empty: the whole run
	Run         string `json:"run"`
	EndedBefore string `json:"ended_before"` // its status, if it had ended before
}

func (x *exchange) cancel(r messages.CancelRequest) error {
	reply, err := x.who.client.Cancel(x.ctx(), r)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, cancelled{Call: r.Call, Run: r.Run.Name(), EndedBefore: string(reply.Ended)})
}

// reason reads the body of a cancellation, which may be left out.
func (x *exchange) reason() (string, error) {
	if x.r.ContentLength == 0 {
		return "", nil
	}
	body, err := x.body()
	if err != nil {
		return "", err
	}
	var given struct {
		Reason string `json:"reason"`
	}
	if err := strict.Decode(body, &given); err != nil {
		return "", fail(http.StatusBadRequest, codeBroken, `the body is not {"reason": "…"}: %v`, err)
	}
	if len(given.Reason) > messages.MaxText {
		return "", fail(http.StatusUnprocessableEntity, codeBadParameter, "reason is %d bytes long, the limit is %d", len(given.Reason), messages.MaxText).about("reason", given.Reason)
	}
	return given.Reason, nil
}
