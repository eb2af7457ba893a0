package gateway

import (
	"bytes"
	"net/http"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/format"
)

// unfinished says that some calls of a message have not ended in the time there
// was; the same request with the same key waits on.
type unfinished struct {
	Ended int        `json:"ended"`
	Calls []accepted `json:"calls"`
}

// waitForTools is how long the calls of a message are waited for where nobody
// says. An agent needs all answers before it can go on.
const waitForTools = 5 * time.Minute

// postToolCalls runs the calls of a message and answers with what the
// conversation goes on with. Each call has its answer, whatever became of it.
func (x *exchange) postToolCalls() error {
	if err := x.parameters("wait", paramFormat, paramRun, paramLane); err != nil {
		return err
	}
	want, err := x.wish(waitForTools)
	if err != nil {
		return err
	}
	f, err := x.format()
	if err != nil {
		return err
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	line, err := x.message(body, f)
	if err != nil {
		return err
	}
	sum, err := x.digest(bytes.NewReader(body), paramFormat, paramRun, paramLane)
	if err != nil {
		return err
	}
	id, err := x.identity(sum)
	if err != nil {
		return err
	}
	w, err := x.work(id)
	if err != nil {
		return err
	}
	list, err := w.begin(x.ctx(), 0, line.Calls)
	if err != nil {
		return err
	}
	defer closeAll(list)
	return w.reply(line, list, want.wait)
}

// message reads the calls of a message.
func (x *exchange) message(body []byte, f format.Format) (format.Line, error) {
	line := format.Read(body, f)
	if len(line.Calls) > x.who.Calls {
		return line, fail(http.StatusRequestEntityTooLarge, codeTooManyCalls, "the message holds %d calls, and this token may make %d in one request", len(line.Calls), x.who.Calls)
	}
	if line.Format == format.Mulligan && line.Calls[0].Err != nil { // of our own format, or of none
		return line, &problem{Status: http.StatusBadRequest, Code: codeBroken, Detail: line.Calls[0].Err.Error(), Ref: line.Calls[0].Ref}
	}
	return line, nil
}

// reply waits for all calls of a message.
func (w *work) reply(line format.Line, list []*going, wait time.Duration) error {
	ctx, stop := w.x.waiting(wait)
	defer stop()
	lines := make([]calls.Result, len(list))
	answers := make([]format.Answer, len(list))
	left := 0
	for i, p := range list {
		l, err := w.wait(ctx, p)
		switch {
		case cameBack(ctx, err):
			left++
		case err != nil:
			return err
		}
		lines[i], answers[i] = l, l.Answer()
	}
	switch {
	case left > 0:
		return w.later(list, left)
	case line.Format == format.Mulligan:
		return w.x.json(http.StatusOK, lines[0])
	}
	b, err := line.Reply(answers)
	if err != nil {
		return err
	}
	w.x.raw(http.StatusOK, append(b, '\n'))
	return nil
}

// later says where the calls are.
func (w *work) later(list []*going, left int) error {
	u := unfinished{Ended: len(list) - left}
	for _, p := range list {
		a := accepted{Call: p.call.Call, Ref: p.call.Ref, Run: p.call.Run}
		if p.pending != nil {
			a.Location = location(p.pending.Run, p.call.Call)
		}
		u.Calls = append(u.Calls, a)
	}
	w.x.Header().Set("Retry-After", "1")
	return w.x.json(http.StatusAccepted, u)
}
