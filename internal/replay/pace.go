package replay

import (
	"fmt"
	"time"
)

// Pace says how fast calls are submitted: first a few, whose results are waited
// for, then so many a second. It is for one goroutine.
type Pace struct {
	// Canary is how many calls go first; 0 for none. Those that follow are submitted
	// when all of these have ended and the share of Ratio succeeded.
	Canary int
	Ratio  float64
	// Rate is in calls a second; 0 for as fast as the pool takes them.
	Rate float64
	// Total is how many calls there are. A canary that is all of them stops nothing.
	Total int

	began bool
	last  time.Time
	seen  int     // of submitted
	room  float64 // calls that may be submitted now
}

// CanaryError says that too few of the first calls succeeded.
type CanaryError struct {
	Succeeded, Of int
	Ratio         float64
}

func (e *CanaryError) Error() string {
	return fmt.Sprintf("%d of the first %d calls succeeded, and a share of %g was asked for", e.Succeeded, e.Of, e.Ratio)
}

// slice is the least time between two submissions of a paced replay: a request
// for each call would cost more than the calls.
const slice = 50 * time.Millisecond

// Next says how many calls may be submitted now, when submitted are and so many
// of them have ended and succeeded. With 0 it is asked again after wait, or,
// where that is 0, when another call has ended. The error is a [*CanaryError].
func (p *Pace) Next(now time.Time, submitted, ended, succeeded int) (n int, wait time.Duration, err error) {
	most := p.Total
	if p.Canary > 0 && p.Canary < p.Total && submitted <= p.Canary {
		switch {
		case submitted < p.Canary:
			most = p.Canary - submitted
		case ended < p.Canary:
			return 0, 0, nil
		case float64(succeeded) < p.Ratio*float64(p.Canary):
			return 0, 0, &CanaryError{succeeded, p.Canary, p.Ratio}
		}
	}
	if p.Rate <= 0 {
		return most, 0, nil
	}
	full := max(1, p.Rate*slice.Seconds())
	if !p.began {
		p.began, p.last, p.seen, p.room = true, now, submitted, full
	}
	p.room = min(p.room+now.Sub(p.last).Seconds()*p.Rate, 2*full) - float64(submitted-p.seen) // what nobody used is not made up for
	p.last, p.seen = now, submitted
	if p.room < min(full, float64(most)) {
		return 0, max(time.Millisecond, time.Duration((min(full, float64(most))-p.room)/p.Rate*float64(time.Second))), nil
	}
	return min(int(p.room), most), 0, nil
}
