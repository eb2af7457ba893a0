package worker

import (
	"slices"
	"time"

	"mulligan/pkg/messages"
)

// lanes decides which lane is asked for how many calls (ADR 0001). A lane
// whose last answer said that there is more is busy: busy lanes share the free
// slots by weight, so that none starves, and are asked without waiting. A lane
// that had no more gets a standing request for one call, so that a call is met at
// once in whichever lane it comes; since several of those may be answered
// together, there can be one call more than free slots for each lane but one.
// Busy lanes may be asked for some calls ahead of the slots (ADR 0015).
//
// It is pure; one goroutine owns it.
type lanes struct{ all []lane }

type lane struct {
	queue    string
	lane     messages.Lane
	weight   int
	credit   int // smooth weighted round robin
	asking   bool
	reserved int // what the request under way may bring
	busy     bool
	pause    time.Time // asked again only then
}

// ask is one request: up to max calls of a lane, or the first that comes
// within wait.
type ask struct {
	lane int
	max  int
	wait time.Duration
}

// standingWait is how long a request to a lane that had no more stands.
const standingWait = 10 * time.Second

func laneWeight(l messages.Lane) int {
	switch l {
	case messages.LaneHigh:
		return 8
	case messages.LaneNormal:
		return 4
	case messages.LaneRetry:
		return 2
	}
	return 1
}

// newLanes takes all lanes of the queues; at first all count as busy, which
// finds a backlog at once.
func newLanes(queues []string) *lanes {
	ls := &lanes{}
	for _, q := range queues {
		for _, l := range messages.Lanes() {
			ls.all = append(ls.all, lane{queue: q, lane: l, weight: laneWeight(l), busy: true})
		}
	}
	return ls
}

// plan gives the requests to make now that free slots, which may be negative,
// are neither taken nor promised to a call that is here. Where one is free, ahead
// calls more are asked for.
func (ls *lanes) plan(now time.Time, free, ahead int) []ask {
	for i := range ls.all {
		free -= ls.all[i].reserved
	}
	if free <= 0 {
		return nil
	}
	asks := ls.share(now, free+ahead)
	for i := range ls.all {
		if l := &ls.all[i]; !l.busy && l.ready(now) {
			l.asking = true
			asks = append(asks, ask{lane: i, max: 1, wait: standingWait})
		}
	}
	return asks
}

// share divides n calls over the busy lanes that can be asked.
func (ls *lanes) share(now time.Time, n int) []ask {
	var able []int
	total := 0
	for i := range ls.all {
		if l := &ls.all[i]; l.busy && l.ready(now) {
			able = append(able, i)
			total += l.weight
		}
	}
	if len(able) == 0 {
		return nil
	}
	asks := make([]ask, len(able))
	for range n {
		best := 0
		for k, i := range able {
			ls.all[i].credit += ls.all[i].weight
			if ls.all[i].credit > ls.all[able[best]].credit {
				best = k
			}
		}
		ls.all[able[best]].credit -= total
		asks[best].max++
	}
	for k, i := range able {
		if asks[k].lane = i; asks[k].max > 0 {
			ls.all[i].asking, ls.all[i].reserved = true, asks[k].max
		}
	}
	return slices.DeleteFunc(asks, func(a ask) bool { return a.max == 0 })
}

func (l *lane) ready(now time.Time) bool { return !l.asking && !now.Before(l.pause) }

// answered ends the request of lane i; more says that there are others.
func (ls *lanes) answered(i int, more bool) {
	l := &ls.all[i]
	l.asking, l.reserved, l.busy = false, 0, more
	if !more {
		l.credit = 0
	}
}

// failed ends the request of lane i without an answer; it is not asked before until.
func (ls *lanes) failed(i int, until time.Time) {
	ls.answered(i, false)
	ls.all[i].pause = until
}

// wake is when the next lane that failed may be asked again; zero for never.
func (ls *lanes) wake(now time.Time) time.Time {
	var next time.Time
	for i := range ls.all {
		if p := ls.all[i].pause; p.After(now) && (next.IsZero() || p.Before(next)) {
			next = p
		}
	}
	return next
}
