package calls

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"mulligan/pkg/messages"
)

// Pool is where the calls go. A batch is named by a UUID; the calls of a batch
// that name no run have the unnamed one of the batch.
type Pool interface {
	// Position is the sequence in RESULTS where results of later submissions will stand.
	Position(ctx context.Context) (uint64, error)
	// Submit submits calls that have ids, patiently, and returns who was refused.
	// session tells the sessions of a batch apart. repeat says that the calls
	// may have been submitted before.
	Submit(ctx context.Context, batch string, session int, repeat bool, calls []messages.Submission) ([]messages.Refusal, error)
	// Results hands over results, each once, of these runs or of all, until ctx is done.
	Results(ctx context.Context, runs []messages.Run, from uint64, fn func(messages.Result) error) error
	Output(ctx context.Context, r messages.Result) ([]byte, error)
	// Known says whether the pool has a trace of the call.
	Known(ctx context.Context, run messages.Run, call string) (bool, error)
}

// Order is the order of the result lines.
type Order string

// The orders.
const (
	OrderInput Order = "input"
	OrderDone  Order = "done"
)

// Options say how a file is run.
type Options struct {
	Order Order // empty: OrderInput
	// Sequence submits a call only after the one before it in its run has
	// ended; runs stand side by side.
	Sequence bool
	// Window is how many calls may be submitted and not ended at a time; 0
	// means 10,000. It bounds memory and what is to be looked for after a crash.
	Window int
	// Name and Where say which pool this is, for the journal's messages.
	Name, Where string
	// Policy is what every call brings, under what its line says; nil for nothing.
	Policy json.RawMessage
	// NotBefore is when calls may start whose line says nothing of it; zero for at once.
	NotBefore time.Time
	// Run is the name of the run of those calls that name none; empty leaves them
	// to the unnamed run of the batch.
	Run string
	// Begin is called with that run before any call is submitted, in each session;
	// its error ends Run. May be nil.
	Begin func(ctx context.Context, run messages.Run) error
	// Submitted is called once every call is accepted or refused, with how many of
	// that run were accepted, below 0 where other runs have a part in the file. An
	// error is the caller's to tell; it ends nothing. May be nil.
	Submitted func(ctx context.Context, run messages.Run, accepted int64)
	// Parked lists the calls of these runs, or of all, that wait for a human. Nil
	// where none can: then nobody looks.
	Parked func(ctx context.Context, runs []messages.Run) (map[string]bool, error)
	// Stay goes on when only such calls are left, until they are answered.
	Stay bool
	// Pace, if it is not nil, bounds what is submitted: it is asked before each
	// submission, with how many calls were submitted and what came of them, how many
	// more may be. None: it is asked again after wait, or, where that is 0, when a call
	// has ended. An error ends the run, with the calls that are under way left running.
	// One sender then submits, in the order of the file. What an earlier session may
	// have submitted already is not asked about. Never called concurrently.
	Pace func(now time.Time, submitted int, s Summary) (n int, wait time.Duration, err error)
	// Progress is called after each line, never concurrently. May be nil.
	Progress func(Summary)
	Now      func() time.Time // nil: time.Now
}

const (
	senders     = 4
	checkedPast = 8 // calls of an earlier session that are looked for, to tell whether this is their pool
)

// Run runs every call of the file that has no result in the journal, and
// writes the lines of all, also of those that had one. When ctx is done it
// leaves the calls running and returns the cause; a later Run goes on.
func Run(ctx context.Context, pool Pool, file *File, journal *Journal, out io.Writer, o Options) (Summary, error) {
	e, err := newEngine(pool, file, journal, o)
	if err != nil {
		return Summary{}, err
	}
	if !journal.Complete() {
		if err := e.begin(ctx); err != nil {
			return e.summary, err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(gctx, e.wake)()
	g.Go(func() error { return e.print(gctx, out) })
	if !journal.Complete() {
		fctx, stop := context.WithCancelCause(gctx)
		e.stopResults = func() { stop(errAllEnded) }
		g.Go(func() error { return e.follow(fctx) })
		for range e.senders() {
			g.Go(func() error { return e.send(gctx) })
		}
		if o.Parked != nil {
			g.Go(func() error { return e.watchParked(fctx) })
		}
		e.mu.Lock()
		e.checkEnd()
		e.mu.Unlock()
	}
	err = g.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.summary, err
}

func (e *engine) senders() int {
	if e.o.Pace != nil {
		return 1
	}
	return senders
}

var errAllEnded = errors.New("all calls have ended")

type engine struct {
	pool    Pool
	file    *File
	journal *Journal
	o       Options

	stopResults func()

	mu      sync.Mutex
	changed *sync.Cond // of anything below
	plan    *plan
	entries map[string]int32 // of the calls that are submitted and have not ended
	again   [][]int32        // entries to submit again, of earlier sessions
	open    int              // taken and not ended
	parked  int              // of these, how many wait for a human
	spans   []span           // of the ended entries
	printed int              // lines written
	queue   []int32          // OrderDone: lines whose calls have ended, from printed on
	summary Summary

	submitting int  // chunks on their way
	told       bool // that all are submitted
}

func newEngine(pool Pool, file *File, journal *Journal, o Options) (*engine, error) {
	if o.Order == "" {
		o.Order = OrderInput
	}
	if o.Window <= 0 {
		o.Window = 10000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if !journal.Fresh() && journal.Sequence != o.Sequence {
		return nil, fmt.Errorf("journal %s was begun %s --sequence run: go on in the same way, or begin anew with --restart, which runs every call again",
			journal.Path(), map[bool]string{true: "with", false: "without"}[journal.Sequence])
	}
	if !journal.Fresh() && journal.Run != o.Run {
		return nil, fmt.Errorf("journal %s was begun with %s: go on in the same way, or begin anew with --restart, which runs every call again",
			journal.Path(), cmp.Or(runFlag(journal.Run), "no --run"))
	}
	e := &engine{
		pool: pool, file: file, journal: journal, o: o, plan: newPlan(file, o.Sequence), entries: make(map[string]int32),
		spans: make([]span, file.Calls), stopResults: func() {},
	}
	e.changed = sync.NewCond(&e.mu)
	e.recall()
	return e, nil
}

func runFlag(run string) string {
	if run == "" {
		return ""
	}
	return "--run " + run
}

// recall takes over what the journal says about earlier sessions.
func (e *engine) recall() {
	p := &e.journal.past
	var chunk []int32
	for n := range e.file.Calls {
		i := int32(n)
		call, submitted := p.call(i)
		if s, ok := p.result(i); ok {
			e.plan.end(i)
			e.keep(i, s)
			continue
		}
		if !submitted {
			continue
		}
		e.plan.state[i] = taken
		e.open++
		e.entries[call] = i
		if p.isAccepted(i) {
			continue
		}
		if chunk = append(chunk, i); len(chunk) == messages.MaxChunkCalls {
			e.again, chunk = append(e.again, chunk), nil
		}
	}
	if len(chunk) > 0 {
		e.again = append(e.again, chunk)
	}
	p.done = nil // they are in e.spans
	if e.o.Order == OrderDone {
		for n := range e.file.Lines {
			if first, end := e.file.Span(n); first == end {
				e.queue = append(e.queue, int32(n))
			}
		}
	}
	slices.SortStableFunc(e.queue, func(a, b int32) int { return cmp.Compare(e.lastEnd(a), e.lastEnd(b)) })
}

// lastEnd is where in the journal the last call of a line ended.
func (e *engine) lastEnd(line int32) (offset int64) {
	first, end := e.file.Span(int(line))
	for _, s := range e.spans[first:end] {
		offset = max(offset, s.offset)
	}
	return offset
}

// lineEnded says whether every call of a line has ended.
func (e *engine) lineEnded(line int32) bool {
	first, end := e.file.Span(int(line))
	for _, s := range e.plan.state[first:end] {
		if s != ended {
			return false
		}
	}
	return true
}

// keep notes the line of an entry; e.mu is held, or nobody else is there yet.
func (e *engine) keep(i int32, s span) {
	e.spans[i] = s
	e.summary.add(statuses()[s.status], s.again)
	if e.o.Order == OrderDone {
		if line := int32(e.file.LineOf(int(i))); e.lineEnded(line) {
			e.queue = append(e.queue, line)
		}
	}
	if e.o.Progress != nil {
		e.o.Progress(e.summary)
	}
}

// begin makes sure that this is the pool of the earlier sessions, and opens a new one.
func (e *engine) begin(ctx context.Context) error {
	h := Header{Pool: e.o.Name, Where: e.o.Where, Sequence: e.o.Sequence, Run: e.o.Run, Created: e.o.Now()}
	if e.journal.Fresh() {
		from, err := e.pool.Position(ctx)
		if err != nil {
			return err
		}
		h.Batch, h.From = uuid.NewString(), from
	} else if err := e.checkPool(ctx); err != nil {
		return err
	}
	if err := e.journal.start(h); err != nil {
		return err
	}
	if e.o.Begin != nil && e.hasOwn() {
		if err := e.o.Begin(ctx, e.run(messages.Submission{})); err != nil {
			return err
		}
	}
	e.tellSubmitted(ctx)
	return nil
}

// hasOwn says whether any call of the file names no run.
func (e *engine) hasOwn() bool { return e.file.ManyRuns || slices.Contains(e.file.Runs, "") }

// tellSubmitted tells once that no call of the file is left to submit.
func (e *engine) tellSubmitted(ctx context.Context) {
	e.mu.Lock()
	now := e.o.Submitted != nil && e.hasOwn() && !e.told && e.submitting == 0 && len(e.again) == 0 && e.open+e.summary.Ended() == e.file.Calls
	e.told = e.told || now
	accepted := int64(e.file.Calls - e.summary.Refused)
	e.mu.Unlock()
	if !now {
		return
	}
	if len(e.file.Runs) != 1 {
		accepted = -1
	}
	e.o.Submitted(ctx, e.run(messages.Submission{}), accepted)
}

// checkPool looks for calls that an earlier session saw accepted. A pool that
// knows none of them is not theirs: to wait there would be in vain, and to
// submit there would run them twice.
func (e *engine) checkPool(ctx context.Context) error {
	last := ""
	looked := 0
	for call, i := range e.entries {
		if !e.journal.past.isAccepted(i) {
			continue
		}
		r := reader{file: e.file}
		s, err := r.call(int(i))
		if err != nil {
			return err
		}
		known, err := e.pool.Known(ctx, e.run(s), call)
		if err != nil || known {
			return err
		}
		if last = call; looked == checkedPast {
			break
		}
		looked++
	}
	if last == "" {
		return nil
	}
	return fmt.Errorf(
		"this pool (%s) does not know call %s, which the journal %s says was accepted at %s on %s: it is another pool, or its retention has passed. "+
			"Connect to that pool to go on, or begin anew with --restart, which runs every call again",
		e.o.Where, last, e.journal.Path(), e.journal.Where, e.journal.Created.Local().Format(time.DateTime))
}

func (e *engine) run(s messages.Submission) messages.Run {
	name := cmp.Or(s.Run, e.o.Run)
	if name == "" {
		return messages.UnnamedRun(e.journal.Batch)
	}
	return messages.NamedRun(name)
}

// runs are those to follow; none means all of the pool's.
func (e *engine) runs() []messages.Run {
	if e.file.ManyRuns {
		return nil
	}
	var out []messages.Run
	for _, name := range e.file.Runs {
		out = append(out, e.run(messages.Submission{Run: name}))
	}
	return out
}

func (e *engine) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed.Broadcast()
}

// end keeps the line of an entry.
func (e *engine) end(i int32, r Result) error {
	s, err := e.journal.done(i, r)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.plan.state[i] == ended {
		return nil
	}
	e.plan.end(i)
	e.open--
	delete(e.entries, r.Call)
	e.parked = min(e.parked, e.open) // the next look counts anew
	e.summary.Parked = e.parked
	e.keep(i, s)
	e.checkEnd()
	e.changed.Broadcast()
	return nil
}

func (e *engine) allEnded() bool { return e.summary.Ended() == e.file.Calls }

func (e *engine) checkEnd() {
	if e.allEnded() {
		e.stopResults()
	}
}

// follow takes in results. One that is not ours, or that an earlier session
// has kept, is passed over.
func (e *engine) follow(ctx context.Context) error {
	err := e.pool.Results(ctx, e.runs(), e.journal.From, func(r messages.Result) error {
		e.mu.Lock()
		i, ours := e.entries[r.Call]
		e.mu.Unlock()
		if !ours {
			return nil
		}
		output, err := e.pool.Output(ctx, r)
		if errors.Is(err, messages.ErrNotFound) {
			r.Reason = OutputGone(r)
		} else if err != nil {
			return err
		}
		return e.end(i, Ended(r, output))
	})
	if errors.Is(context.Cause(ctx), errAllEnded) {
		return nil
	}
	return err
}
