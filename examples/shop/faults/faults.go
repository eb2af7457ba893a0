// Package faults decides which executions of the shop fail for reasons that are
// not the tool's: a share before the state is touched, another share after the
// change was made, so that its answer is lost. Only the second kind shows
// whether a retry repeats a change.
package faults

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Kind is what happens to an execution.
type Kind string

// The kinds. The first group strikes before the state is touched, the second
// after the tool has answered.
const (
	// None: the execution is left alone.
	None Kind = ""

	// TimeOut: no answer comes.
	TimeOut Kind = "time-out"
	// RateLimited: HTTP 429 with a Retry-After.
	RateLimited Kind = "rate-limited"
	// Unavailable: HTTP 503.
	Unavailable Kind = "unavailable"
	// StoreRace: the error text that reading a half-written store gives.
	StoreRace Kind = "store-race"

	// Dropped: the connection is closed in place of the answer.
	Dropped Kind = "dropped"
	// Silent: the answer never comes.
	Silent Kind = "silent"
)

// IsAfter says whether the tool was executed all the same.
func (k Kind) IsAfter() bool { return k == Dropped || k == Silent }

// Plan says how often executions fail. The zero Plan lets all pass.
type Plan struct {
	// Before is the share, 0 to 1, that fails before the state is touched.
	Before float64
	// After is the share, 0 to 1, whose answer is lost. Both together are at
	// most 1.
	After float64
	// Seed selects one of the possible courses.
	Seed uint64
}

// Validate names the field that is out of range.
func (p Plan) Validate() error {
	switch {
	case !(p.Before >= 0 && p.Before <= 1):
		return fmt.Errorf("fault share before execution: %v is not between 0 and 1", p.Before)
	case !(p.After >= 0 && p.After <= 1):
		return fmt.Errorf("fault share after execution: %v is not between 0 and 1", p.After)
	case p.Before+p.After > 1:
		return fmt.Errorf("fault shares before and after execution: %v and %v are more than 1 together", p.Before, p.After)
	default:
		return nil
	}
}

// Decide returns the fate of the n-th execution of a call, from 1 on. It is a
// function of the plan and the arguments alone: the same course of calls fails
// in the same places, however they interleave.
func (p Plan) Decide(call string, n int) Kind {
	seed := fmt.Sprintf("%d/%d/%s", p.Seed, n, call)
	sum := sha256.Sum256([]byte(seed))
	share := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	pick := binary.BigEndian.Uint64(sum[8:16])
	switch {
	case share < p.Before:
		before := []Kind{TimeOut, RateLimited, Unavailable, StoreRace}
		return before[pick%uint64(len(before))]
	case share < p.Before+p.After:
		after := []Kind{Dropped, Silent}
		return after[pick%uint64(len(after))]
	default:
		return None
	}
}

// ErrTooManyCalls says that no further call can be counted.
var ErrTooManyCalls = errors.New("too many calls to count executions of")

// maxCalls bounds what an Injector remembers, at about 100 bytes a call.
const maxCalls = 1 << 21

// Injector counts the executions of each call and decides on each of them. It
// is safe for concurrent use.
type Injector struct {
	plan Plan

	mu         sync.Mutex
	executions map[string]int
}

// NewInjector returns an injector that has seen no call.
func NewInjector(plan Plan) (*Injector, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	return &Injector{plan: plan, executions: make(map[string]int)}, nil
}

// Next counts one more execution of the call and returns its fate. The error is
// [ErrTooManyCalls]; it cannot come from a plan without faults, which counts
// nothing.
func (i *Injector) Next(call string) (Kind, error) {
	if i.plan.Before == 0 && i.plan.After == 0 {
		return None, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.executions[call]; !known && len(i.executions) >= maxCalls {
		return None, fmt.Errorf("%w: %d are known", ErrTooManyCalls, maxCalls)
	}
	i.executions[call]++
	return i.plan.Decide(call, i.executions[call]), nil
}
