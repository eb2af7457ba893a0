package gateway

import (
	"context"
	"errors"
	"net/http"

	"mulligan/internal/calls"
	"mulligan/internal/format"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// work runs the calls of one request, which belong to one batch.
type work struct {
	x     *exchange
	id    identity
	batch *client.Batch
	trace string
	// run and lane are of calls that say nothing themselves.
	run  string
	lane messages.Lane
}

// Parameters that change what is run.
const (
	paramFormat = "format"
	paramRun    = "run"
	paramLane   = "lane"
)

func (x *exchange) work(id identity) (*work, error) {
	q := x.r.URL.Query()
	w := &work{x: x, id: id, trace: x.trace(), run: q.Get(paramRun), lane: messages.Lane(q.Get(paramLane))}
	switch w.lane {
	case "", messages.LaneHigh, messages.LaneNormal, messages.LaneLow:
	default:
		return nil, fail(http.StatusBadRequest, codeBadParameter, "lane is none of high, normal, low").about(paramLane, string(w.lane))
	}
	if w.run != "" {
		if err := messages.CheckName(paramRun, w.run, messages.MaxName); err != nil {
			return nil, fail(http.StatusBadRequest, codeBadParameter, "%v", err).about(paramRun, w.run)
		}
	}
	var err error
	w.batch, err = x.who.client.OpenBatch(id.base, 0)
	return w, err
}

// format reads the parameter format.
func (x *exchange) format() (format.Format, error) {
	given := x.r.URL.Query().Get(paramFormat)
	if given == "" {
		return format.Auto, nil
	}
	for _, f := range format.Formats() {
		if string(f) == given {
			return f, nil
		}
	}
	return "", fail(http.StatusBadRequest, codeBadParameter, "format is none of %v", format.Formats()).about(paramFormat, given)
}

// submission is the call with this index in the request. A call that cannot be
// submitted has its line instead.
func (w *work) submission(ctx context.Context, index int, c format.Call) (messages.Submission, *calls.Result, error) {
	s := c.Submission
	s.Call, s.Trace = messages.DerivedCallID(w.id.base, index), w.trace
	if s.Run == "" {
		s.Run = w.run
	}
	if s.Lane == "" {
		s.Lane = w.lane
	}
	if c.Err != nil {
		l := calls.NotAccepted(s, messages.CodeBadCall, c.Err.Error())
		return s, &l, nil
	}
	ok, err := w.x.g.mayCall(ctx, w.x.who, s.Tool)
	if err != nil || ok {
		return s, nil, err
	}
	l := calls.NotAccepted(s, messages.CodeUnknownTool, withheldTool(s.Tool))
	return s, &l, nil
}

// going is a call on its way, or its line where it is not.
type going struct {
	call    messages.Submission
	pending *client.Pending
	line    *calls.Result
}

func (p *going) close() {
	if p != nil && p.pending != nil {
		p.pending.Close()
	}
}

// wait gives the line of a call when it has ended.
func (w *work) wait(ctx context.Context, p *going) (calls.Result, error) {
	if p.line != nil {
		return *p.line, nil
	}
	r, err := p.pending.Wait(ctx)
	var refused *client.RefusedError
	if errors.As(err, &refused) {
		l := calls.NotAccepted(p.call, refused.Code, refused.Text)
		p.line = &l
		return l, nil
	}
	if err != nil {
		return calls.Result{}, err
	}
	l, err := w.x.g.line(w.x.ctx(), w.x.who.client, r)
	if err == nil {
		p.line = &l
	}
	return l, err
}

// begin submits calls together; first is the index of the first of them. An
// error leaves open what became of them.
func (w *work) begin(ctx context.Context, first int, list []format.Call) ([]*going, error) {
	out := make([]*going, len(list))
	var sent []messages.Submission
	var places []int
	for i, c := range list {
		s, line, err := w.submission(ctx, first+i, c)
		if err != nil {
			return nil, err
		}
		if out[i] = (&going{call: s, line: line}); line == nil {
			sent, places = append(sent, s), append(places, i)
		}
	}
	pending, err := w.batch.BeginAll(ctx, sent, w.id.keyed)
	if err != nil {
		return nil, err
	}
	for k, p := range pending {
		out[places[k]].pending = p
	}
	return out, nil
}

func closeAll(list []*going) {
	for _, p := range list {
		p.close()
	}
}
