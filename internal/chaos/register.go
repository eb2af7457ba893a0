//go:build unix

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"mulligan/pkg/messages"
)

const (
	registerKey = "chaos.register"
	racers      = 3
)

// casHistory is what several clients did to one entry with compare-and-set.
type casHistory []porcupine.Operation

// casInput is a read, or a write of Value in place of what stood at Expect.
type casInput struct {
	Write  bool
	Expect uint64
	Value  int
}

// casOutput is what the client was told.
type casOutput struct {
	Unknown  bool // an error: it may have happened, or not
	Conflict bool
	Revision uint64
	Value    int
}

type register struct {
	revision uint64 // 0: nothing stands there
	value    int
	unseen   bool // written by one who was not told the revision: the next read tells
}

// casModel is one entry with compare-and-set, as [linearizable] checks it. A
// conflict says nothing: in a cluster the leader refuses a write for the sake of
// another that is on its way, and until that is there a read still gives what
// stood before. Whoever lost reads again and loses again, which does no harm
// (P7.2); what counts is that no two win, and that no read goes back.
func casModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(register), input.(casInput), output.(casOutput)
			fits := in.Expect == s.revision && !s.unseen
			switch {
			case !in.Write && s.unseen:
				return out.Value == s.value, register{revision: out.Revision, value: out.Value}
			case !in.Write:
				return out.Revision == s.revision && out.Value == s.value, s
			case out.Conflict:
				return true, s // see below
			case !fits:
				return out.Unknown, s // it came too late to change anything
			case out.Unknown:
				return true, register{value: in.Value, unseen: true}
			}
			return true, register{revision: out.Revision, value: in.Value}
		},
	}
}

// raceForRegister lets several clients fight over one entry until ctx is done.
func (t *trial) raceForRegister(ctx context.Context) casHistory {
	var mu sync.Mutex
	var out casHistory
	var all sync.WaitGroup
	began := time.Now()
	for id := range racers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				for _, op := range t.race(id, id*1_000_000+n, began) {
					mu.Lock()
					out = append(out, op)
					mu.Unlock()
				}
				select {
				case <-time.After(60 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	return out
}

// race reads the entry and writes it once.
func (t *trial) race(id, value int, began time.Time) []porcupine.Operation {
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	pool := t.cluster.pool
	read := porcupine.Operation{ClientId: id, Input: casInput{}, Call: int64(time.Since(began))}
	e, err := pool.Load(ctx, messages.BucketAttempts, registerKey)
	read.Return = int64(time.Since(began))
	switch {
	case err == nil:
		v, _ := strconv.Atoi(string(e.Value))
		read.Output = casOutput{Revision: e.Revision, Value: v}
	case errors.Is(err, messages.ErrNotFound):
		read.Output = casOutput{}
	default:
		return nil // a read without an answer says nothing
	}
	in := casInput{Write: true, Expect: e.Revision, Value: value}
	write := porcupine.Operation{ClientId: id, Input: in, Call: int64(time.Since(began))}
	rev, err := pool.Save(ctx, messages.BucketAttempts, registerKey, []byte(strconv.Itoa(value)), e.Revision, time.Hour)
	write.Return = int64(time.Since(began))
	switch {
	case err == nil:
		write.Output = casOutput{Revision: rev}
	case errors.Is(err, messages.ErrConflict):
		write.Output = casOutput{Conflict: true}
	default:
		write.Output, write.Return = casOutput{Unknown: true}, int64(time.Hour)
	}
	return []porcupine.Operation{read, write}
}

// linearizable says whether one order of the operations explains what every
// client was told, and if not, which operations stand around the place where
// every order breaks off.
func linearizable(h casHistory) error {
	result, info := porcupine.CheckOperationsVerbose(casModel(), h, 20*time.Second)
	switch result {
	case porcupine.Illegal:
		return fmt.Errorf("no order of %d compare-and-set operations explains what their clients were told: %s", len(h), breakOff(h, info))
	case porcupine.Unknown:
		return fmt.Errorf("the checker found no answer for %d compare-and-set operations in its time", len(h))
	}
	return nil
}

// breakOff prints the last operations of the longest order that could be found,
// and the first that fit no more.
func breakOff(h casHistory, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, part := range info.PartialLinearizations() {
		for _, order := range part {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := make(map[int]bool, len(longest))
	for _, i := range longest {
		placed[i] = true
	}
	var text strings.Builder
	for _, i := range longest[max(0, len(longest)-6):] {
		fmt.Fprintf(&text, "\n    in order: %s", describe(h[i]))
	}
	var rest []porcupine.Operation
	for i, op := range h {
		if !placed[i] {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range rest[:min(8, len(rest))] {
		fmt.Fprintf(&text, "\n    left out: %s", describe(op))
	}
	return text.String()
}

func describe(op porcupine.Operation) string {
	return fmt.Sprintf("client %d, %.3fs to %.3fs, %+v: %+v", op.ClientId, float64(op.Call)/1e9, float64(op.Return)/1e9, op.Input, op.Output)
}
