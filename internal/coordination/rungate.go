package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// runGate counts what is under way of a run that has limits. Counting costs a
// few requests, so a count serves for a second, or for a moment where the limit
// is reached; what this coordinator takes in meanwhile is added to it. A call is
// counted from its admission on, so that it is missed at no time; it may be
// counted twice for as long as a count is under way.
type runGate struct {
	mu       sync.Mutex
	at       time.Time // when the last count ended
	counting bool
	queued   int64 // by the last count: in CALLS
	accepted int64 // by the last count: ended, in CALLS or waiting
	coming   int64 // admitted, on their way into the store
	fresh    int64 // stored since the last count began
	older    int64 // stored before the count that goes on
	sure     bool  // nothing moved since the count before, so that nothing is counted twice
}

const (
	// gateMoment is the age up to which a count serves where the limit is reached.
	gateMoment = 50 * time.Millisecond
	// runFullRetry is when a submission to a run may be tried again that has as
	// many calls under way as it allows: soon, since few ends may make room.
	runFullRetry = 200 * time.Millisecond
)

// runPolicy is what every call of the run brings, budgets of the model included.
func runPolicy(s messages.RunSpec) json.RawMessage {
	own := recovery.Values{}
	if s.Budget.Tokens > 0 {
		own["budget_tokens"] = fmt.Appendf(nil, "%d", s.Budget.Tokens)
	}
	if s.Budget.Cost > 0 {
		own["budget_cost_micros"] = fmt.Appendf(nil, "%d", s.Budget.Cost)
	}
	if len(own) == 0 {
		return s.Policy
	}
	b, err := json.Marshal(own)
	if err != nil { // of two numbers there is none
		return s.Policy
	}
	return recovery.Under(s.Policy, b)
}

// admit counts a call of the run, or says why it is not to come in; a held call
// is to be settled.
func (r *runs) admit(ctx context.Context, run messages.Run, k *knownRun) (held bool, code messages.Code, text string, after time.Duration) {
	if k == nil || k.inFlight == 0 && k.budget.Calls == 0 {
		return false, "", "", 0
	}
	g := k.gate
	for _, age := range []time.Duration{countAge, gateMoment} {
		r.count(ctx, run, k, age)
		if code, text, after = g.take(run, k); code == "" {
			return true, "", "", 0
		}
	}
	return false, code, text, after
}

func (g *runGate) take(run messages.Run, k *knownRun) (messages.Code, string, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	more := g.coming + g.fresh + g.older
	if used := g.accepted + more; k.budget.Calls > 0 && used >= k.budget.Calls {
		if g.sure && more == 0 {
			return messages.CodeBudgetSpent, fmt.Sprintf("run %s has used its budget of %d calls", runName(run), k.budget.Calls), 0
		}
		return messages.CodeRunFull, fmt.Sprintf("run %s may have used its budget of %d calls, which is being counted; try again in %s",
			runName(run), k.budget.Calls, runFullRetry), runFullRetry
	}
	if k.inFlight > 0 && g.queued+more >= int64(k.inFlight) {
		return messages.CodeRunFull, fmt.Sprintf("run %s has %d calls queued or running, as many as it allows; try again in %s",
			runName(run), k.inFlight, runFullRetry), runFullRetry
	}
	g.coming++
	return "", "", 0
}

// settle ends what was held at admission: it is stored, or may be, or was
// refused after all, which the next count finds out.
func (r *runs) settle(run messages.Run, n int64) {
	k := r.of(run)
	if k == nil || k.gate == nil {
		return
	}
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	k.gate.coming -= n
	k.gate.fresh += n
}

// count renews the counts of a run where they are older than age; one caller
// does so while the others go on with what is known.
func (r *runs) count(ctx context.Context, run messages.Run, k *knownRun, age time.Duration) {
	g := k.gate
	g.mu.Lock()
	if g.counting || time.Since(g.at) < age {
		g.mu.Unlock()
		return
	}
	g.counting = true
	alone := g.coming == 0
	g.fresh, g.older = 0, g.fresh
	g.mu.Unlock()

	queued, accepted, err := r.underWay(ctx, run, k.budget.Calls > 0)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counting, g.at = false, time.Now()
	if err != nil { // what was known still holds
		g.fresh, g.older = g.fresh+g.older, 0
		return
	}
	// A call is in CALLS and in RESULTS until its worker has acked it.
	g.sure = alone && g.coming == 0 && g.fresh == 0 && queued == g.queued && accepted == g.accepted
	g.queued, g.accepted, g.older = queued, accepted, 0
}

// underWay counts the calls of a run: those in CALLS, and where all are wanted
// those that wait or have ended. It reads in the order in which calls move, so
// that none is missed that does; what a failure has just taken out of CALLS, and
// nothing was decided on yet, is.
func (r *runs) underWay(ctx context.Context, run messages.Run, all bool) (queued, accepted int64, err error) {
	if all {
		waiting, err := r.matching(ctx, messages.StreamSchedule,
			r.names.RunSchedules(messages.DueRetry, run), r.names.RunSchedules(messages.DueAnswerBy, run))
		if err != nil {
			return 0, 0, err
		}
		accepted += waiting
	}
	if queued, err = r.matching(ctx, messages.StreamCalls, r.names.RunCallsFilter(run)); err != nil || !all {
		return queued, 0, err
	}
	ended, err := r.matching(ctx, messages.StreamResults, r.names.ResultsFilter(run))
	return queued, accepted + queued + ended, err
}

func (r *runs) matching(ctx context.Context, stream messages.Stream, filters ...string) (total int64, err error) {
	for _, f := range filters {
		n, err := r.broker.Matching(ctx, stream, f)
		if err != nil {
			return 0, fmt.Errorf("count %s: %w", f, err)
		}
		total += int64(n)
	}
	return total, nil
}

// retriesSpent says why the run of a call has no further retry, empty while it
// has. Retries are dispatches after the first: in CALLS or waiting, failed, or
// found to have ended their call.
func (r *runs) retriesSpent(ctx context.Context, run messages.Run) (string, error) {
	k := r.of(run)
	if k == nil || k.budget.Retries == 0 {
		return "", nil
	}
	used := int64(0)
	for _, c := range []struct {
		stream     messages.Stream
		all, first string
	}{
		{messages.StreamSchedule, r.names.RunSchedules(messages.DueRetry, run), r.names.RunFirstSchedules(run)},
		{messages.StreamCalls, r.names.RunCallsFilter(run), r.names.RunFirstCalls(run)},
		{messages.StreamRecovery, r.names.RunStory(messages.KindFailure, run), r.names.RunFirstStory(messages.KindFailure, run)},
		{messages.StreamRecovery, r.names.RunStory(messages.KindSettled, run), r.names.RunFirstStory(messages.KindSettled, run)},
	} {
		all, err := r.matching(ctx, c.stream, c.all)
		if err != nil {
			return "", err
		}
		first, err := r.matching(ctx, c.stream, c.first)
		if err != nil {
			return "", err
		}
		used += max(all-first, 0)
	}
	if used < k.budget.Retries {
		return "", nil
	}
	return fmt.Sprintf("run %s has used its budget of %d retries", runName(run), k.budget.Retries), nil
}
