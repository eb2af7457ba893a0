package runstate

import (
	"time"

	"mulligan/pkg/messages"
)

// State is where a run stands.
type State string

// The states, in the order in which a run goes through them; Ended comes at any time.
const (
	Open   State = "open"   // calls may come
	Closed State = "closed" // no call comes any more, and some have not ended
	Over   State = "over"   // all calls have ended
	Ended  State = "ended"  // a hard end, a cancellation or its deadline; its calls end as that says
)

// States lists them.
func States() []State { return []State{Open, Closed, Over, Ended} }

// Of is the state of a run. One that ended hard stays so when its calls have
// ended too; one that nobody declared is open.
func Of(e messages.RunEntry) State {
	switch {
	case e.Ended != nil:
		return Ended
	case e.Over != nil:
		return Over
	case e.Closed != nil:
		return Closed
	}
	return Open
}

// Progress is what is known of a run at a moment. All but Deciding is counted by
// the broker.
type Progress struct {
	Ended   int64 `json:"ended"`   // have a result
	Queued  int64 `json:"queued"`  // in CALLS: waiting for a worker, or running
	Waiting int64 `json:"waiting"` // for another dispatch: a retry, a breaker, a time
	Parked  int64 `json:"parked"`  // for a human
	// Total is how many calls there are: as the run was closed or declared with,
	// else as many as are known. Sure says that no other number can come of it.
	Total int64 `json:"total"`
	Sure  bool  `json:"total_is_sure"`
}

// Known are the calls that were accepted for certain. A call whose failure is
// being decided on is in none of the counts.
func (p Progress) Known() int64 { return p.Ended + p.Queued + p.Waiting + p.Parked }

// WithTotal fills in Total from what was said about the run.
func (p Progress) WithTotal(e messages.RunEntry) Progress {
	p.Total, p.Sure = p.Known(), false
	switch {
	case e.Over != nil:
		p.Total, p.Sure = e.Over.Calls, true
	case e.Closed != nil && e.Closed.Calls != nil:
		p.Total, p.Sure = *e.Closed.Calls, true
	case e.Spec != nil && e.Spec.Expected > p.Total:
		p.Total = e.Spec.Expected
	}
	return p
}

// Left are the calls that have not ended, as far as is known.
func (p Progress) Left() int64 { return max(p.Total-p.Ended, 0) }

// Estimate is how long the rest takes at a pace of ended calls in took; ok is
// false where nothing can be said.
func Estimate(left, ended int64, took time.Duration) (rest time.Duration, ok bool) {
	switch {
	case left <= 0:
		return 0, true
	case ended <= 0 || took <= 0:
		return 0, false
	}
	rest = time.Duration(float64(took) * (float64(left) / float64(ended)))
	if rest < 0 || rest > farAhead {
		return 0, false
	}
	return rest, true
}

// farAhead bounds an estimate: beyond it, it says nothing.
const farAhead = 365 * 24 * time.Hour

// Pace remembers how many calls had ended when, over the last while, so that an
// estimate follows what happens now. The zero value is ready.
type Pace struct{ seen []sample }

type sample struct {
	at    time.Time
	ended int64
}

// Of a pace.
const (
	paceOver   = time.Minute
	paceSample = time.Second
)

// Note takes in a count. Counts less than a second apart replace each other.
func (p *Pace) Note(now time.Time, ended int64) {
	if n := len(p.seen); n > 1 && now.Sub(p.seen[n-2].at) < paceSample {
		p.seen = p.seen[:n-1]
	}
	p.seen = append(p.seen, sample{now, ended})
	for len(p.seen) > 2 && now.Sub(p.seen[0].at) > paceOver {
		p.seen = p.seen[1:]
	}
}

// Rest estimates how long the rest takes.
func (p *Pace) Rest(left int64) (time.Duration, bool) {
	if len(p.seen) == 0 {
		return Estimate(left, 0, 0)
	}
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	return Estimate(left, last.ended-first.ended, last.at.Sub(first.at))
}
