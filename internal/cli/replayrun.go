package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mulligan/internal/calls"
	"mulligan/internal/calls/pooled"
	"mulligan/internal/format"
	"mulligan/internal/replay"
	"mulligan/pkg/messages"
)

// replayPatience is how long a submission is tried again while the queue is full
// or the pool does not answer.
const replayPatience = 10 * time.Minute

// runReplay runs the plan in a folder from where it stands.
func (a *app) runReplay(ctx context.Context, dir string, m manifest, wait time.Duration) (err error) {
	file, err := calls.Open(filepath.Join(dir, replayCalls), nil, format.Mulligan, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if file.Calls != m.Calls {
		return usage("%s holds %d calls, and the plan says %d: it was changed", file.Path, file.Calls, m.Calls)
	}
	journal, err := calls.OpenJournal(calls.JournalPath(file.Path), file, false)
	if err != nil {
		return withCode(exitUsage, err)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	out, err := os.Create(filepath.Join(dir, replayResults))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	summary, err := a.replayCalls(ctx, m, file, journal, out, wait)
	return a.tellReplay(dir, m, summary, err)
}

func (a *app) replayCalls(ctx context.Context, m manifest, file *calls.File, journal *calls.Journal, out *os.File, wait time.Duration) (s calls.Summary, err error) {
	pace := &replay.Pace{Canary: m.Canary, Ratio: m.Ratio, Rate: m.Rate, Total: m.Calls}
	opts := calls.Options{
		Order: calls.OrderDone, Window: m.Window, Name: a.conn.pool,
		Pace: func(now time.Time, submitted int, s calls.Summary) (int, time.Duration, error) {
			return pace.Next(now, submitted, s.Ended(), s.Succeeded)
		},
	}
	var pool calls.Pool
	if !journal.Complete() {
		p := pooling{slots: 1, lease: ownLease, patience: replayPatience}
		session, oerr := a.open(ctx, p, "")
		if oerr != nil {
			return s, oerr
		}
		defer session.closing(ctx, &err)
		opts.Where, pool = session.where, pooled.New(session.client)
		run := messages.NamedRun(m.Run)
		if _, err = session.client.DeclareRun(ctx, run, messages.RunSpec{Expected: int64(m.Calls), Origin: m.Origin}); err != nil {
			return s, err
		}
		defer func() {
			if err == nil { // every call has ended
				_, err = session.client.CloseRun(context.WithoutCancel(ctx), run, int64(s.Submitted))
			}
		}()
		opts.Parked, opts.Stay = parkedCalls(session.broker), wait > 0
	}
	if wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer stop()
	}
	bar := a.progress(file.Calls)
	defer bar.end()
	opts.Progress = bar.update
	s, err = calls.Run(ctx, pool, file, journal, out, opts)
	if err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx)
	}
	return s, err
}

// replayReport is what is printed when a replay ends or pauses.
type replayReport struct {
	Run     string                `json:"run"`
	Folder  string                `json:"folder"`
	Calls   int                   `json:"calls"`
	Before  groups                `json:"before"`
	After   calls.Summary         `json:"after"`
	LeftOut map[replay.Reason]int `json:"left_out,omitempty"`
	Done    bool                  `json:"done"`
}

// tellReplay prints where the replay stands, and gives the exit code.
func (a *app) tellReplay(dir string, m manifest, s calls.Summary, err error) error {
	r := replayReport{Run: m.Run, Folder: dir, Calls: m.Calls, Before: m.Before, After: s, LeftOut: m.LeftOut, Done: s.Ended() == m.Calls}
	if perr := a.printReplay(r); perr != nil {
		return errors.Join(err, fmt.Errorf("write the output: %w", perr))
	}
	var canary *replay.CanaryError
	code := exitOK
	switch {
	case err == nil && s.AllWell() && leftMatters(m.LeftOut) == 0:
		return nil
	case err == nil:
		return quietly(exitSome)
	case errors.As(err, &canary):
		a.say("stopped: %v; the other %s not submitted. See %s, and go on with:", canary, plural(m.Calls-canary.Of, "call was", "calls were"), filepath.Join(dir, replayResults))
		a.say("  %s replay resume %s --canary 0", a.program, shellWord(dir))
		return quietly(exitSome)
	case errors.Is(err, calls.ErrParked):
		a.say("%s a human (mulligan inbox); to go on when they are answered:", waitFor(s.Parked))
		code = exitUnfinished
	case errors.Is(err, errInterrupted), errors.Is(err, errWaitOver):
		a.say("%v: paused. Calls that were submitted go on by themselves. To go on, and to get all results:", err)
		code = exitCode(err)
	default:
		a.say("the replay is not at its end. When the cause of what follows is gone, go on with:")
	}
	a.say("  %s replay resume %s", a.program, shellWord(dir))
	if code == exitOK {
		return err
	}
	return quietly(code)
}

// leftMatters is how many calls were left out that somebody may miss.
func leftMatters(left map[replay.Reason]int) (n int) {
	for r, count := range left {
		if r != replay.LeftReplayed {
			n += count
		}
	}
	return n
}

func (a *app) printReplay(r replayReport) error {
	if a.json() {
		return a.printJSON(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s replayed, in %s\n", r.Run, plural(r.After.Ended(), "call", "calls"), r.Folder)
	var before []string
	for _, g := range r.Before.Statuses {
		before = append(before, fmt.Sprintf("%s %s", thousands(g.Count), g.Name))
	}
	fmt.Fprintf(&b, "before  %s\n", strings.Join(before, ", "))
	_, after, _ := strings.Cut(describe(r.After), ": ")
	if open := r.Calls - r.After.Ended(); open > 0 {
		after += fmt.Sprintf(", %s not ended", thousands(open))
	}
	fmt.Fprintf(&b, "after   %s\n", after)
	if len(r.LeftOut) > 0 {
		var left []string
		for reason, n := range r.LeftOut {
			left = append(left, fmt.Sprintf("%s %s", thousands(n), strings.ReplaceAll(string(reason), "_", " ")))
		}
		slices.Sort(left)
		fmt.Fprintf(&b, "left out  %s (%s)\n", strings.Join(left, ", "), filepath.Join(r.Folder, replayLeftOut))
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}
