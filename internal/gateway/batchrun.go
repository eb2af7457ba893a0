package gateway

import (
	"context"
	"net/http"
	"sync/atomic"

	"mulligan/pkg/messages"
)

// paramSpec declares the run of a batch.
const paramSpec = "spec"

// batchRun is the run that a batch declares before its calls, and closes behind
// them. Without a spec it does neither.
type batchRun struct {
	spec *messages.RunSpec
	run  messages.Run
	// accepted are the calls that came into it.
	accepted atomic.Int64
}

// batchSpec reads what a batch declares its run with; nil for nothing.
func (x *exchange) batchSpec(async bool) (*messages.RunSpec, error) {
	q := x.r.URL.Query()
	if !q.Has(paramSpec) {
		return nil, nil
	}
	if err := x.mayDeclare(); err != nil {
		return nil, err
	}
	spec, err := runSpec([]byte(q.Get(paramSpec)))
	if err != nil {
		return nil, err
	}
	if async && spec.InFlight > 0 {
		return nil, fail(http.StatusBadRequest, codeBadParameter, "in_flight holds calls back until others have ended, which respond-async does not wait for; leave out one of the two").about(paramSpec, q.Get(paramSpec))
	}
	return &spec, nil
}

// declare is durable before anything of the batch is submitted. n is how many
// calls there are.
func (b *batch) declare(n int) error {
	if b.spec == nil {
		return nil
	}
	if b.spec.Expected == 0 {
		b.spec.Expected = int64(n)
	}
	b.batchRun.run = b.batch.Run(b.work.run)
	_, err := b.x.who.client.DeclareRun(b.x.ctx(), b.batchRun.run, *b.spec)
	if err == nil {
		b.x.Header().Set("Content-Location", runLocation(b.batchRun.run))
	}
	return err
}

// took notes a call that was accepted.
func (r *batchRun) took(run messages.Run) {
	if r.run == run {
		r.accepted.Add(1)
	}
}

// places is how many lines may be under way: what the run would only refuse for
// now is kept from being submitted.
func (r *batchRun) places() int {
	if r.spec != nil && r.spec.InFlight > 0 {
		return min(window, r.spec.InFlight)
	}
	return window
}

// close says that no call comes any more, also when whoever asked is gone by now.
func (b *batch) close() error {
	if b.spec == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(b.x.ctx()), b.x.g.cfg.Limits.Patience)
	defer stop()
	_, err := b.x.who.client.CloseRun(ctx, b.batchRun.run, b.accepted.Load())
	return err
}
