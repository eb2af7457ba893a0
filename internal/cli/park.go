package cli

import (
	"context"
	"errors"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/inbox"
	"mulligan/internal/pace"
	"mulligan/jetstream"
	"mulligan/pkg/messages"
)

// parkHelp is the help of --park.
const parkHelp = "let calls that need a human wait for an answer (mulligan inbox), instead of ending; with --wait this command waits for it too"

// checkPark refuses questions that nobody could answer.
func checkPark(park, embedded bool) error {
	if park && embedded {
		return usage("--park and --embedded exclude each other: the pool ends with this command, so that nobody could answer; " +
			"start one with `mulligan up` and leave --embedded out")
	}
	return nil
}

// errParked ends the wait for a call that waits for a human.
var errParked = errors.New("waits for a human")

// parkedCalls lists which calls of these runs wait for a human, for package calls.
func parkedCalls(broker *jetstream.Pool) func(context.Context, []messages.Run) (map[string]bool, error) {
	return func(ctx context.Context, runs []messages.Run) (map[string]bool, error) {
		if len(runs) == 0 {
			runs = []messages.Run{inbox.AnyRun}
		}
		parked := make(map[string]bool)
		for _, run := range runs {
			places, err := inbox.Places(ctx, broker, run)
			if err != nil {
				return nil, err
			}
			for _, p := range places {
				parked[p.Call] = true
			}
		}
		return parked, nil
	}
}

// lookForQuestion is how often it is looked whether a call waits for a human.
const lookForQuestion = 500 * time.Millisecond

// untilParked ends the context that it returns when the call waits for a human;
// question is then what it asks.
func untilParked(ctx context.Context, src inbox.Source, call string) (parked context.Context, question func() *inbox.Question, end func()) {
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var asked *inbox.Question
	go func() {
		defer close(done)
		for pace.Sleep(ctx, lookForQuestion) {
			p, err := inbox.At(ctx, src, call)
			if err != nil {
				continue
			}
			if q, err := inbox.Ask(ctx, src, p); err == nil && q != nil {
				asked = q
				stop(errParked)
				return
			}
		}
	}()
	end = func() {
		stop(nil)
		<-done
	}
	return ctx, func() *inbox.Question { <-done; return asked }, end
}

// tellQuestion says what a call asks, and how it is answered.
func (a *app) tellQuestion(q *inbox.Question) {
	a.say("call %s waits for a human: %s", q.Call, oneLine(q.Prompt, 400))
	a.say("  mulligan inbox show %s", q.Call)
	if q.Answers[0] == messages.AnswerApprove {
		a.say("  mulligan answer approve %s", q.Call)
	} else {
		a.say("  mulligan answer ANSWER %s   (one of: %s)", q.Call, kinds(q.Answers))
	}
	a.say("`mulligan explain %s` tells how it ended", q.Call)
}

// tellParked says how many calls of a file wait for a human, and what goes on.
func (a *app) tellParked(o *runOptions, file *calls.File, s calls.Summary) {
	a.say("%s a human: mulligan inbox", waitFor(s.Parked))
	if o.embedded {
		a.say("nobody can answer in a pool that ends with this command: run them in one that stays (`mulligan up`), or without a policy that parks")
		return
	}
	a.say("the other %d of %d have ended. When they are answered, this goes on and prints all results:", s.Ended(), file.Calls)
	if o.unresumable(file) {
		a.say("  (not this run: it has no journal; `mulligan explain CALL` tells how a call ended)")
		return
	}
	a.say("  %s", a.again())
}

func waitFor(n int) string {
	if n == 1 {
		return "1 call waits for"
	}
	return plural(n, "call", "calls") + " wait for"
}
