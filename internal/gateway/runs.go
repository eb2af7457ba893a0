package gateway

import (
	"bufio"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mulligan/internal/archive"
	"mulligan/internal/runstate"
	"mulligan/internal/strict"
	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Parameters of runs.
const (
	paramLabel  = "label"
	paramState  = "state"
	paramSince  = "since"
	paramLimit  = "limit"
	paramBefore = "before"
	paramQuick  = "quick"
)

// runList is a page of runs, the newest first. Next is where the page behind it
// is; there is none behind the last one.
type runList struct {
	Runs []runstate.View `json:"runs"`
	Next string          `json:"next,omitempty"`
}

// runLocation is where a run is.
func runLocation(run messages.Run) string { return "/v1/runs/" + url.PathEscape(string(run)) }

// wholeRuns lets those alone deal with runs as a whole who may call every tool:
// a run may hold calls of any.
func (x *exchange) wholeRuns() error {
	if x.who.restricted() {
		return fail(http.StatusForbidden, codeForbidden, "token %s is held to some tools, and a run may hold calls of others; look at its calls and their results, and cancel them, one by one", x.who.Name)
	}
	return nil
}

// mayDeclare says whether the token may say something about runs.
func (x *exchange) mayDeclare() error {
	if !x.who.may(mayDeclare) {
		return notEntitled(x.who, mayDeclare)
	}
	return x.wholeRuns()
}

// getRuns lists the runs that were declared, or ended hard.
func (x *exchange) getRuns() error {
	if err := x.parameters(paramLabel, paramState, paramSince, paramLimit, paramBefore); err != nil {
		return err
	}
	if err := x.wholeRuns(); err != nil {
		return err
	}
	q, err := x.runQuery()
	if err != nil {
		return err
	}
	page, more, err := x.g.runs.List(x.ctx(), q)
	if errors.Is(err, messages.ErrNotFound) {
		return fail(http.StatusBadRequest, codeBadParameter, "this run is not among those that are asked for; go on from a run of the page before, or begin anew without").about(paramBefore, string(q.Before))
	}
	if err != nil {
		return err
	}
	list := runList{Runs: make([]runstate.View, len(page))}
	for i, e := range page {
		list.Runs[i] = runstate.ViewOf(e)
	}
	if more {
		next := x.r.URL.Query()
		next.Set(paramBefore, string(page[len(page)-1].Run))
		list.Next = "/v1/runs?" + next.Encode()
	}
	return x.json(http.StatusOK, list)
}

func (x *exchange) runQuery() (client.RunQuery, error) {
	given := x.r.URL.Query()
	q := client.RunQuery{Labels: make(map[string]string)}
	for _, l := range listed(given.Get(paramLabel)) {
		k, v, _ := strings.Cut(l, "=")
		q.Labels[k] = v
	}
	for _, s := range listed(given.Get(paramState)) {
		if !slices.Contains(runstate.States(), runstate.State(s)) {
			return q, fail(http.StatusBadRequest, codeBadParameter, "state is none of open, closed, over, ended, nor several of them with commas between").about(paramState, s)
		}
		q.States = append(q.States, runstate.State(s))
	}
	var err error
	if since := given.Get(paramSince); since != "" {
		if q.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return q, fail(http.StatusBadRequest, codeBadParameter, "since is no time of RFC 3339, such as 2026-03-01T18:00:00Z").about(paramSince, since)
		}
	}
	if before := given.Get(paramBefore); before != "" {
		if q.Before, err = runNamed(before, paramBefore); err != nil {
			return q, err
		}
	}
	q.Limit, err = x.limit()
	return q, err
}

// listed are the parts of a parameter that may hold several.
func listed(given string) []string {
	if given == "" {
		return nil
	}
	return strings.Split(given, ",")
}

// getRun shows how far a run is, and what came of its calls; quick leaves that out.
func (x *exchange) getRun() error {
	if err := x.parameters(paramQuick); err != nil {
		return err
	}
	quick := false
	if given := x.r.URL.Query().Get(paramQuick); given != "" {
		var err error
		if quick, err = strconv.ParseBool(given); err != nil {
			return fail(http.StatusBadRequest, codeBadParameter, "quick is neither true nor false").about(paramQuick, given)
		}
	}
	if err := x.wholeRuns(); err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	e, err := x.g.runs.Get(x.ctx(), run)
	if err != nil {
		return unknownRun(err)
	}
	p, err := x.g.runs.Progress(x.ctx(), e)
	if err != nil {
		return err
	}
	var counts *messages.RunCounts
	if !quick {
		read, err := x.counts(e)
		if err != nil {
			return err
		}
		counts = &read
	}
	return x.json(http.StatusOK, runstate.ViewOf(e).With(p, counts, time.Now()))
}

// counts reads what came of a run. It gives up when the gateway stops, and what
// was read by then is no answer.
func (x *exchange) counts(e messages.RunEntry) (messages.RunCounts, error) {
	counts, err := x.g.runs.Counts(x.ctx(), e, func(messages.RunCounts) bool { return x.g.waits.Err() == nil && x.ctx().Err() == nil })
	if err == nil && x.g.waits.Err() != nil {
		err = errStopping
	}
	return counts, errors.Join(err, x.ctx().Err())
}

// unknownRun words that there is no such run.
func unknownRun(err error) error {
	if errors.Is(err, messages.ErrNotFound) {
		return fail(http.StatusNotFound, messages.CodeNotFound, "nothing is known of this run, or its retention is over; GET /v1/runs lists those that were declared")
	}
	return err
}

// putRun declares a run. The same may be said again.
func (x *exchange) putRun() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	if err := x.mayDeclare(); err != nil {
		return err
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	spec, err := runSpec(body)
	if err != nil {
		return err
	}
	e, err := x.who.client.DeclareRun(x.ctx(), run, spec)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, runstate.ViewOf(e))
}

// runSpec reads what is declared about a run.
func runSpec(text []byte) (messages.RunSpec, error) {
	var spec messages.RunSpec
	if err := strict.Decode(text, &spec); err != nil {
		return spec, fail(http.StatusBadRequest, codeBroken, `what is declared is not of the form {"labels": {"team": "travel"}, "in_flight": 100}: %v`, err)
	}
	return spec, nil
}

// closeRun says that no call comes into a run any more.
func (x *exchange) closeRun() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	if err := x.mayDeclare(); err != nil {
		return err
	}
	calls, err := x.acceptedCalls()
	if err != nil {
		return err
	}
	e, err := x.who.client.CloseRun(x.ctx(), run, calls)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, runstate.ViewOf(e))
}

// acceptedCalls reads the body of a closing, which may be left out; below 0
// where it does not say how many calls were accepted.
func (x *exchange) acceptedCalls() (int64, error) {
	if x.r.ContentLength == 0 {
		return -1, nil
	}
	body, err := x.body()
	if err != nil {
		return 0, err
	}
	var given struct {
		Calls *int64 `json:"calls"`
	}
	if err := strict.Decode(body, &given); err != nil {
		return 0, fail(http.StatusBadRequest, codeBroken, `the body is not {"calls": 1000}: %v`, err)
	}
	switch {
	case given.Calls == nil:
		return -1, nil
	case *given.Calls < 0 || *given.Calls > messages.MaxRunCalls:
		return 0, fail(http.StatusUnprocessableEntity, messages.CodeBadRun, "calls is not from 0 to %d; leave it out where it is not known", int64(messages.MaxRunCalls)).
			about("calls", strconv.FormatInt(*given.Calls, 10))
	}
	return *given.Calls, nil
}

// refusedRun words why a declaration, or the end of it, was refused.
func refusedRun(e *client.RunError) *problem {
	status := http.StatusUnprocessableEntity
	switch e.Code {
	case messages.CodeNotFound:
		status = http.StatusNotFound
	case messages.CodeRunDiffers, messages.CodeRunIsOver:
		status = http.StatusConflict
	}
	return fail(status, e.Code, "%s", e.Text).about(e.Field, "")
}

// exportRun gives all that the pool keeps of a run, as `mulligan runs export` writes
// it. An answer that is cut has no last line.
func (x *exchange) exportRun() error {
	if err := x.parameters(); err != nil {
		return err
	}
	run, err := x.run()
	if err != nil {
		return err
	}
	if x.who.restricted() {
		return fail(http.StatusForbidden, codeForbidden, "token %s is for some tools only, and an export holds the calls of all", x.who.Name)
	}
	if _, err := x.g.runs.Get(x.ctx(), run); err != nil {
		return unknownRun(err)
	}
	x.Header().Set("Content-Type", typeLines)
	out := bufio.NewWriterSize(x, 64<<10)
	_, err = archive.Export(x.ctx(), x.g.cfg.Broker, run, out, nil)
	if err != nil {
		return err
	}
	return out.Flush()
}
