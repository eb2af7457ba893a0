package gateway

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mulligan/pkg/messages"
)

const headerLastEvent = "Last-Event-ID"

// heartbeat is how often a stream of events shows that it lives.
const heartbeat = 15 * time.Second

// getResults gives the results of a run: those that there are, as JSON lines,
// or these and all that come, as events.
func (x *exchange) getResults() error {
	if err := x.parameters("wait"); err != nil {
		return err
	}
	want, err := x.wish(x.g.cfg.Limits.Wait)
	if err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	if x.wantsEvents() {
		return x.events(run, want.wait) // also of a run that is still to come
	}
	if _, err := x.g.runs.Get(x.ctx(), run); err != nil {
		return unknownRun(err)
	}
	return x.results(run)
}

func (x *exchange) wantsEvents() bool {
	for part := range strings.SplitSeq(x.r.Header.Get("Accept"), ",") {
		if media, _, err := mime.ParseMediaType(part); err == nil && media == typeEvents {
			return true
		}
	}
	return false
}

// results lists the results that there are, in the order of their ends.
func (x *exchange) results(run messages.Run) error {
	x.Header().Set("Content-Type", typeLines)
	var failed error
	err := x.g.cfg.Broker.List(x.ctx(), messages.StreamResults, []string{x.g.cfg.Broker.Names().ResultsFilter(run)}, func(s messages.Stored) bool {
		var text []byte
		if text, failed = x.shown(s); failed == nil && text != nil {
			_, failed = x.Write(append(text, '\n'))
		}
		return failed == nil && x.g.waits.Err() == nil
	})
	if err = errors.Join(err, failed, context.Cause(x.g.waits)); err != nil || x.status != 0 {
		return err
	}
	x.WriteHeader(http.StatusOK) // there are none
	return nil
}

// shown is the line of a stored result; nil for one that the token may not see,
// or that this build cannot read.
func (x *exchange) shown(s messages.Stored) ([]byte, error) {
	r, err := x.g.cfg.Broker.Names().DecodeResult(s.Message)
	if err != nil {
		x.g.cfg.Log.Warn("a result cannot be read and is left out", "subject", s.Subject, "error", err)
		return nil, nil
	}
	if ok, err := x.g.mayCall(x.ctx(), x.who, firstTool(r)); err != nil || !ok {
		return nil, err
	}
	l, err := x.g.line(x.ctx(), x.who.client, r)
	if err != nil {
		return nil, err
	}
	return l.Line()
}

// firstTool is the one that was asked for; what a token may see follows it.
func firstTool(r messages.Result) string {
	if r.OriginalTool != "" {
		return r.OriginalTool
	}
	return r.Tool
}

// events sends results as they are stored. The id of an event is the result's
// sequence in RESULTS, so that who comes back goes on behind it.
func (x *exchange) events(run messages.Run, wait time.Duration) error {
	from, err := x.lastEvent()
	if err != nil {
		return err
	}
	ctx, stop := x.waiting(wait)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	x.Header().Set("Content-Type", typeEvents)
	x.WriteHeader(http.StatusOK)
	if err := x.say(": results of a run\n\n"); err != nil {
		return err
	}
	results := make(chan messages.Stored)
	followed := make(chan error, 1)
	go func() {
		followed <- x.g.cfg.Broker.Follow(ctx, messages.StreamResults, []string{x.g.cfg.Broker.Names().ResultsFilter(run)}, from, func(s messages.Stored) {
			select {
			case results <- s:
			case <-ctx.Done():
			}
		})
	}()
	err = x.send(ctx, results, followed)
	end(err)
	if errors.Is(err, errFollowed) {
		return nil
	}
	<-followed
	if cameBack(ctx, err) {
		return nil // whoever asked comes back with the id of the last event
	}
	return err
}

// errFollowed says that the reader has ended by itself.
var errFollowed = errors.New("the stream of results has ended")

func (x *exchange) send(ctx context.Context, results <-chan messages.Stored, followed <-chan error) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case s := <-results:
			var text []byte
			if text, err = x.shown(s); err == nil && text != nil {
				err = x.say(fmt.Sprintf("id: %d\nevent: result\ndata: %s\n\n", s.Sequence, text))
			}
		case <-beat.C:
			err = x.say(": still here\n\n")
		case err = <-followed:
			x.g.cfg.Log.Warn("a stream of results has ended", "request", x.id, "error", err)
			return errFollowed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// say sends text at once.
func (x *exchange) say(text string) error {
	if _, err := x.Write([]byte(text)); err != nil {
		return err
	}
	return x.flush()
}

// lastEvent is the sequence to go on from.
func (x *exchange) lastEvent() (uint64, error) {
	given := x.r.Header.Get(headerLastEvent)
	if given == "" {
		return 1, nil
	}
	n, err := strconv.ParseUint(given, 10, 63)
	if err != nil {
		return 0, fail(http.StatusBadRequest, codeBadParameter, "this is no id of an event that was sent").about(headerLastEvent, given)
	}
	return n + 1, nil
}

// cancelRun ends a named run.
func (x *exchange) cancelRun() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	if !x.who.may(mayCancel) {
		return notEntitled(x.who, mayCancel)
	}
	if err := x.wholeRuns(); err != nil {
		return err
	}
	if !run.Named() {
		return fail(http.StatusUnprocessableEntity, codeBadParameter, "calls without a run are ended one by one: they are none").about(paramRun, string(run))
	}
	reason, err := x.reason()
	if err != nil {
		return err
	}
	if _, err := x.g.runs.Get(x.ctx(), run); err != nil {
		return unknownRun(err)
	}
	return x.cancel(messages.CancelRequest{Run: run, Reason: reason})
}
