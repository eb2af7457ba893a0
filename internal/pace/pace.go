// Package pace spaces out what is tried until it works.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses double from one to the next. Each is spread over the upper half of
// its step, so that those who failed together do not come back together. They
// belong to one goroutine.
type Pauses struct{ step, longest time.Duration }

// New makes pauses of at most first, then twice that, up to longest. After a
// success, begin anew with others.
func New(first, longest time.Duration) *Pauses { return &Pauses{step: first, longest: longest} }

// Next is how long to pause this time.
func (p *Pauses) Next() time.Duration {
	d := p.step/2 + rand.N(p.step/2+1)
	p.step = min(2*p.step, p.longest)
	return d
}

// Wait pauses. It returns false when ctx was done first.
func (p *Pauses) Wait(ctx context.Context) bool { return Sleep(ctx, p.Next()) }

// Sleep returns true after d, false when ctx was done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
