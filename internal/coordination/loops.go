package coordination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mulligan/internal/dispatch"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
)

// loops is the loop detector (S10.2): the last calls of every named run, also
// those that other coordinators took in, as they tell (ADR 0014). It lives in
// memory, so that a call that repeats nothing costs no read and no write.
type loops struct {
	mu   sync.Mutex
	runs map[messages.Run]*window
	old  map[messages.Run]*window // forgotten when runs is full once more
}

// mostRuns is how many runs are surely remembered: those that had a call last.
// One takes some 5 KB.
const mostRuns = 5000

// window holds the last calls of a run, the oldest first.
type window struct{ calls []sighting }

// sighting is a call in a window.
type sighting struct {
	call string
	same string // of calls with the same tool and input; "" for one that is not compared
	end  string // digest of how it ended; "" while that is not known

	looked time.Time // when its end was last asked for in vain
}

// lookAgain is for how long a call that has not ended is not asked for again: a
// file of equal calls would ask for all of them with each.
const lookAgain = time.Second

func newLoops() *loops { return &loops{runs: make(map[messages.Run]*window)} }

// note puts a call into the window of its run, if it is not there already.
func (l *loops) note(c messages.CallSeen) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(c.Run)
	if slices.ContainsFunc(w.calls, func(s sighting) bool { return s.call == c.Call }) {
		return false
	}
	if len(w.calls) == recovery.LoopWindow {
		w.calls = w.calls[:copy(w.calls, w.calls[1:])]
	}
	w.calls = append(w.calls, sighting{call: c.Call, same: c.Same})
	return true
}

func (l *loops) window(run messages.Run) *window {
	if w := l.runs[run]; w != nil {
		return w
	}
	w := l.old[run]
	if w == nil {
		w = &window{}
	}
	if len(l.runs) >= mostRuns {
		l.runs, l.old = make(map[messages.Run]*window), l.runs
	}
	l.runs[run] = w
	return w
}

// like gives the calls in the window that are equal to c, without c itself.
func (l *loops) like(c messages.CallSeen) []sighting {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []sighting
	for _, s := range l.window(c.Run).calls {
		if s.same == c.Same && s.call != c.Call {
			out = append(out, s)
		}
	}
	return out
}

// learned remembers how a call ended, or that it had not when it was looked for.
func (l *loops) learned(run messages.Run, learned sighting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(run)
	if i := slices.IndexFunc(w.calls, func(s sighting) bool { return s.call == learned.call }); i >= 0 {
		w.calls[i] = learned
	}
}

// heard takes what another coordinator tells.
func (c *Coordinator) heard(body []byte) {
	seen, err := messages.DecodeCallsSeen(body)
	if err != nil {
		c.log.Debug("what a coordinator tells cannot be read", "error", err)
		return
	}
	if seen.By == c.cfg.Name {
		return
	}
	for _, call := range seen.Calls {
		c.loops.note(call)
	}
}

// listen hears the other coordinators until ctx is done.
func (c *Coordinator) listen(ctx context.Context, ready func()) {
	for p := pauses(); ; {
		err := c.broker.Hear(ctx, messages.PeerCalls, ready, c.heard)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("hearing the other coordinators ended and begins again", "error", err)
		if !p.Wait(ctx) {
			return
		}
	}
}

// looped notes a call of a named run and says why it is not to run: it is one
// too many of its kind. Nil lets it go on. What may be a repetition is never
// stopped, since its first copy may be running (P7.11); the next one is.
func (s *submission) looped(ctx context.Context, in incoming, input []byte) *dispatch.Refusal {
	call := in.call
	if !call.Run.Named() || call.Labels.ReplayOf() != "" { // replays are alike since their originals were
		return nil
	}
	p := s.c.policies.For(call.Queue, call.Tool, call.Policy)
	warn, stop := *p.LoopWarn, *p.LoopStop
	seen := messages.CallSeen{Run: call.Run, Call: call.ID}
	if warn > 0 || stop > 0 {
		seen.Same = recovery.Digest(call.Tool, input)[:16]
	}
	if s.c.loops.note(seen) {
		s.seen = append(s.seen, seen)
	}
	if seen.Same == "" || call.Repeat {
		return nil
	}
	like := s.c.loops.like(seen)
	if n := len(like) + 1; (warn == 0 || n < warn) && (stop == 0 || n < stop) {
		return nil
	}
	n, err := s.c.equalEnds(ctx, call.Run, like, s.now)
	if err != nil {
		s.c.log.Warn("whether a run repeats itself cannot be told", "run", call.Run.Name(), "tool", call.Tool, "error", err)
		return nil
	}
	n++
	log := s.c.log.With("run", call.Run.Name(), "tool", call.Tool, "call", call.ID, "equal", n)
	switch {
	case stop > 0 && n >= stop:
		s.c.metrics.Looped(true)
		log.Warn("a run is stopped: it repeats the same call")
		why := fmt.Sprintf("loop detected: tool '%s' was called %d times with the same arguments within the last %d calls of the run, and nothing changed",
			call.Tool, n, recovery.LoopWindow)
		return &dispatch.Refusal{Code: messages.CodeLoopDetected, Text: "dispatch refused before execution: " + why, Reason: why}
	case warn > 0 && n >= warn:
		s.c.metrics.Looped(false)
		log.Warn("a run repeats the same call")
	}
	return nil
}

// equalEnds is how many of equal calls ended like the last of them that has
// ended: a tool that says something new is no loop, nor is who has not heard yet
// what it said.
func (c *Coordinator) equalEnds(ctx context.Context, run messages.Run, like []sighting, now time.Time) (int, error) {
	last, ends := "", make(map[string]int)
	for _, s := range like {
		if s.end == "" && now.Sub(s.looked) >= lookAgain {
			end, err := c.endOf(ctx, run, s.call)
			if err != nil {
				return 0, err
			}
			s.end, s.looked = end, now
			c.loops.learned(run, s)
		}
		if s.end != "" {
			last = s.end
			ends[last]++
		}
	}
	return ends[last], nil
}

// endOf is the digest of how a call ended; "" when it has not, or nobody can tell.
func (c *Coordinator) endOf(ctx context.Context, run messages.Run, call string) (string, error) {
	m, err := c.broker.Get(ctx, c.names.ResultSubject(run, call))
	if errors.Is(err, messages.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the result of call %s: %w", call, err)
	}
	res, err := c.names.DecodeResult(m.Message)
	if err != nil {
		return "", nil //nolint:nilerr // of another version: not known
	}
	return endDigest(res), nil
}

// endDigest is what equal ends have in common: the status and what the tool said.
func endDigest(r messages.Result) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", r.Status)
	if r.Output.Ref != nil {
		fmt.Fprintf(h, "%s\n", r.Output.Ref.Digest)
	} else {
		h.Write(r.Output.Inline)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// tell lets the other coordinators know what this chunk brought: of a run, what
// fits their window.
func (s *submission) tell() {
	if len(s.seen) == 0 {
		return
	}
	last, count := []messages.CallSeen(nil), make(map[messages.Run]int)
	for _, seen := range slices.Backward(s.seen) {
		if count[seen.Run]++; count[seen.Run] <= recovery.LoopWindow {
			last = append(last, seen)
		}
	}
	slices.Reverse(last)
	b, err := messages.EncodeCallsSeen(messages.CallsSeen{By: s.c.cfg.Name, Calls: last})
	if err == nil {
		err = s.c.broker.Tell(messages.PeerCalls, b)
	}
	if err != nil {
		s.c.log.Debug("the other coordinators were not told of a chunk", "error", err)
	}
}

// stopRun ends the run of a call that the loop detector stopped: a hard end (S5.5).
func (c *Coordinator) stopRun(ctx context.Context, res messages.Result) error {
	return c.endRun(ctx, res.Run, messages.Cancel{
		Status: messages.Cancelled, Code: messages.CodeRunEnded, By: c.cfg.Name, At: time.Now().UTC(), Reason: "its run ended: " + res.Reason,
	})
}
