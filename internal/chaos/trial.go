//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// History is all that is known after a seed: what the submitter was told, what
// the streams hold, what the witness saw.
type History struct {
	Plan     Plan
	Batch    string
	Told     []Told // one for each wish, in their order
	Results  []messages.Result
	Stored   []time.Time // when each of Results was stored
	Written  uint64      // writes that RESULTS has taken
	Story    []messages.Stored
	Names    messages.Pool
	Left     []string // subjects in CALLS and SCHEDULE
	Records  []messages.Record
	Versions map[string][]messages.Record // of a record, as they were written
	Effects  []Effect
	Cas      casHistory
	Stood    map[string]time.Duration // how long a call stood in CALLS without a break, where a plan has that looked at
	Struck   map[Kind]int
	Killing  Killing
	Handed   int       // deliveries to services, of all consumers
	Again    int       // those of them that were not the first of their message
	Healthy  time.Time // when the last fault was healed
	Finished time.Time // when the last call had ended, or was given up
	Took     time.Duration
}

// Told is what the submitter knows of a call.
type Told struct {
	Call      string
	Run       messages.Run
	Submitted time.Time
	Refused   messages.Code // set when it was refused
	Uncertain bool          // nobody knows: an error came in place of an answer
}

// patience bounds how long calls may take to end once everything is healed.
const patience = 90 * time.Second

// trial is one seed that runs.
type trial struct {
	plan    Plan
	cluster *cluster
	client  *client.Client
	batch   *client.Batch
	began   time.Time

	mu      sync.Mutex
	hurt    map[string]bool // processes that a fault has in its hands
	history History
}

// Run does what a plan says, in an empty folder, and gives what happened. An
// error means that the trial itself failed; it says nothing about the pool.
func Run(ctx context.Context, p Plan, dir, natsServer string) (History, error) {
	return runIn(ctx, p, dir, natsServer, Setup{Nodes: p.Nodes})
}

func runIn(ctx context.Context, p Plan, dir, natsServer string, s Setup) (History, error) {
	return try(ctx, p, dir, natsServer, s, (*trial).run)
}

// try starts a pool for a plan, lets a trial happen, and gathers the history.
func try(ctx context.Context, p Plan, dir, natsServer string, s Setup, happen func(*trial, context.Context) error) (h History, err error) {
	c, err := startCluster(ctx, dir, natsServer, s)
	if err != nil {
		return h, err
	}
	defer c.stop()
	t := &trial{plan: p, cluster: c, hurt: make(map[string]bool), began: time.Now()}
	if t.client, err = client.New(c.pool, client.Config{By: "chaos", Patience: patience}); err != nil {
		return h, err
	}
	defer t.client.Close()
	t.batch = t.client.Batch()
	t.history = History{Plan: p, Batch: t.batch.ID(), Names: c.pool.Names(), Told: make([]Told, len(p.Wishes)), Struck: make(map[Kind]int), Versions: make(map[string][]messages.Record), Stood: make(map[string]time.Duration)}
	err = happen(t, ctx)
	t.history.Took = time.Since(t.began)
	if err != nil {
		return t.history, err
	}
	c.witness.end()
	t.history.Effects, err = readWitness(filepath.Join(dir, witnessFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return t.history, err
}

func (t *trial) run(ctx context.Context) error {
	background, stop := context.WithCancel(ctx)
	var side sync.WaitGroup
	defer side.Wait()
	defer stop()
	side.Go(func() { t.cluster.keepAlive(background, t.hold) })
	side.Go(func() { t.answerAll(background) })
	side.Go(func() { t.watchRecords(background) })
	if t.plan.Look > 0 {
		side.Go(func() { t.watchPlaces(background) })
	}
	var cas sync.WaitGroup
	casCtx, casStop := context.WithTimeout(ctx, t.plan.Over)
	defer casStop()
	cas.Go(func() { t.history.Cas = t.raceForRegister(casCtx) })

	var storm sync.WaitGroup
	struck := make(chan error, len(t.plan.Strikes))
	for _, f := range t.plan.Strikes {
		storm.Go(func() { struck <- t.strike(ctx, f) })
	}
	t.submitAll(ctx)
	storm.Wait()
	cas.Wait()
	close(struck)
	for err := range struck {
		if err != nil {
			return err
		}
	}
	return t.settle(ctx)
}

// settle heals all, waits for the ends, and reads what there is to read.
func (t *trial) settle(ctx context.Context) error {
	if err := t.cluster.heal(); err != nil {
		return err
	}
	t.history.Healthy = time.Now()
	t.awaitEnds(ctx)
	t.history.Finished = time.Now()
	return t.collect(ctx)
}

// hold takes a process into one pair of hands.
func (t *trial) hold(name string) (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hurt[name] {
		return nil, false
	}
	t.hurt[name] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.hurt, name)
	}, true
}

func (t *trial) strike(ctx context.Context, f Fault) error {
	if !t.sleepUntil(ctx, f.At) {
		return ctx.Err()
	}
	target := f.Target
	if target == Leader {
		var err error
		if target, err = t.cluster.leader(ctx, t.history.Names.StreamName(messages.StreamCalls)); err != nil {
			return err
		}
	}
	for {
		release, ok := t.hold(target)
		if ok {
			defer release()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.mu.Lock()
	t.history.Struck[f.Kind]++
	t.mu.Unlock()
	t.cluster.log.Info("strikes", "fault", f, "target", target)
	if f.Kind == Full {
		return t.fill(ctx, f)
	}
	return t.cluster.processes[target].strike(ctx, f)
}

func (t *trial) sleepUntil(ctx context.Context, at time.Duration) bool {
	select {
	case <-time.After(time.Until(t.began.Add(at))):
		return true
	case <-ctx.Done():
		return false
	}
}

// portion is how much is submitted in one request.
const portion = 20

// submitAll submits the calls at their times, and cancels those that are to be.
func (t *trial) submitAll(ctx context.Context) {
	var all sync.WaitGroup
	for i := 0; i < len(t.plan.Wishes); i += portion {
		to := min(i+portion, len(t.plan.Wishes))
		all.Go(func() {
			if t.sleepUntil(ctx, t.plan.Wishes[i].At) {
				t.submit(ctx, i, to)
			}
		})
	}
	all.Go(func() {
		if t.sleepUntil(ctx, t.plan.CancelRun) {
			t.cancel(ctx, messages.NamedRun(cancelledRun), "")
		}
	})
	all.Wait()
}

func (t *trial) submit(ctx context.Context, from, to int) {
	calls := make([]messages.Submission, 0, to-from)
	now := time.Now()
	for i := from; i < to; i++ {
		w := t.plan.Wishes[i]
		s := w.Call
		s.Call = messages.NewCallID()
		if w.Deadline > 0 {
			s.Deadline = now.Add(w.Deadline).UTC()
		}
		t.history.Told[i] = Told{Call: s.Call, Run: t.batch.Run(s.Run), Submitted: now}
		calls = append(calls, s)
	}
	refused, err := t.batch.Submit(ctx, calls)
	if err != nil {
		t.cluster.log.Warn("nobody knows what became of a submission", "calls", len(calls), "error", err)
	}
	for _, r := range refused {
		for i := from; i < to; i++ {
			if t.history.Told[i].Call == r.Call {
				t.history.Told[i].Refused = r.Code
			}
		}
	}
	var cancels sync.WaitGroup
	for i := from; i < to; i++ {
		t.history.Told[i].Uncertain = err != nil && t.history.Told[i].Refused == ""
		if w := t.plan.Wishes[i]; w.Cancel > 0 && t.history.Told[i].Refused == "" {
			cancels.Go(func() {
				if t.sleepUntil(ctx, time.Since(t.began)+w.Cancel) {
					t.cancel(ctx, t.history.Told[i].Run, t.history.Told[i].Call)
				}
			})
		}
	}
	cancels.Wait()
}

func (t *trial) cancel(ctx context.Context, run messages.Run, call string) {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	_, _ = t.client.Cancel(ctx, messages.CancelRequest{Run: run, Call: call, Reason: "changed plans", By: "chaos"}) // one that ended before, or a run without a call, cannot be
}

// awaitEnds waits until every call has ended that was accepted, and the streams
// of work are empty. When nothing has ended for a while, what is left is for
// the checker.
func (t *trial) awaitEnds(ctx context.Context) {
	accepted := uint64(0)
	for _, c := range t.history.Told {
		if c.Refused == "" && !c.Uncertain {
			accepted++
		}
	}
	last, news := uint64(0), time.Now()
	for ctx.Err() == nil && time.Since(news) < patience {
		ended, err := t.cluster.pool.LastSequence(ctx, messages.StreamResults)
		if err == nil && ended > last {
			last, news = ended, time.Now()
		}
		if err == nil && ended >= accepted && t.quiet(ctx) {
			return
		}
		pause(ctx, 250*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (t *trial) quiet(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	ended := make(map[string]bool)
	err := t.cluster.pool.List(ctx, messages.StreamResults, nil, func(m messages.Stored) bool {
		if a, err := t.history.Names.Parse(m.Subject); err == nil {
			ended[a.Call] = true
		}
		return true
	})
	if err != nil {
		return false
	}
	for _, c := range t.history.Told {
		if c.Refused == "" && !c.Uncertain && !ended[c.Call] {
			return false
		}
	}
	left, err := t.left(ctx)
	return err == nil && len(left) == 0
}

// left is what still stands in CALLS and SCHEDULE: a deadline that has yet to
// come is not.
func (t *trial) left(ctx context.Context) ([]string, error) {
	var left []string
	for _, s := range []messages.Stream{messages.StreamCalls, messages.StreamSchedule} {
		err := t.cluster.pool.List(ctx, s, nil, func(m messages.Stored) bool {
			if !isDeadline(m.Subject) && m.Subject != t.history.Names.CallsHead() {
				left = append(left, m.Subject)
			}
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s, err)
		}
	}
	return left, nil
}
