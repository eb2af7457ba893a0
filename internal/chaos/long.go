//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"mulligan/pkg/client"
	"mulligan/pkg/messages"
)

// Long is a trial whose streams forget while it goes on: what the checker needs
// is kept as it comes by, without the bodies, and what happens is decided by its
// user. Methods may be called concurrently, but for Finish and Close.
type Long struct {
	t    *trial
	stop context.CancelFunc
	side sync.WaitGroup

	// Guarded by t.mu.
	next       int             // wishes that were taken
	ended      map[string]bool // calls with a result
	results    []messages.Result
	stored     []time.Time
	story      []messages.Stored
	unreadable error
}

// OpenLong starts a pool in an empty folder, and keeps it alive, answers what it
// asks humans, and reads along until Close. At most calls may be submitted.
func OpenLong(ctx context.Context, s Setup, seed uint64, calls int, dir, natsServer string) (*Long, error) {
	c, err := startCluster(ctx, dir, natsServer, s)
	if err != nil {
		return nil, err
	}
	plan := Plan{Config: Config{Seed: seed, Nodes: s.Nodes}, Wishes: make([]Wish, calls)}
	t := &trial{plan: plan, cluster: c, hurt: make(map[string]bool), began: time.Now()}
	if t.client, err = client.New(c.pool, client.Config{By: "chaos", Patience: patience}); err != nil {
		c.stop()
		return nil, err
	}
	t.batch = t.client.Batch()
	t.history = History{Plan: plan, Batch: t.batch.ID(), Names: c.pool.Names(), Told: make([]Told, calls), Struck: make(map[Kind]int), Versions: make(map[string][]messages.Record)}
	l := &Long{t: t, ended: make(map[string]bool)}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.side.Go(func() { c.keepAlive(ctx, t.hold) })
	l.side.Go(func() { t.answerAll(ctx) })
	l.side.Go(func() { t.watchRecords(ctx) })
	l.side.Go(func() { _ = c.pool.Follow(ctx, messages.StreamResults, nil, 1, l.keepResult) }) // both end with ctx
	l.side.Go(func() { _ = c.pool.Follow(ctx, messages.StreamRecovery, nil, 1, l.keepStory) })
	return l, nil
}

func (l *Long) keepResult(m messages.Stored) {
	r, err := l.t.history.Names.DecodeResult(m.Message)
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if err != nil {
		l.unreadable = errors.Join(l.unreadable, fmt.Errorf("%s: %w", m.Subject, err))
		return
	}
	r.Output = messages.Body{}
	l.results, l.stored = append(l.results, r), append(l.stored, m.Time)
	l.ended[r.Call] = true
}

// keepStory leaves bodies out, but for those of failures, which are read.
func (l *Long) keepStory(m messages.Stored) {
	m.Header = nil
	if a, err := l.t.history.Names.Parse(m.Subject); err == nil && a.Kind != messages.KindFailure {
		m.Body = nil
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.story = append(l.story, m)
}

// Pids are the processes that run now, by name.
func (l *Long) Pids() map[string]int {
	pids := map[string]int{"witness": l.t.cluster.witness.pid()}
	for name, p := range l.t.cluster.processes {
		pids[name] = p.pid()
	}
	return pids
}

// Monitor is the address at which the broker tells of itself.
func (l *Long) Monitor() string { return l.t.cluster.monitors[0] }

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Submit submits wishes, their times counted from now, cancels those that are to
// be cancelled, and forgets their inputs.
func (l *Long) Submit(ctx context.Context, wishes []Wish) {
	t, now := l.t, time.Since(l.t.began)
	t.mu.Lock()
	from := l.next
	l.next += copy(t.plan.Wishes[from:], wishes)
	to := l.next
	t.mu.Unlock()
	var all sync.WaitGroup
	for i := from; i < to; i += portion {
		end := min(i+portion, to)
		all.Go(func() {
			if !t.sleepUntil(ctx, now+t.plan.Wishes[i].At) {
				return
			}
			t.submit(ctx, i, end)
			for n := i; n < end; n++ {
				t.plan.Wishes[n].Call.Input = nil
			}
		})
	}
	all.Wait()
}

// CancelRun cancels a run by its name.
func (l *Long) CancelRun(ctx context.Context, name string) {
	l.t.cancel(ctx, messages.NamedRun(name), "")
}

// Strike does a fault at its time, counted from the start of the pool.
func (l *Long) Strike(ctx context.Context, f Fault) error { return l.t.strike(ctx, f) }

// Finish heals what is hurt, waits until all has ended, and gives what happened.
// Nothing may be submitted or struck any more.
func (l *Long) Finish(ctx context.Context) (History, error) {
	t := l.t
	if err := t.cluster.heal(); err != nil {
		return History{}, err
	}
	t.history.Healthy = time.Now()
	l.awaitEnds(ctx)
	t.history.Finished, t.history.Took = time.Now(), time.Since(t.began)
	l.stop()
	l.side.Wait()
	if err := errors.Join(l.unreadable, t.collect(ctx)); err != nil {
		return History{}, err
	}
	t.cluster.witness.end()
	h := t.history
	h.Results, h.Stored, h.Story = l.results, l.stored, l.story // the streams have forgotten most of it
	h.Plan.Wishes, h.Told = h.Plan.Wishes[:l.next], h.Told[:l.next]
	var err error
	h.Effects, err = readWitness(filepath.Join(t.cluster.dir, witnessFile))
	return h, err
}

// awaitEnds waits until every call has ended that may have been accepted, all
// results have been read, and the streams of work are empty; what is left after
// patience is for the checker.
func (l *Long) awaitEnds(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for !l.quiet(ctx) {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func (l *Long) quiet(ctx context.Context) bool {
	last, err := l.t.cluster.pool.LastSequence(ctx, messages.StreamResults)
	if err != nil {
		return false
	}
	left, err := l.t.left(ctx)
	if err != nil || len(left) > 0 {
		return false
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	for _, c := range l.t.history.Told[:l.next] {
		if c.Refused == "" && !c.Uncertain && !l.ended[c.Call] {
			return false
		}
	}
	return uint64(len(l.results)) >= last
}

// Close ends all processes.
func (l *Long) Close() {
	l.stop()
	l.side.Wait()
	l.t.client.Close()
	l.t.cluster.stop()
}
