package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mulligan/internal/pace"
	"mulligan/pkg/messages"
)

const absentPause = 2 * time.Second // before a lane without a consumer is asked again

// chooser says which lane to ask for how many calls; *lanes is the one in use,
// the benchmark of ADR 0001 has others.
type chooser interface {
	plan(now time.Time, free, ahead int) []ask
	answered(lane int, more bool)
	failed(lane int, until time.Time)
	wake(now time.Time) time.Time
}

// fetching brings calls from the lanes to the slots. Its loop owns the lanes,
// the count of free slots and the calls that are held beyond them; one
// goroutine for each lane makes that lane's requests.
type fetching struct {
	w       *Worker
	lanes   chooser
	names   []string // of each lane's consumer
	free    int
	held    []held
	asks    []chan ask
	answers chan answer
	pauses  []*pace.Pauses // of each lane
	askers  sync.WaitGroup
}

// held is a call for which no slot was free when it came; it is given back when
// none has become free until then.
type held struct {
	lease *lease
	until time.Time
}

type answer struct {
	ask
	got []messages.Delivery
	err error
}

// Of calls that are asked for ahead of the slots (ADR 0015).
const (
	shortCall  = 5 * time.Millisecond // what takes no longer is as quickly done as fetched
	aheadLimit = 10 * shortCall       // that one waits behind a call that was not short after all
)

// mostAhead is how many calls may be asked for ahead of the slots: one for each
// lane but one, as many as requests that stand may bring.
var mostAhead = len(messages.Lanes()) - 1

// ahead is how many calls to ask for beyond the slots.
func (f *fetching) ahead() int {
	if f.w.short.Load() {
		return mostAhead
	}
	return 0
}

// holdLimit is how long a call of this request may wait for a slot.
func (f *fetching) holdLimit(a ask) time.Duration {
	if a.wait == 0 {
		return min(aheadLimit, f.w.cfg.HoldLimit)
	}
	return f.w.cfg.HoldLimit
}

// more says that the lane has others, as its last call tells.
func (a answer) more() bool { return len(a.got) > 0 && a.got[len(a.got)-1].More }

func newFetching(w *Worker) *fetching {
	f := &fetching{w: w, lanes: w.choose(w.queues), free: w.cfg.Slots}
	for _, q := range w.queues {
		for _, l := range messages.Lanes() {
			f.names = append(f.names, w.names.LaneConsumer(q, l))
			f.asks = append(f.asks, make(chan ask, 1))
			f.pauses = append(f.pauses, pauses())
		}
	}
	f.answers = make(chan answer, len(f.names))
	return f
}

// run fetches until ctx is done, then gives back what has not begun.
func (f *fetching) run(ctx context.Context) {
	for i := range f.names {
		f.askers.Go(func() { f.ask(ctx, i) })
	}
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	for ctx.Err() == nil {
		f.startHeld()
		for _, a := range f.lanes.plan(time.Now(), f.free-len(f.held), f.ahead()) {
			f.asks[a.lane] <- a
		}
		wake.Reset(f.nextWake())
		select {
		case a := <-f.answers:
			f.take(a)
		case <-f.w.freed:
			f.free++
		case <-wake.C:
		case <-ctx.Done():
		}
		f.takeMore()
	}
	f.giveBack()
}

// takeMore takes what has come meanwhile, so that one plan serves all of it.
func (f *fetching) takeMore() {
	for {
		select {
		case a := <-f.answers:
			f.take(a)
		case <-f.w.freed:
			f.free++
		default:
			return
		}
	}
}

// ask makes the requests of lane i. It ends when its channel is closed.
func (f *fetching) ask(ctx context.Context, i int) {
	for a := range f.asks[i] {
		got, err := f.w.broker.Fetch(ctx, messages.StreamCalls, f.names[i], a.max, a.wait)
		f.answers <- answer{a, got, err}
	}
}

func (f *fetching) take(a answer) {
	if a.err != nil {
		pause := absentPause
		if !errors.Is(a.err, messages.ErrNotFound) {
			pause = f.pauses[a.lane].Next()
		}
		if f.w.draining.Err() == nil {
			f.w.log.Debug("a lane gave no answer", "consumer", f.names[a.lane], "error", a.err)
		}
		f.lanes.failed(a.lane, time.Now().Add(pause))
		return
	}
	f.pauses[a.lane] = pauses()
	f.lanes.answered(a.lane, a.more())
	for _, d := range a.got {
		l := f.w.leases.take(d)
		if l == nil {
			continue // still at work on an earlier delivery of it
		}
		if f.free > 0 && len(f.held) == 0 {
			f.start(l)
			continue
		}
		f.held = append(f.held, held{lease: l, until: time.Now().Add(f.holdLimit(a.ask))})
		f.w.counts.held.Add(1)
	}
}

func (f *fetching) start(l *lease) {
	f.free--
	select {
	case f.w.hands <- l:
	default:
		f.w.handlings.Go(func() { f.w.work(l) })
	}
}

// work handles l, and then what it is handed, so that a goroutine's stack
// grows once and not for each call.
func (w *Worker) work(l *lease) {
	for {
		w.handle(l)
		if w.idle.Add(1) > int32(w.cfg.Slots)+mostStoring {
			w.idle.Add(-1)
			return
		}
		select {
		case l = <-w.hands:
			w.idle.Add(-1)
		case <-w.draining.Done():
			return
		}
	}
}

// startHeld starts held calls in the order they came, and gives back those
// that no slot became free for: another worker may have one.
func (f *fetching) startHeld() {
	for len(f.held) > 0 && f.free > 0 {
		f.start(f.unhold())
	}
	f.held = slices.DeleteFunc(f.held, func(h held) bool {
		over := !time.Now().Before(h.until)
		if over {
			f.w.giveBack(h.lease, "no slot became free")
			f.w.counts.held.Add(-1)
		}
		return over
	})
}

func (f *fetching) unhold() *lease {
	l := f.held[0].lease
	f.held = f.held[1:]
	f.w.counts.held.Add(-1)
	return l
}

func (f *fetching) nextWake() time.Duration {
	next := time.Hour
	if t := f.lanes.wake(time.Now()); !t.IsZero() {
		next = time.Until(t)
	}
	for _, h := range f.held {
		next = min(next, time.Until(h.until))
	}
	return max(next, 0)
}

// giveBack ends the requests and returns what has not begun.
func (f *fetching) giveBack() {
	for _, c := range f.asks {
		close(c)
	}
	f.askers.Wait()
	close(f.answers)
	for a := range f.answers {
		for _, d := range a.got {
			if l := f.w.leases.take(d); l != nil {
				f.w.giveBack(l, "draining")
			}
		}
	}
	for len(f.held) > 0 {
		f.w.giveBack(f.unhold(), "draining")
	}
}
